package faults

import "testing"

func TestSpecsAreReadAndWrongOnesRefused(t *testing.T) {
	_, err := parse("frontend:1#2/frontend.pending=stop@3, deviceowner/owner.start=exit:7,owner.turn=sleep:5ms")
	if err == nil {
		t.Error("got no error for an item that begins with a blank, want one")
	}
	s, err := parse("frontend:1#2/frontend.pending=stop@3,deviceowner/owner.start=exit:7,owner.turn=sleep:5ms,owner.turn=kill@9\n")
	if err != nil {
		t.Fatal(err)
	}
	if a := s["frontend.pending"][0]; a.process != "frontend:1#2" || a.verb != "stop" || a.at != 3 {
		t.Errorf("got %+v, want stop@3 for frontend:1#2", a)
	}
	if a := s["owner.start"][0]; a.code != 7 {
		t.Errorf("got exit code %d, want 7", a.code)
	}
	if n := len(s["owner.turn"]); n != 2 {
		t.Errorf("got %d actions at one point, want 2", n)
	}
	for _, wrong := range []string{"x", "x=y", "x=stop@0", "x=stop@-1", "x=sleep:soon", "x=exit:", "someone/x=stop", "frontend:a/x=stop", "frontend#-1/x=stop", "a=stop,,b=stop"} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("parse %q: got no error", wrong)
		}
	}
}

func TestCountedActionsHappenOnce(t *testing.T) {
	a := &action{at: 3}
	for visit := 1; visit <= 5; visit++ {
		if got := a.due(); got != (visit == 3) {
			t.Errorf("visit %d: got due %v", visit, got)
		}
	}
}

func TestProcessesAreToldApart(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "frontend:0#1", true},
		{"", "", true},
		{"frontend", "", false},
		{"frontend", "frontend:3#9", true},
		{"frontend:3", "frontend:3#9", true},
		{"frontend:3", "frontend:30#9", false},
		{"frontend#9", "frontend:3#9", true},
		{"frontend:3#8", "frontend:3#9", false},
		{"deviceowner#1", "deviceowner:0#1", true},
		{"deviceowner#1", "deviceowner:0#11", false},
		{"supervisor", "deviceowner:0#1", false},
	} {
		if got := means(c.pattern, c.name); got != c.want {
			t.Errorf("%q means %q: got %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
}
