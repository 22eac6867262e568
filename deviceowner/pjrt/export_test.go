package pjrt

// ObjectsAlive counts the plugin's objects that the shim holds, by kind, in the whole process.
var ObjectsAlive = objectsAlive
