package shmring

// syncPoint names a place between two steps of the protocol. A process may be killed at any instruction; what matters is
// between which stores, and each such place has a name, at which tests with real processes stop or kill them. The
// simulation interrupts its actors before every access to a shared word and shows the names in its traces.
type syncPoint string

// The sync points, in the order in which one request meets them.
const (
	pointWriterOdd      syncPoint = "frontend.writer_odd"      // the writer word is odd, nothing reserved yet
	pointReserved       syncPoint = "frontend.reserved"        // rows reserved, not registered
	pointRegistered     syncPoint = "frontend.registered"      // registered in this process, pending bit not set
	pointPending        syncPoint = "frontend.pending"         // pending bit set, rows not written
	pointEntryCommitted syncPoint = "frontend.entry_committed" // the entry says committed, the count does not
	pointCommitted      syncPoint = "frontend.committed"       // counted, the owner not rung
	pointCommitRung     syncPoint = "frontend.commit_rung"     // rung, the writer word still odd
	pointWriterEven     syncPoint = "frontend.writer_even"     // the writer word is even
	pointSpaceAnnounced syncPoint = "frontend.space_announced" // the bit in the space mask is set, not rechecked
	pointTaken          syncPoint = "frontend.taken"           // registrations of a done slab taken out, not delivered
	pointDelivered      syncPoint = "frontend.delivered"       // delivered, not acked
	pointAcked          syncPoint = "frontend.acked"           // pending bit cleared, the owner not rung
	pointBellCleared    syncPoint = "ring.bell_cleared"        // the owner's bell taken, the wake-up not sent

	pointOpening       syncPoint = "owner.opening"        // counts reset, the state still the old life's
	pointOpened        syncPoint = "owner.opened"         // state open, the mask not
	pointOpenMasked    syncPoint = "owner.open_masked"    // in the mask, waiters not rung
	pointSpaceTaken    syncPoint = "owner.space_taken"    // the space mask taken, waiters not rung
	pointClosed        syncPoint = "owner.closed"         // closed bit set, still in the mask
	pointAttempt       syncPoint = "owner.attempt"        // attempt counted, not launched
	pointStatus        syncPoint = "owner.status"         // scores and status final, done not
	pointDone          syncPoint = "owner.done"           // done, frontends not rung
	pointRecycled      syncPoint = "owner.recycled"       // the slab is free
	pointBitsCleared   syncPoint = "owner.bits_cleared"   // a dead frontend's bits cleared, not announced
	pointParkAnnounced syncPoint = "owner.park_announced" // parked is announced, not rechecked
	pointDeadStored    syncPoint = "supervisor.dead_stored"
)
