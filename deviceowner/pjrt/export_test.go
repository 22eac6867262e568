package pjrt

import "log/slog"

// ObjectsAlive counts the plugin's objects that the shim holds, by kind, in the whole process.
var ObjectsAlive = objectsAlive

// The backends that tests compare.
const (
	BackendShim  = "shim"
	BackendGoXLA = "go-xla"
)

// WithBackend chooses how the plugin is called.
func WithBackend(o Options, name string) Options {
	if name == BackendGoXLA {
		o.open = func(path string, o *Options, log *slog.Logger) (backend, error) {
			d, err := openXLA(path, o, log)
			if err != nil {
				return nil, err
			}
			return d, nil
		}
	}
	return o
}
