package steer

import "testing"

func TestTryTellsWhatAttachGives(t *testing.T) {
	for _, c := range []struct {
		policy    Policy
		frontends int
		want      Policy
	}{{None, 4, None}, {Auto, 1, None}, {LeastConnections, 3, LeastConnections}} {
		got, err := Try(c.policy, c.frontends)
		if err != nil || got.Policy != c.want || got.Mechanism == "" {
			t.Errorf("%s for %d frontends: got %+v, %v, want policy %s", c.policy, c.frontends, got, err, c.want)
		}
	}
}
