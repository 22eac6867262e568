package steer

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"rankd/internal/testutil"
)

// permitted skips a test where eBPF is not to be had.
func permitted(t testing.TB) {
	t.Helper()
	p, err := load(2, LeastConnections)
	if err != nil {
		t.Skipf("loads an eBPF program, which is not permitted here: %v", err)
	}
	p.close()
}

// unprivileged runs do on a thread without the capabilities that eBPF asks for.
func unprivileged(t testing.TB, do func()) {
	t.Helper()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var sets [2]unix.CapUserData
		if err = unix.Capget(&header, &sets[0]); err != nil {
			return
		}
		for _, c := range []int{unix.CAP_BPF, unix.CAP_SYS_ADMIN} {
			sets[c/32].Effective &^= 1 << (c % 32)
		}
		if err = unix.Capset(&header, &sets[0]); err == nil {
			do()
		}
	}()
	<-done
	if err != nil {
		t.Fatal(err)
	}
}

func TestI6AutoIsTheBestThatIsPermitted(t *testing.T) {
	permitted(t)
	for p, want := range map[Policy]Policy{Auto: LeastConnections, LeastConnections: LeastConnections, RoundRobin: RoundRobin} {
		b := newBank(t, 2)
		b.steer(p)
		if got := b.group.State(); got.Policy != want || got.Mechanism != ByEBPF || got.Fallback {
			t.Errorf("%s: got %+v, want %s by eBPF", p, got, want)
		}
	}
}

func TestI6WithoutPrivilegeClassicBPFStepsInAndSaysWhy(t *testing.T) {
	for _, p := range []Policy{Auto, LeastConnections, RoundRobin} {
		b := newBank(t, 2)
		var allowed error
		var g *Group
		var err error
		unprivileged(t, func() {
			var code *program
			if code, allowed = load(2, LeastConnections); allowed == nil {
				code.close()
			}
			g, err = Attach(b.options(p))
		})
		if allowed == nil {
			t.Skip("this system lets everyone load eBPF programs (kernel.unprivileged_bpf_disabled is 0)")
		}
		b.group = g
		if p == RoundRobin {
			if err == nil || !strings.Contains(err.Error(), "check --steering: got round-robin") || !strings.Contains(err.Error(), "CAP_BPF") {
				t.Errorf("got error %v, want round-robin refused with the capability that it needs", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := g.State(); got.Policy != LeastConnections || got.Mechanism != ByClassic || !got.Fallback || !strings.Contains(got.Why, "CAP_BPF") {
			t.Errorf("%s: got %+v, want least-connections by classic BPF, for want of CAP_BPF", p, got)
		}
	}
}

func TestI6WhereNoProgramIsTakenTheHashDecides(t *testing.T) {
	var plain []int // sockets that cannot be shared take none
	for range 2 {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		plain = append(plain, fd)
	}
	g, err := Attach(Options{Policy: Auto, Sockets: plain})
	if err != nil {
		t.Fatal(err)
	}
	if got := g.State(); got.Policy != None || got.Mechanism != ByHash || !got.Fallback {
		t.Errorf("got %+v, want the hash as the last resort", got)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Attach(Options{Policy: LeastConnections, Sockets: plain}); err == nil {
		t.Error("got no error for a policy that cannot be had, want one")
	}
}

func TestNothingIsSteeredWithOneFrontendOrIfNotWanted(t *testing.T) {
	for _, c := range []struct {
		sockets int
		policy  Policy
	}{{1, Auto}, {1, RoundRobin}, {3, None}} {
		b := newBank(t, c.sockets)
		b.steer(c.policy)
		if got := b.group.State(); got.Policy != None || got.Mechanism != ByHash || got.Fallback {
			t.Errorf("%s with %d sockets: got %+v, want nothing to steer", c.policy, c.sockets, got)
		}
	}
}

// TestSpread prints how evenly each way spreads few connections; the ways that are offered must be even.
func TestSpread(t *testing.T) {
	permitted(t)
	const rounds = 40
	fixed := func(code ...bpf.Instruction) func(b *bank) {
		return func(b *bank) {
			attachRaw(b.t, b.sockets[0], code)
			b.listen()
		}
	}
	const netOffset = 0xfff00000                               // SKF_NET_OFF: from the network header on
	half := bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 1} // clients take ports of one parity first
	for _, size := range []struct{ frontends, connections int }{{4, 8}, {16, 16}, {8, 20}} {
		rest := bpf.ALUOpConstant{Op: bpf.ALUOpMod, Val: uint32(size.frontends)}
		for _, way := range []struct {
			name  string
			steer func(b *bank)
			even  bool
		}{
			{"none", func(b *bank) { b.steer(None) }, false},
			{"random", fixed(bpf.LoadExtension{Num: bpf.ExtRand}, rest, bpf.RetA{}), false},
			{"source port", fixed(bpf.LoadAbsolute{Off: netOffset + 20, Size: 2}, half, rest, bpf.RetA{}), false},
			{"round-robin", func(b *bank) { b.steer(RoundRobin) }, true},
			{"least-connections", func(b *bank) { b.steer(LeastConnections) }, true},
		} {
			skew, uneven := 0.0, 0
			for range rounds {
				counts := fill(t, size.frontends, size.connections, way.steer, false)
				skew += float64(slices.Max(counts)) * float64(size.frontends) / float64(size.connections) / rounds
				if gap(counts) > 1 {
					uneven++
				}
			}
			t.Logf("%2d connections on %2d frontends, %-18s max/mean %.2f, %2d of %d rounds differ by more than one",
				size.connections, size.frontends, way.name+":", skew, uneven, rounds)
			if way.even && uneven > 0 {
				t.Errorf("%s: got %d uneven rounds, want none", way.name, uneven)
			}
			if way.name == "none" && uneven == 0 {
				t.Errorf("none: got no uneven round, want this test to see some")
			}
		}
	}
}

// fill opens connections one by one and says where they went. With patience it waits after each until the group knows.
func fill(t testing.TB, frontends, connections int, steer func(b *bank), patient bool) []int {
	t.Helper()
	b := newBank(t, frontends)
	defer b.close()
	steer(b)
	for range connections {
		b.connect()
		if patient {
			b.group.Renew()
		}
	}
	return b.open()
}

func attachRaw(t testing.TB, socket int, code []bpf.Instruction) {
	t.Helper()
	raw, err := bpf.Assemble(code)
	if err != nil {
		t.Fatal(err)
	}
	var filter []unix.SockFilter
	for _, r := range raw {
		filter = append(filter, unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K})
	}
	program := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.SetsockoptSockFprog(socket, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, program); err != nil {
		t.Fatal(err)
	}
}

func TestI3ConnectionsThatComeTogetherAreSpreadAsIfOneByOne(t *testing.T) {
	permitted(t)
	for _, c := range []struct {
		policy Policy
		most   int // gap
	}{
		{RoundRobin, 1},
		{LeastConnections, 2}, // two packets on two processors may see the same counts
	} {
		b := newBank(t, 4)
		b.steer(c.policy)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				conn, err := b.dial()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				b.clients = append(b.clients, client{Conn: conn})
				mu.Unlock()
			})
		}
		wg.Wait()
		testutil.Eventually(t, limit, "all connections to be accepted", func() bool { return sum(b.open()) == 64 })
		t.Logf("%s: %v", c.policy, b.open())
		if counts := b.open(); gap(counts) > c.most {
			t.Errorf("%s: got %v, want them to differ by at most %d", c.policy, counts, c.most)
		}
	}
}

// Clients come and go, and those that come later make up for those that went.
func TestLeastConnectionsFillsWhatClosingLeaves(t *testing.T) {
	permitted(t)
	b := newBank(t, 4)
	b.steer(LeastConnections)
	for range 16 {
		b.connect()
	}
	for _, emptied := range []int{2, 0, 3} {
		b.leave(func(_ int, c client) bool { return c.at == emptied })
		b.group.Renew()
		for range 4 {
			if c := b.connect(); c.at != emptied {
				t.Errorf("got a connection at %d, want it at %d, which has the fewest: %v", c.at, emptied, b.open())
			}
		}
	}
}

func TestRoundRobinDoesNotKnowWhatClosingLeaves(t *testing.T) {
	permitted(t)
	b := newBank(t, 4)
	b.steer(RoundRobin)
	for range 16 {
		b.connect()
	}
	b.leave(func(_ int, c client) bool { return c.at == 2 })
	for range 4 {
		b.connect()
	}
	if counts := b.open(); !slices.Equal(counts, []int{5, 5, 1, 5}) {
		t.Errorf("got %v, want one more each", counts)
	}
}

func TestI4FrontendThatIsNotLiveIsChosenOnlyIfNoneIs(t *testing.T) {
	for _, mechanism := range []Mechanism{ByEBPF, ByClassic} {
		t.Run(string(mechanism), func(t *testing.T) {
			b := newBank(t, 3)
			if mechanism == ByClassic {
				b.steerClassic()
			} else {
				permitted(t)
				b.steer(LeastConnections)
			}
			b.tellers[1].away.Store(true)
			b.group.Renew()
			for range 6 {
				if c := b.connect(); c.at == 1 {
					t.Errorf("got a connection at the dead one, want it at one that lives: %v", b.open())
				}
				b.group.Renew()
			}
			b.tellers[1].away.Store(false)
			b.group.Renew()
			for range 3 {
				if c := b.connect(); c.at != 1 {
					t.Errorf("got a connection at %d, want it at the one that came back empty: %v", c.at, b.open())
				}
				b.group.Renew()
			}
			for _, w := range b.tellers {
				w.away.Store(true)
			}
			b.group.Renew()
			for range 3 {
				b.connect() // it takes one of them
				b.group.Renew()
			}
			if counts := b.open(); gap(counts) > 1 {
				t.Errorf("got %v with none alive, want them to differ by at most one", counts)
			}
		})
	}
}

func TestClassicSpreadsConnectionsThatComeOneByOne(t *testing.T) {
	for _, size := range []struct{ frontends, connections int }{{4, 8}, {16, 16}} {
		for _, patient := range []bool{true, false} {
			const rounds = 20
			uneven := 0
			for range rounds {
				if gap(fill(t, size.frontends, size.connections, (*bank).steerClassic, patient)) > 1 {
					uneven++
				}
			}
			t.Logf("%d connections on %d frontends, each after the one before it is known %v: %d of %d rounds differ by more than one",
				size.connections, size.frontends, patient, uneven, rounds)
			if patient && uneven > 0 {
				t.Errorf("got %d uneven rounds, want none", uneven)
			}
		}
	}
}

func TestI2ProgramThatNamesNoSocketLeavesTheConnectionToTheHash(t *testing.T) {
	b := newBank(t, 2)
	attachRaw(t, b.sockets[0], []bpf.Instruction{bpf.RetConstant{Val: 7}})
	b.listen()
	for range 16 {
		b.connect()
	}
	if counts := b.open(); sum(counts) != 16 {
		t.Errorf("got %v, want 16 connections taken", counts)
	}
}

// The sockets stay in the group while nobody accepts from one of them, and keep their indices.
func TestI1ConnectionsOfADeadFrontendGoToItsSuccessor(t *testing.T) {
	permitted(t)
	b := newBank(t, 3)
	b.steer(RoundRobin)
	for range 3 {
		b.connect()
	}
	b.tellers[1].listener.Close() // its process is dead, the socket is not
	for range 3 {
		conn, err := b.dial()
		if err != nil {
			t.Fatal(err)
		}
		b.clients = append(b.clients, client{Conn: conn})
	}
	testutil.Eventually(t, limit, "two connections to be accepted", func() bool { return slices.Equal(b.open(), []int{2, 1, 2}) })
	if n, err := queued(b.sockets[1]); n != 1 || err != nil {
		t.Errorf("got %d connections in the dead one's queue, %v, want 1", n, err)
	}
	b.employ(1)
	testutil.Eventually(t, limit, "the successor to accept", func() bool { return slices.Equal(b.open(), []int{2, 2, 2}) })
	for range 3 {
		b.connect()
	}
	if counts := b.open(); !slices.Equal(counts, []int{3, 3, 3}) {
		t.Errorf("got %v, want three each", counts)
	}
}
