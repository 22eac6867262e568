# Deaths before READY are spaced out further and further, up to the limit.
run first=100ms limit=1s
died
died
died
died
died
died
----
100ms
200ms
400ms
800ms
1s
1s

# A death after READY is followed at once, and READY forgets what was before.
run first=100ms limit=1s
died
died
ready
died-ready
died
died
----
100ms
200ms
-
0s
100ms
200ms

# A limit that is not a power of two of the first wait is kept exactly.
run first=30ms limit=100ms
died
died
died
died
----
30ms
60ms
100ms
100ms

# The codes of children; -1 is death by a signal, 2 a crash of a Go program.
run first=1s limit=1s
exit 0
exit 1
exit 2
exit 3
exit -1
exit 78
exit 137
----
restart
restart
restart
rebuild
restart
give up
restart
