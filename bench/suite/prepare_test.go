package suite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rankd/internal/testutil"
)

// An interrupted installation left a child of pip behind, which wrote into a folder that was gone.
func TestInterruptedPreparationLeavesNoProcess(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	note := filepath.Join(t.TempDir(), "pid")
	ended := make(chan error)
	go func() {
		ended <- (&suite{}).quietly(ctx, "/bin/sh", "-c", "trap '' TERM; sleep 600 & echo $! > "+note+".new; mv "+note+".new "+note+"; trap - TERM; wait")
	}()
	pid := 0
	testutil.Eventually(t, 10*time.Second, "the command's child", func() bool {
		text, err := os.ReadFile(note)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	})
	cancel()
	if err := <-ended; err == nil {
		t.Error("got no error")
	}
	testutil.Eventually(t, 10*time.Second, "the child's end", func() bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) })
}
