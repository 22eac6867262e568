package steer

import "time"

const (
	// settleTime is how long a frontend must have been quiet for its picks to be compared with what it has accepted. It is
	// longer than a handshake that loses a packet.
	settleTime = 3 * time.Second
	// aside is added to the connections of a frontend that is not live, so that it is chosen last (I4).
	aside = 1 << 32
)

// account tells the picks of one socket from its open connections.
//
// A pick stands for a connection from the first packet on: while it is established, while it waits to be accepted, and
// while it is open. It ends when the connection is closed, which the frontend's counters tell: accepted - open. Some
// picks never become a connection (a client that gave up, a stray packet, a flood): those are lost. How many
// is known only when nothing is on its way, so lost is corrected when neither picks nor accepted have changed for
// settleTime (I5). Until then lost picks count as connections, and since the policy spreads them like those, they
// hardly change the order.
type account struct {
	picks, accepted uint64
	changed         time.Time // when one of them was last seen to change
	lost            int64
}

// correction is what has to be added to the picks of a socket.
func (a *account) correction(now time.Time, picks uint64, l Load, waiting int64) uint64 {
	switch {
	case picks != a.picks || l.Accepted != a.accepted || a.changed.IsZero():
		a.picks, a.accepted, a.changed = picks, l.Accepted, now
	case now.Sub(a.changed) >= settleTime:
		a.lost = int64(picks) - int64(l.Accepted) - waiting
	}
	over := int64(l.Accepted) - l.Open + a.lost
	over = min(over, int64(picks)) // less than none would be more than all
	if l.Live {
		return uint64(-over)
	}
	return uint64(aside - over)
}
