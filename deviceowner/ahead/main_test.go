package ahead

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/internal/testutil"
	"rankd/model"
)

// The test program is its own child: <program> ahead-child <mode> <folder of the bundle> <settings as JSON>.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "ahead-child" {
		if err := childMain(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testutil.Main(m)
}

func childMain(mode, dir, settings string) error {
	var s Settings
	if err := json.Unmarshal([]byte(settings), &s); err != nil {
		return err
	}
	b, err := model.Open(dir)
	if err != nil {
		return err
	}
	events := os.NewFile(EventFD, "events")
	e := gob.NewEncoder(events)
	begin := func() error {
		if err := e.Encode(event{Target: "nothing"}); err != nil {
			return err
		}
		return e.Encode(event{Begun: 4})
	}
	switch mode {
	case "crash": // as a plugin does that finds something wrong
		if err := begin(); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "F0000 check failed: something")
		return unix.Kill(os.Getpid(), unix.SIGKILL)
	case "hang":
		if err := begin(); err != nil {
			return err
		}
		select {} // a compilation that does not end
	case "linger": // in the plugin's own end
		if err := Child(context.Background(), b, s, events); err != nil {
			return err
		}
		select {}
	case "environment":
		return e.Encode(event{Failed: fmt.Sprintf("skip=%s log=%s", os.Getenv("TPU_SKIP_MDS_QUERY"), os.Getenv("TPU_LOG_DIR"))})
	}
	return Child(context.Background(), b, s, events)
}

// command is Options.Command for a mode.
func command(dir, mode string) func(Settings) []string {
	return func(s Settings) []string {
		text, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		return []string{"/proc/self/exe", "ahead-child", mode, dir, string(text)}
	}
}
