// Package shmring is the memory that frontends and the device owner share: batches under construction, filled in place by
// many processes and executed by one, without locks, and recoverable when any of them is killed at any instruction.
// It knows rows, not what is in them.
//
// # Nouns
//
//   - region: the mapped memory: a header with control words, a block per frontend, and the slabs.
//   - slab: one device batch under construction: Capacity rows as one packed array per dtype, their scores, a table of reservations.
//   - reservation: a run of rows in a slab that one writer fills and then commits.
//   - epoch: the number of a slab's life, never 0. Every slab word carries it, so that a stale word, or one that was never
//     written, reads as "not yet".
//   - writer token: the right of a frontend's goroutine to hold a reservation; its word is odd meanwhile.
//   - incarnation: the number of a process in a role (frontend i, owner), raised at each restart by the supervisor.
//
// # Life of a slab
//
//	        Open (next epoch)            Close                 Complete              Recycle
//	free ───────────────────────► open ─────────► closed ─────────────────► done ─────────────► free
//	      owner: counts, state          state CAS   committed == reserved,        pending == 0
//	                                                or grace; executed
//
// The phase is derived from four words and never stored, so that a killed owner leaves nothing half changed:
// state says open or closed and the epoch; done == epoch says that the scores are final; recycled == epoch says that
// everyone has read them.
//
// # Steps of a request
//
// Between any two stores that another process can see lies a named sync point (syncpoint.go), at which tests stop or kill the actor.
//
//	frontend                                             owner
//	 1 take a writer token, its word odd                  a if a slab is full, or the policy says so: closed bit by CAS
//	 2 CAS reserved += n on state                         b open the next free slab; ring the frontends that wait for room
//	 3 table entry, local registration                    c wait until committed == reserved, without holding up other slabs
//	 4 own bit in pending                                 d attempts += 1; execute the rows
//	 5 write the rows                                     e scores, status, done = epoch
//	 6 entry committed; committed += n                    f ring each frontend in pending
//	 7 ring the owner if it is parked                     g when pending is 0: recycled = epoch
//	 8 word even
//	 9 on the bell, after a commit, before parking: for
//	   each slab with done == the registered epoch copy
//	   the scores, clear the bit
//
// # Invariants
//
//	I1  A row of a slab's life has one owner at a time: its reserver until the commit, then the device owner until done,
//	    then its reserver again until the pending bit is cleared.
//	I2  reserved never exceeds Capacity and never shrinks in a life; reservations of a life don't overlap.
//	I3  A score reaches only the Completion that was registered with the rows it was computed from, and exactly once.
//	I4  A process killed at any instruction leaves the others able to make progress, after the supervisor has reaped it.
//	I5  No wake-up is lost while both sides live; if one dies, the other waits at most MaxPark.
//	I6  Peer-written words are read once, checked against constants of the geometry, and used from the copy.
//	I7  A slab is reused only when its scores were read by every live frontend in it, and the executor has given the memory back.
//	I8  A dead frontend is one that the supervisor has reaped; its next incarnation starts when no slab has its bit.
//	I9  A row that is not committed when a closed slab is executed belongs to a dead frontend: nobody waits for its score.
//
// # Layout
//
// Little-endian; offsets in bytes from the region's base. Words are grouped by writer on lines of 128 bytes.
//
//	offset  size  field               writer       readers    ordering
//	0x000      8  magic               supervisor   all        SYNC(format): stored last
//	0x008      4  version             supervisor   all        plain, before magic
//	0x00c      4  checksum            supervisor   all        plain, before magic
//	0x010     44  geometry            supervisor   all        plain, before magic
//	0x080      8  owner claim         owner        all        CAS
//	0x088      8  owner heartbeat     owner        supervisor
//	0x090      8  oldest launch       owner        supervisor
//	0x098      8  open mask           owner        frontends  SYNC(open)
//	0x0a0      4  primary             owner        frontends  a hint
//	0x100      4  owner's doorbell    all          all        SYNC(bell)
//	0x180      8  space mask          all          owner      SYNC(space)
//	0x200      8  deaths              supervisor   owner      SYNC(dead)
//	0x208      4  owner state         supervisor   frontends
//	0x20c      4  dead owner          supervisor   owner
//	0x210      4  draining            supervisor   frontends
//	0x280    256  dead incarnation    supervisor   all        SYNC(dead)
//	0x380    256  recovered           owner        all        SYNC(recovered)
//	0x480    256  kill request        owner        supervisor
//	0x1000        frontend blocks: claim, pending rows, one line of 64 bytes a writer word
//	              slabs: state | committed | pending | done, recycled, status, attempts, cursor | reservation table |
//	              results | packed arrays | scores; each array and the scores begin at a page boundary
//
// # Death
//
// Frontend. Only a reaped process is dead; the supervisor stores its incarnation and raises deaths. The owner then closes
// every open slab with rows, and marks every closed one: it may hold rows of the dead one. For
// those it takes a snapshot of all live writer words and waits until each odd one has changed. A writer that reserved
// before the close was odd in the snapshot and has committed when its word changes; one that turned odd later found the
// slab closed. So what is still uncommitted was the dead one's (I9), and is executed like padding. The owner clears the dead
// one's pending bits and publishes its incarnation as recovered. A live frontend that is stuck is not dead: the owner
// asks the supervisor to kill it (Stragglers).
//
// Owner. Committed rows are in the region. The successor derives every phase, runs a grace period for each closed slab
// (a frontend may have died meanwhile) and executes it: scoring is pure, so running twice is legal. attempts was raised
// before each execution: a slab whose execution had begun is run reservation by reservation, with the cursor naming the one
// being tried, so that rows on which the device crashes take only their own reservation down.
//
// Supervisor. All its children die with it; the next one formats a fresh region. The bytes of an old one are never used again.
//
// # Concurrency
//
// A Frontend may be used by any goroutine of its process. Owner and Supervisor belong to one goroutine each; Owner.Wake may
// be called by any. Nobody waits for another process while it holds a reservation, and every wait is bounded by MaxPark.
//
// # Simulation
//
// In a build with the tag ringsim the words of the region are wrappers that hand the processor to a simulator before each
// access. The simulator runs frontends, owner and supervisor as coroutines over this very code, decides from a seed who
// goes on, kills and stops processes between any two accesses, and checks every run: Check, one owner a row, each request of
// a living process answered once by what was computed from its own rows, nobody asleep with work left. "make sim" runs a
// million schedules, enumerates small cases, and hunts the deliberate bugs of testdata/mutants.txt, all of which it must
// find. A schedule that fails is reduced and printed with the command that repeats it.
//
// # Failure
//
// A word that can't be right goes to Region.OnCorrupt, which ends the process; the supervisor builds a new region. Misuse
// by the own process (a reservation larger than a slab) panics.
//
// # Rejected alternatives
//
//   - A ring of requests that the owner merges into batches: every pooled row would be copied once more, by the one process
//     that must not become the bottleneck.
//   - A lock per slab: a process killed while holding it stops everyone; robust futexes would make each commit a system call.
//   - Acknowledging requests instead of slabs: a cancelled request would have to be tracked for ever, or its rows leak.
//   - Clearing the reservation table at each open: the epoch in the entry says the same without touching memory.
package shmring
