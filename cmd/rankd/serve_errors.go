package main

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"rankd/internal/config"
	"rankd/internal/doctor"
	"rankd/internal/hugemem"
	"rankd/model"
	"rankd/tables"
)

// blame marks an error of loading tables as bad configuration if the bundle is the reason: another start would meet it again.
func blame(b *model.Bundle, err error) error {
	if err == nil || errors.Is(err, hugemem.ErrNoRoom) {
		return err
	}
	if wrong := b.CheckTensors(); wrong != nil {
		return fmt.Errorf("%w: %w; copy the bundle again, or make it anew", config.ErrBad, wrong)
	}
	if errors.Is(err, tables.ErrDigest) {
		return fmt.Errorf("%w: %w", config.ErrBad, err)
	}
	return err
}

// ended makes the last words of a server of what its supervisor returned, with the next step where there is one.
func (c *serveConfig) ended(err error) error {
	if err == nil {
		return nil
	}
	code := config.CodeOf(err, false)
	// The mark is for the exit code; what is wrong stands beside it.
	text := strings.ReplaceAll(err.Error(), config.ErrBad.Error()+": ", "")
	text = strings.TrimSuffix(text, ": "+config.ErrBad.Error())
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		for _, address := range []string{c.supervisor.Listen, c.supervisor.HTTP} {
			if by := doctor.This().Holding(address); by != "" && strings.Contains(text, address) {
				text += "; it is process " + by
			}
		}
	case errors.Is(err, hugemem.ErrNoRoom):
		text += "; rankd doctor with the same flags tells what to change"
	}
	return withCode(fmt.Errorf("serve: %w", &told{text, err}), code)
}

// told is an error with other words.
type told struct {
	text string
	err  error
}

func (t *told) Error() string { return t.text }
func (t *told) Unwrap() error { return t.err }
