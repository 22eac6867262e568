package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"rankd/frontend/wire/kservepb"
	"rankd/shmring"
	"rankd/supervisor"
)

// poison is a dense value that no example has. The simulated accelerator goes wrong on a row with it if it is told so.
const poison = 7777

// poisoned is a request of two rows of which the second has the poison.
func (e *exam) poisoned(t testing.TB, score scoring, pool *pooling) (list []tensor, want []float32) {
	t.Helper()
	x := e.examples[1]
	x.dense = slices.Clone(x.dense)
	x.dense[3] = poison
	list = e.tensors([]int{0, 1}, packedInt64)
	for i := range list {
		if list[i].name == "dense" {
			list[i].data = floats(floats(nil, e.examples[0].dense...), x.dense...)
		}
	}
	return list, []float32{e.examples[0].score, score(&x, pool.row(&x))}
}

// serving asks a frontend in every way that there is whether it serves; the answers must agree.
func (l *lane) serving(ctx context.Context) (bool, error) {
	var said []string
	for _, service := range []string{"", "rankd.v1.PredictionService", "inference.GRPCInferenceService"} {
		reply, err := healthpb.NewHealthClient(l.conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			return false, err
		}
		said = append(said, reply.GetStatus().String())
	}
	reply, err := l.infer.ServerReady(ctx, &kservepb.ServerReadyRequest{})
	if err != nil {
		return false, err
	}
	said = append(said, map[bool]string{true: "SERVING", false: "NOT_SERVING"}[reply.GetReady()])
	if len(slices.Compact(slices.Clone(said))) != 1 {
		return false, fmt.Errorf("got answers %q, want the same four times", said)
	}
	return said[0] == "SERVING", nil
}

// awaitServing waits until the server and every frontend say that they serve, or that they do not.
func (s *server) awaitServing(want bool, by [][]*lane) {
	s.t.Helper()
	last := ""
	s.until(limit, fmt.Sprintf("health and readiness to say %v everywhere", want), func() bool {
		code, text, err := s.get("/readyz")
		last = fmt.Sprintf("/readyz says %d %s %v", code, text, err)
		if err != nil || (code == http.StatusOK) != want {
			return false
		}
		for i, lanes := range by {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			got, err := lanes[0].serving(ctx)
			cancel()
			if last = fmt.Sprintf("frontend %d says %v %v", i, got, err); err != nil || got != want {
				return false
			}
		}
		return true
	}, func() string { return last })
}

// wantRefusals wants calls to end soon, refused with the time after which another try may help.
func (s *server) wantRefusals(e *exam, by [][]*lane) {
	s.t.Helper()
	for i, lanes := range by {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		began := time.Now()
		_, err := e.ask(ctx, lanes[0], []int{1, 2, 3}, perTable, 0)
		cancel()
		if took := time.Since(began); took > 2*time.Second {
			s.t.Errorf("got an answer of frontend %d after %v, want one within 2 s", i, took)
		}
		wantRefusal(s.t, err, codes.Unavailable, "device_restarting")
		retry := false
		for _, d := range status.Convert(err).Details() {
			if r, ok := d.(*errdetails.RetryInfo); ok && r.GetRetryDelay().AsDuration() > 0 {
				retry = true
			}
		}
		if !retry {
			s.t.Errorf("got refusal %v of frontend %d, want it to say when to try again", err, i)
		}
	}
}

// wantEndsWithin wants every failed call to have ended within so long after its start or after since, whatever came later.
func (l *load) wantEndsWithin(t testing.TB, since time.Time, most time.Duration) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.failures {
		from := f.began
		if from.Before(since) {
			from = since
		}
		if took := f.ended.Sub(from); took > most {
			t.Errorf("got a call that was refused %v after the device was lost, want at most %v: %v", took, most, f)
			return
		}
	}
}

func restarting(f failure) bool { return unavailable(f) && reasonOf(f.err) == "device_restarting" }

// wantProcesses wants the supervisor and its children, no more, and none that ended and was not waited for.
func (s *server) wantProcesses(children int) {
	s.t.Helper()
	var there, dead []string
	s.until(limit, fmt.Sprintf("%d processes", children+1), func() bool {
		there, dead = processesOf(s.instance), zombies(s.pid)
		return len(there) == children+1 && len(dead) == 0
	}, func() string { return fmt.Sprintf("running %q, dead %q", there, dead) })
}

// The device is lost in a way that shows only after --device-hang-timeout, and the next owner takes a while to come up.
// Meanwhile nobody waits long and nobody is told that all is well; then everything comes back by itself.
func TestHangingDeviceIsReplacedAndMeanwhileNobodyWaits(t *testing.T) {
	const hang = time.Second
	seed, b := seedOf(t), testModel(t)
	score := simulated(t, b.Manifest)
	e := newExam(t, b, seed, 2048, score)
	poisonedTensors, _ := e.poisoned(t, score, openPooling(t, b))
	for name, lose := range map[string]func(s *server, by [][]*lane){
		"hung in a device call": func(s *server, by [][]*lane) {
			ring := s.ring()
			defer ring.Close()
			done := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				_, err := by[0][0].predict.Predict(ctx, e.predictRequest(poisonedTensors))
				done <- err
			}()
			// The loop goes on to turn, so that only the age of the launch tells.
			s.until(limit, "a launch", func() bool { return s.scrape()["rankd_launches_in_flight"] > 0 }, func() string { return "" })
			turns := ring.View().Heartbeat
			s.until(hang/2, "the loop to turn", func() bool { return ring.View().Heartbeat > turns+1 }, func() string { return "" })
			if err := <-done; reasonOf(err) != "device_restarting" {
				s.t.Errorf("got %v for the call that hung, want it refused", err)
			}
		},
		"stopped": func(s *server, _ [][]*lane) { send(s.t, s.owner(), unix.SIGSTOP) },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, options{model: b.Dir, tags: []string{"faults"}, env: []string{
				fmt.Sprintf("RANKD_SIM_FAULTS=poison=%d,poison-action=hang,only=deviceowner#1", poison),
				"RANKD_FAULTS=deviceowner#2/owner.start=sleep:4s",
			}, flags: []string{"--executor=sim", "--sim-verify=full", "--frontends=2", "--device-hang-timeout=" + hang.String()}})
			by := s.lanes(2, 2)
			s.awaitServing(true, by)
			l := &load{exam: e, lanes: flat(by), callers: 8, seed: seed, rows: smallRows, deadline: 2 * patience}
			l.start()
			t.Cleanup(l.stop)
			l.progress(s, 50)
			lost, owner := time.Now(), s.owner()
			lose(s, by)
			s.until(limit, "the owner to be killed", func() bool { return !alive(owner) }, func() string { return "" })
			if took := time.Since(lost); took < hang {
				t.Errorf("got the owner killed after %v, want not before %v", took, hang)
			}
			s.awaitServing(false, by)
			s.wantRefusals(e, by)
			s.awaitWhole(owner)
			s.awaitServing(true, by)
			l.progress(s, 100)
			l.stop()
			l.wantRight(t)
			l.wantNoFailure(t, restarting)
			l.wantEndsWithin(t, lost.Add(hang), 2*time.Second+500*time.Millisecond) // the watch looks ten times a second
			if m := s.scrape(); m["rankd_owner_hang_kills_total"] != 1 || m["rankd_owner_restarts_total"] != 1 || m["rankd_frontend_restarts_total"] != 0 {
				t.Errorf("got %v kills, %v and %v restarts of owner and frontends, want 1, 1 and 0",
					m["rankd_owner_hang_kills_total"], m["rankd_owner_restarts_total"], m["rankd_frontend_restarts_total"])
			}
			s.wantProcesses(3)
			s.wantAtRest()
		})
	}
}

func TestDeviceOwnerThatCrashesFiveTimesAtStartComesUp(t *testing.T) {
	crashes := func(first int) string {
		var items []string
		for n := first; n < first+5; n++ {
			items = append(items, fmt.Sprintf("deviceowner#%d/owner.start=exit:1", n))
		}
		return "RANKD_FAULTS=" + strings.Join(items, ",")
	}
	seed, b := seedOf(t), testModel(t)
	e := newExam(t, b, seed, 2048, simulated(t, b.Manifest))
	flags := []string{"--executor=sim", "--sim-verify=full", "--frontends=2"}
	t.Run("of the server", func(t *testing.T) {
		s := newServer(t, options{model: b.Dir, flags: flags, tags: []string{"faults"}, env: []string{crashes(1)}})
		s.start()
		said := ""
		s.until(startLimit, "a server that says why it is not ready", func() bool {
			if st := s.state(); st != nil && st.HTTP != "" {
				s.http = st.HTTP
				var code int
				code, said, _ = s.get("/readyz")
				return code == http.StatusServiceUnavailable && strings.Contains(said, "backing off") && strings.Contains(said, "exit code 1")
			}
			return false
		}, func() string { return said })
		s.awaitReady()
		s.probe(e, seed)
		if got := s.scrape()["rankd_owner_restarts_total"]; got != 5 {
			t.Errorf("got %v restarts, want 5", got)
		}
		s.wantProcesses(3)
		s.wantAtRest()
	})
	t.Run("of a successor", func(t *testing.T) {
		s := serve(t, options{model: b.Dir, flags: flags, tags: []string{"faults"}, env: []string{crashes(2)}})
		by := s.lanes(2, 2)
		l := &load{exam: e, lanes: flat(by), callers: 8, seed: seed, rows: smallRows, deadline: 2 * patience}
		l.start()
		t.Cleanup(l.stop)
		l.progress(s, 50)
		lost, owner := time.Now(), s.owner()
		send(t, owner, unix.SIGKILL)
		s.awaitServing(false, by)
		s.wantRefusals(e, by)
		s.awaitWhole(owner)
		s.awaitServing(true, by)
		back := time.Since(lost)
		l.progress(s, 100)
		l.stop()
		l.wantRight(t)
		l.wantNoFailure(t, restarting)
		l.wantEndsWithin(t, lost, 2*time.Second+500*time.Millisecond)
		if back < 3*time.Second {
			t.Errorf("got five starts within %v, want them spaced out: 0.1 s, 0.2 s, up to 1.6 s", back)
		}
		if m := s.scrape(); m["rankd_owner_restarts_total"] != 6 || m["rankd_frontend_restarts_total"] != 0 {
			t.Errorf("got %v and %v restarts of owner and frontends, want 6 and 0", m["rankd_owner_restarts_total"], m["rankd_frontend_restarts_total"])
		}
		s.wantProcesses(3)
		s.wantAtRest()
	})
}

// What was committed when the owner died is executed by the next one, however long that takes to come: the server goes on to
// say that it serves, since an owner that was ready is started again at once.
func TestSuccessorServesWhatWasCommitted(t *testing.T) {
	seed, b := seedOf(t), testModel(t)
	e := newExam(t, b, seed, 2048, simulated(t, b.Manifest))
	s := serve(t, options{
		model: b.Dir, tags: []string{"faults"}, env: []string{"RANKD_FAULTS=deviceowner#2/owner.start=sleep:1s"},
		flags: []string{"--executor=sim", "--sim-verify=full", "--frontends=2"},
	})
	by := s.lanes(2, 1)
	ring := s.ring()
	defer ring.Close()
	rng := random(seed, "committed")
	owner := s.owner()
	send(t, owner, unix.SIGSTOP)
	var calls sync.WaitGroup
	rows := 0
	for n := range 40 {
		picks := e.pick(rng, 1+rng.IntN(10))
		rows += len(picks)
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if _, err := e.ask(ctx, by[n%2][0], picks, packedInt32, n%3); err != nil {
				t.Errorf("a call of %d rows: %v", len(picks), err)
			}
		})
	}
	committed := 0
	s.until(limit, "all rows to be committed", func() bool {
		committed = 0
		for _, slab := range ring.View().Slabs {
			if slab.Phase == shmring.PhaseOpen || slab.Phase == shmring.PhaseClosed {
				committed += slab.Committed
			}
		}
		return committed == rows
	}, func() string { return fmt.Sprintf("%d of %d", committed, rows) })
	send(t, owner, unix.SIGKILL)
	s.until(limit, "the killed owner to be reaped", func() bool {
		return !slices.ContainsFunc(s.state().Children, func(c supervisor.Child) bool { return c.PID == owner.PID })
	}, func() string { return "" })
	s.awaitServing(true, by)
	calls.Wait()
	s.awaitWhole(owner)
	s.wantProcesses(3)
	s.wantAtRest()
}

// While the next owner takes its time, calls wait. When it is there, nobody is refused because others have waited long.
func TestOwnerThatTakesLongToComeBackFailsNoCall(t *testing.T) {
	seed, b := seedOf(t), testModel(t)
	s := serve(t, options{
		model: b.Dir, tags: []string{"faults"}, env: []string{"RANKD_FAULTS=deviceowner#2/owner.start=sleep:3s"},
		flags: []string{"--executor=sim", "--sim-verify=full", "--frontends=2", "--buckets=1,4,16"},
	})
	l := &load{
		exam: newExam(t, b, seed, 2048, simulated(t, b.Manifest)), lanes: flat(s.lanes(2, 2)), callers: 32, seed: seed,
		rows: smallRows, deadline: patience,
	}
	l.start()
	t.Cleanup(l.stop)
	l.progress(s, 200)
	owner := s.owner()
	send(t, owner, unix.SIGKILL)
	s.awaitWhole(owner)
	l.progress(s, 1000)
	l.stop()
	l.wantRight(t)
	l.wantNoFailure(t, noExcuse)
	s.wantAtRest()
}

// One request brings the device down, or makes it hang, whenever it is executed. It alone is refused.
func TestRequestThatBringsTheDeviceDownIsRefusedAlone(t *testing.T) {
	seed, b := seedOf(t), testModel(t)
	score := simulated(t, b.Manifest)
	e := newExam(t, b, seed, 2048, score)
	list, _ := e.poisoned(t, score, openPooling(t, b))
	for action, excused := range map[string]func(failure) bool{"crash": noExcuse, "hang": restarting, "fail": noExcuse} {
		t.Run(action, func(t *testing.T) {
			s := serve(t, options{
				model: b.Dir, tags: []string{"faults"},
				env:   []string{fmt.Sprintf("RANKD_SIM_FAULTS=poison=%d,poison-action=%s", poison, action)},
				flags: []string{"--executor=sim", "--sim-verify=full", "--frontends=2", "--device-hang-timeout=1s", "--batching=linger", "--max-delay=5ms"},
			})
			by := s.lanes(2, 2)
			l := &load{exam: e, lanes: flat(by), callers: 16, seed: seed, rows: smallRows, deadline: 2 * patience}
			l.start()
			t.Cleanup(l.stop)
			l.progress(s, 100)
			ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
			defer cancel()
			_, err := by[0][0].predict.Predict(ctx, e.predictRequest(list))
			if action == "hang" && reasonOf(err) == "device_restarting" {
				// Calls do not wait for a device that was killed for hanging; its rows are dropped by the next one.
				t.Logf("refused while the device was replaced: %v", err)
			} else {
				wantRefusal(t, err, codes.Internal, "device_error")
			}
			l.progress(s, 100)
			s.awaitWhole()
			l.stop()
			l.wantRight(t)
			l.wantNoFailure(t, excused)
			m := s.scrape()
			t.Logf("%v restarts of the device owner, %v kills, %v reruns, %v device errors, %v crashers refused", m["rankd_owner_restarts_total"],
				m["rankd_owner_hang_kills_total"], m["rankd_batch_reruns_total"], m["rankd_device_errors_total"], m["rankd_refused_crashers_total"])
			if got := m["rankd_owner_restarts_total"]; got > 3 || action == "fail" && got != 0 || action != "fail" && got == 0 {
				t.Errorf("got %v restarts of the device owner, want 1 to 3 after a crash or a hang and none otherwise", got)
			}
			s.wantProcesses(3)
			s.wantAtRest()
		})
	}
}
