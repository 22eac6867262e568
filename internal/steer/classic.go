package steer

import (
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// classic is the classic BPF program of a group, which is replaced whenever the sockets with the fewest connections are
// others than before.
type classic struct {
	sockets []int
	chosen  []int // what the present program chooses from
}

func attachClassic(sockets []int) (rule, error) {
	c := &classic{sockets: sockets}
	all := make([]int, len(sockets))
	for i := range all {
		all[i] = i
	}
	if err := c.choose(all); err != nil {
		return nil, err
	}
	return c, nil
}

// choose attaches a program that takes one of some sockets at random.
func (c *classic) choose(from []int) error {
	raw, err := bpf.Assemble(oneOf(from))
	if err != nil {
		return fmt.Errorf("assemble classic program: %w", err)
	}
	code := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		code[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	filter := &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if err := unix.SetsockoptSockFprog(c.sockets[0], unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, filter); err != nil {
		return fmt.Errorf("attach classic program to socket: %w", err)
	}
	c.chosen = from
	return nil
}

// oneOf returns the index of one of some sockets at random.
func oneOf(from []int) []bpf.Instruction {
	last := len(from) - 1
	if last == 0 {
		return []bpf.Instruction{bpf.RetConstant{Val: uint32(from[0])}}
	}
	code := []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtRand},
		bpf.ALUOpConstant{Op: bpf.ALUOpMod, Val: uint32(len(from))},
	}
	for k, i := range from[:last] {
		code = append(code,
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(k), SkipFalse: 1},
			bpf.RetConstant{Val: uint32(i)},
		)
	}
	return append(code, bpf.RetConstant{Val: uint32(from[last])})
}

// renew replaces the program if others than before have the fewest connections.
func (c *classic) renew(_ time.Time, load func(i int) Load) error {
	var from []int
	least := int64(math.MaxInt64)
	for i, socket := range c.sockets {
		has, err := queued(socket) // before the load: a connection on its way is rather seen twice than not at all
		if err != nil {
			return err
		}
		l := load(i)
		if has += l.Open; !l.Live {
			has += aside // I4
		}
		if has < least {
			least, from = has, nil
		}
		if has == least {
			from = append(from, i)
		}
	}
	if slices.Equal(from, c.chosen) {
		return nil
	}
	return c.choose(from)
}

func (c *classic) close() error { return nil }
