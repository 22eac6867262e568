package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestErrorsAreToldOnce(t *testing.T) {
	stopped := fmt.Errorf("compile bucket 4: %w", context.Canceled)
	for want, err := range map[string]error{
		"interrupted": context.Canceled,
		"interrupted: compile model: compile bucket 4":     fmt.Errorf("compile model: %w", stopped),
		"interrupted: compile bucket 4":                    errors.Join(stopped, stopped, context.Canceled),
		"interrupted: compile bucket 4\nstop server: gone": errors.Join(stopped, errors.New("stop server: gone")),
		"open x: gone": errors.Join(errors.New("open x: gone"), errors.New("open x: gone")),
		"a\nb":         errors.Join(errors.New("a"), errors.New("b")),
	} {
		if got := errorText(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
