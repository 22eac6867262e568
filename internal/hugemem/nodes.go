package hugemem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"

	"golang.org/x/sys/unix"

	"rankd/internal/procmem"
)

// maxNode is the largest number of a node that the kernel's masks of this package have room for.
const maxNode = 1022

// allocateOn gives the file its pages on some nodes: on one, or by turns of one huge page. The kernel takes the node of the thread
// that allocates, whatever kind of pages it is; merged pages keep it, since the small ones of a huge one all lie there. A node that
// is full gives the page to another: what was obtained is read back.
func (o Options) allocateOn(ctx context.Context, f *File, turn int64, progress func(int64)) error {
	runtime.LockOSThread()
	chunk := int64(step)
	if len(o.Nodes) > 1 {
		chunk = turn
	}
	err := o.inTurns(ctx, f, chunk, progress)
	if reset := unix.SetMemPolicy(unix.MPOL_DEFAULT, nil); reset == nil || errors.Is(reset, unix.ENOSYS) {
		runtime.UnlockOSThread()
	} // else the thread stays locked and ends with its goroutine rather than allocating for others on the wrong node
	return err
}

func (o Options) inTurns(ctx context.Context, f *File, chunk int64, progress func(int64)) error {
	for off, turn := int64(0), 0; off < f.Size; off, turn = off+chunk, turn+1 {
		if turn == 0 || len(o.Nodes) > 1 {
			if err := preferNode(o.Nodes[turn%len(o.Nodes)]); err != nil {
				return fmt.Errorf("%w: %w", errNoPolicy, err)
			}
		}
		n := min(chunk, f.Size-off)
		if err := allocatePart(ctx, int(f.Fd()), off, n); err != nil {
			return err
		}
		progress(off + n)
	}
	return nil
}

var errNoPolicy = errors.New("memory cannot be placed on nodes")

// preferNode has the kernel take what this thread allocates from a node as long as that has any.
func preferNode(node int) error {
	if node < 0 || node > maxNode {
		return fmt.Errorf("prefer node %d: %w", node, unix.EINVAL)
	}
	var mask unix.CPUSet
	mask.Set(node)
	return unix.SetMemPolicy(unix.MPOL_PREFERRED, &mask)
}

// placed allocates the file on its nodes, or where that is not permitted wherever the kernel takes pages from.
func (o Options) placed(ctx context.Context, f *File, p place, progress func(int64)) error {
	if len(o.Nodes) == 0 {
		return allocate(ctx, int(f.Fd()), f.Size, progress)
	}
	err := o.allocateOn(ctx, f, p.pageSize, progress)
	if !errors.Is(err, errNoPolicy) {
		return err
	}
	o.Log.LogAttrs(ctx, slog.LevelWarn, "shared pages are not placed on nodes: the kernel decides",
		slog.String("file", o.Name), slog.Any("nodes", o.Nodes), slog.Any("error", err),
		slog.String("next", "in a container allow set_mempolicy and mbind, such as with the capability SYS_NICE"))
	return allocate(ctx, int(f.Fd()), f.Size, progress)
}

// keepPolicy tells the kernel which nodes the mapping's pages are for. They are there already; but with a policy of its own the kernel
// neither moves them to whoever reads them (NUMA balancing) nor takes faults to find out who does, and a page that was swapped out
// comes back to its node. tmpfs keeps the policy with the file, for all who map it. Where it is not permitted nothing else is lost.
func (o Options) keepPolicy(m *Mapping) {
	if len(o.Nodes) > 0 {
		_ = m.setPolicy(o.Nodes)
	}
}

// Nodes asks the kernel on which nodes the pages lie that this mapping has in this process, in bytes by node.
func (m *Mapping) Nodes() (map[int]int64, error) {
	list, err := procmem.ReadNUMA("self")
	if err != nil {
		return nil, err
	}
	lo := uint64(addressOf(m.Bytes))
	return procmem.SumNUMA(list, lo, lo+uint64(len(m.Bytes))), nil
}
