package supervisor

import (
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// notifier talks to the service manager, if there is one. What it cannot say is lost: serving goes on without it.
type notifier struct {
	conn  *net.UnixConn
	every time.Duration // between two feedings of the watchdog; 0: no watchdog
	fed   time.Time
	said  string // the last status
}

func newNotifier() *notifier {
	n := &notifier{}
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return n
	}
	n.conn, _ = net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"}) // "@" names an abstract socket
	pid := os.Getenv("WATCHDOG_PID")
	if usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64); err == nil && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.every = time.Duration(usec) * time.Microsecond / 3
	}
	return n
}

// send says something that matters. It waits for a service manager that does not read, but not for long: the loop stands
// still meanwhile.
func (n *notifier) send(lines ...string) { n.sendWithin(time.Second, lines...) }

func (n *notifier) sendWithin(limit time.Duration, lines ...string) {
	if n.conn == nil {
		return
	}
	_ = n.conn.SetWriteDeadline(time.Now().Add(limit))
	_, _ = n.conn.Write([]byte(strings.Join(lines, "\n")))
}

// feed tells the watchdog that all is well, no more often than it needs to hear it.
func (n *notifier) feed(now time.Time) {
	if n.every > 0 && now.Sub(n.fed) >= n.every {
		n.fed = now
		n.sendWithin(10*time.Millisecond, "WATCHDOG=1")
	}
}

// status tells people what the server is doing, if that has changed. limit: as in sendWithin.
func (n *notifier) status(text string) {
	if n.conn != nil && text != n.said {
		n.said = text
		n.sendWithin(10*time.Millisecond, "STATUS="+text)
	}
}

// progress tells of real progress of a start or a stop and asks for so much more time for the next one.
func (n *notifier) progress(more time.Duration, status string) {
	n.said = status
	n.sendWithin(10*time.Millisecond, extend(more), "STATUS="+status)
}

// extend asks for more time than the unit's file gives.
func extend(more time.Duration) string {
	return "EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(more.Microseconds(), 10)
}

func (n *notifier) close() {
	if n.conn != nil {
		n.conn.Close()
	}
}
