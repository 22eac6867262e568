package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"rankd/e2e/loaded"
	"rankd/internal/testutil"
	"rankd/top"
)

func TestMain(m *testing.M) { testutil.Main(m) }

const limit = time.Minute

// chromium is the path of a browser.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	loaded.Missing(t, "RANKD_REQUIRE_BROWSER", "there is no Chromium: apt-get install chromium")
	return ""
}

// seen is what the browser did and complained about.
type seen struct {
	mu       sync.Mutex
	requests []string
	errors   []string
}

func (s *seen) listen(ctx context.Context) {
	chromedp.ListenTarget(ctx, func(event any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			s.requests = append(s.requests, e.Request.URL)
		case *runtime.EventExceptionThrown:
			s.errors = append(s.errors, e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
				s.errors = append(s.errors, fmt.Sprint(e.Args))
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
				s.errors = append(s.errors, e.Entry.Text)
			}
		}
	})
}

func TestStatusPageInABrowser(t *testing.T) {
	path := chromium(t)
	server, end := loaded.Start(t, "RANKD_REQUIRE_BROWSER")
	http := server.HTTP
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	defer stop()
	ctx, cancel := chromedp.NewContext(allocator)
	defer cancel()
	ctx, cancelTime := context.WithTimeout(ctx, 3*limit)
	defer cancelTime()
	run := func(actions ...chromedp.Action) {
		t.Helper()
		if err := chromedp.Run(ctx, actions...); err != nil {
			t.Fatal(err)
		}
	}
	value := func(script string) (v any) {
		t.Helper()
		run(chromedp.Evaluate(script, &v))
		return v
	}
	var s seen
	s.listen(ctx)
	run(log.Enable(), network.Enable(), chromedp.EmulateViewport(1400, 1000), chromedp.Navigate("http://"+http+"/statusz"), chromedp.WaitVisible("#processes"))

	points := `[...document.querySelectorAll("polyline")].map(p => p.getAttribute("points").trim().split(" ").length)[0] || 0`
	before := value(points).(float64)
	testutil.Eventually(t, limit, "plots to go on without a reload", func() bool { return value(points).(float64) >= before+2 })
	testutil.Eventually(t, limit, "rows a second", func() bool {
		return value(`parseFloat([...document.querySelectorAll(".card h2")].find(h => h.textContent.startsWith("Rows")).querySelector("b").textContent) > 0`).(bool)
	})
	if n := value(`document.querySelectorAll("svg[role=img][aria-label]").length`).(float64); n < 7 {
		t.Errorf("got %v charts with a label, want 7", n)
	}
	if text := value(`document.body.innerText`).(string); !strings.Contains(text, "simulated accelerator") || !strings.Contains(text, "frontend 1") || !strings.Contains(text, "server is ready") {
		t.Errorf("got the page\n%s", text)
	}
	picture(t, ctx, "desktop-light")

	light := value(`getComputedStyle(document.body).backgroundColor`).(string)
	run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	if dark := value(`getComputedStyle(document.body).backgroundColor`).(string); dark == light {
		t.Errorf("in the dark: got the same background %s", dark)
	}
	picture(t, ctx, "desktop-dark")
	run(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile), emulation.SetEmulatedMedia())
	if wide := value(`document.documentElement.scrollWidth - innerWidth`).(float64); wide > 0 {
		t.Errorf("on a phone the page is %v pixels too wide", wide)
	}
	picture(t, ctx, "phone")

	r, err := top.Read(t.Context(), http)
	if err != nil {
		t.Fatal(err)
	}
	victim := r.Status.Processes[1].PID
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, limit, "the death on the page", func() bool {
		text := value(`document.querySelector("#events").parentElement.innerText`).(string)
		return strings.Contains(text, "child has ended") && strings.Contains(text, fmt.Sprint("pid ", victim))
	})
	end()
	testutil.Eventually(t, limit, "the page to say that nobody answers", func() bool { return value(`!document.querySelector("#lost").hidden`).(bool) })
	picture(t, ctx, "phone-without-answer")
	cancel()

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.requests {
		if !strings.HasPrefix(u, "http://"+http+"/") && !strings.HasPrefix(u, "data:") {
			t.Errorf("I1: got a request to %s", u)
		}
	}
	for _, e := range s.errors {
		if !strings.Contains(e, "ERR_CONNECTION_REFUSED") && !strings.Contains(e, "ERR_CONNECTION_RESET") && !strings.Contains(e, "ERR_EMPTY_RESPONSE") { // of the server that we ended
			t.Errorf("the browser says: %s", e)
		}
	}
}

// picture keeps a picture of the whole page.
func picture(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("RANKD_PICTURES")
	if dir == "" {
		return
	}
	var png []byte
	if err := chromedp.Run(ctx, chromedp.FullScreenshot(&png, 100)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}
