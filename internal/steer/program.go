package steer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// word is the size of the words in both maps.
const word = 8

// program is the eBPF program of a group and what it shares with us. Each map has one entry, an array of words:
//
//	picks        written by the program: whose turn it is, then the picks of each socket
//	corrections  written by renew: of each socket
type program struct {
	sockets     []int
	picks       *ebpf.Map
	corrections *ebpf.Map // nil: the policy does not ask for loads
	code        *ebpf.Program
	accounts    []account
	written     []byte // the present value of corrections
}

// attachProgram attaches the program of a policy to a group.
func attachProgram(sockets []int, policy Policy) (rule, error) {
	p, err := load(len(sockets), policy)
	if err != nil {
		return nil, err
	}
	p.sockets = sockets
	if err := unix.SetsockoptInt(sockets[0], unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_EBPF, p.code.FD()); err != nil {
		p.close()
		return nil, fmt.Errorf("attach program to socket: %w", err)
	}
	return p, nil
}

// load puts the program for n sockets into the kernel, without attaching it.
func load(n int, policy Policy) (*program, error) {
	p := &program{accounts: make([]account, n), written: make([]byte, n*word)}
	var err error
	if p.picks, err = newArray("rankd_picks", 1+n); err != nil {
		return nil, err
	}
	if policy == LeastConnections {
		if p.corrections, err = newArray("rankd_correct", n); err != nil {
			p.close()
			return nil, err
		}
	}
	p.code, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "rankd_steer", Type: ebpf.SocketFilter, License: "Apache-2.0", Instructions: instructions(p.picks, p.corrections, n),
	})
	if err != nil {
		p.close()
		return nil, fmt.Errorf("load program: %w", err)
	}
	return p, nil
}

func newArray(name string, words int) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(words * word), MaxEntries: 1})
	if err != nil {
		return nil, fmt.Errorf("make map: %w", err)
	}
	return m, nil
}

const (
	toHash = "hash" // where the program gives up: the kernel's hash decides (I2)
	// A key orders the sockets by connections, and equal ones by how long their turn is away.
	turnBits = 6 // 64 sockets at most
)

// instructions chooses one of n sockets: the next in turn, or, if there are corrections, the one with the smallest key.
//
//	R6 smallest key   R7 corrections   R8 picks   R9 whose turn it is, then the choice
//
// The search is unrolled and compares whole keys, so that all addresses are constants and the verifier sees one path.
func instructions(picks, corrections *ebpf.Map, n int) asm.Instructions {
	code := asm.Instructions{asm.StoreImm(asm.RFP, -4, 0, asm.Word)} // the key of either map's only entry
	code = append(code, entry(picks, asm.R8)...)
	take := asm.FetchAdd.Mem(asm.R8, asm.R9, asm.DWord, 0)
	take.Constant = 1 // BPF_FETCH, which version 0.22 of the library leaves out: the old value would not come back
	code = append(code,
		asm.Mov.Imm(asm.R9, 1),
		take,
		asm.Mod.Imm(asm.R9, int32(n)),
	)
	if corrections != nil {
		code = append(code, entry(corrections, asm.R7)...)
		code = append(code, asm.Mov.Imm(asm.R6, -1)) // the largest key
		for i := range n {
			code = append(code, compare(i, n)...)
		}
		code = append(code,
			asm.And.Imm(asm.R6, 1<<turnBits-1).WithSymbol(after(n-1)),
			asm.Add.Reg(asm.R9, asm.R6),
			asm.Mod.Imm(asm.R9, int32(n)),
		)
	}
	return append(code,
		asm.JGE.Imm(asm.R9, int32(n), toHash), // never: the verifier does not see what a remainder is
		asm.Mov.Reg(asm.R0, asm.R9),
		asm.LSh.Imm(asm.R9, 3),
		asm.Add.Reg(asm.R9, asm.R8),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R9, asm.R1, asm.DWord, word), // I3
		asm.Return(),
		asm.Mov.Imm(asm.R0, -1).WithSymbol(toHash), // the index of no socket
		asm.Return(),
	)
}

// entry loads the address of a map's only value.
func entry(m *ebpf.Map, into asm.Register) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, toHash),
		asm.Mov.Reg(into, asm.R0),
	}
}

// compare takes the key of socket i if it is smaller than all before.
func compare(i, n int) asm.Instructions {
	first := asm.LoadMem(asm.R1, asm.R8, int16((1+i)*word), asm.DWord)
	if i > 0 {
		first = first.WithSymbol(after(i - 1))
	}
	return asm.Instructions{
		first,
		asm.LoadMem(asm.R2, asm.R7, int16(i*word), asm.DWord),
		asm.Add.Reg(asm.R1, asm.R2),
		asm.LSh.Imm(asm.R1, turnBits),
		asm.Mov.Imm(asm.R2, int32(i+n)),
		asm.Sub.Reg(asm.R2, asm.R9),
		asm.Mod.Imm(asm.R2, int32(n)),
		asm.Or.Reg(asm.R1, asm.R2),
		asm.JGE.Reg(asm.R1, asm.R6, after(i)),
		asm.Mov.Reg(asm.R6, asm.R1),
	}
}

func after(i int) string { return fmt.Sprintf("after%d", i) }

// renew writes the corrections. Preconditions: the policy has some.
func (p *program) renew(now time.Time, load func(i int) Load) error {
	picks, err := p.readPicks()
	if err != nil {
		return err
	}
	fresh := make([]byte, 0, len(p.written))
	for i := range p.accounts {
		waiting, err := queued(p.sockets[i])
		if err != nil {
			return err
		}
		fresh = binary.NativeEndian.AppendUint64(fresh, p.accounts[i].correction(now, picks[i], load(i), waiting))
	}
	if slices.Equal(fresh, p.written) {
		return nil
	}
	if err := p.corrections.Put(uint32(0), fresh); err != nil {
		return fmt.Errorf("write corrections: %w", err)
	}
	p.written = fresh
	return nil
}

// readPicks reads how often each socket was chosen.
func (p *program) readPicks() ([]uint64, error) {
	value, err := p.picks.LookupBytes(uint32(0))
	if err != nil {
		return nil, fmt.Errorf("read picks: %w", err)
	}
	picks := make([]uint64, len(p.accounts))
	for i := range picks {
		picks[i] = binary.NativeEndian.Uint64(value[(1+i)*word:])
	}
	return picks, nil
}

func (p *program) close() error {
	var errs []error
	for _, m := range []*ebpf.Map{p.picks, p.corrections} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	if p.code != nil {
		errs = append(errs, p.code.Close())
	}
	return errors.Join(errs...)
}
