package frontend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"rankd/frontend/wire"
	"rankd/tables"
)

// Error is a refusal or a failure as a client sees it: a gRPC code, a reason for programs and a message for people.
type Error struct {
	Code   codes.Code
	Reason string // one of the Reason constants or "invalid_<what>"
	Msg    string
	Retry  time.Duration     // when trying again may help; 0: it does not
	Meta   map[string]string // ErrorInfo.metadata; may be nil
}

// refuse makes an error; its code and its retry follow from the reason. Every Error is made here.
func refuse(reason, msg string, meta map[string]string) *Error {
	r := refusalOf(reason)
	return &Error{Code: r.code, Reason: reason, Msg: msg, Retry: r.retry, Meta: meta}
}

// Error gives the message alone; the reason travels beside it.
func (e *Error) Error() string { return e.Msg }

// Status is the gRPC status with ErrorInfo and, where a retry helps, RetryInfo.
func (e *Error) Status() *status.Status {
	info := &errdetails.ErrorInfo{Reason: e.Reason, Domain: Domain, Metadata: e.Meta}
	details := []protoadapt.MessageV1{protoadapt.MessageV1Of(info)}
	if e.Retry > 0 {
		details = append(details, protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(e.Retry)}))
	}
	plain := status.New(e.Code, e.Msg)
	st, err := plain.WithDetails(details...)
	if err != nil { // the details are well-known messages, so this is a bug; the code and message still reach the client
		return plain
	}
	return st
}

// GRPCStatus lets grpc-go send e as it is.
func (e *Error) GRPCStatus() *status.Status { return e.Status() }

// asError is the one place where an error of a lower layer gets its code and reason. It never returns nil for a non-nil err.
func asError(err error) *Error {
	var (
		own *Error
		dec *wire.Error
		id  *tables.IDError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own
	case errors.As(err, &dec):
		return refuse(dec.Reason, dec.Msg, nil)
	case errors.As(err, &id):
		return refuse(ReasonInvalidID, id.Error(), map[string]string{
			"tensor": id.Table, "row": strconv.Itoa(id.Row), "position": strconv.Itoa(id.Position),
			"got": strconv.FormatInt(id.ID, 10), "want": fmt.Sprintf("0..%d", id.Rows-1),
		})
	case errors.Is(err, context.DeadlineExceeded):
		return errDeadline
	case errors.Is(err, context.Canceled):
		return errCancelled
	}
	return refuse(ReasonInternal, err.Error(), nil)
}

// The refusals that carry no numbers are made once: they are what an overloaded server sends most.
var (
	errDeadline   = refuse(ReasonDeadlineExceeded, "score request: the deadline passed before all rows were scored", nil)
	errCancelled  = refuse(ReasonCancelled, "score request: cancelled by the client", nil)
	errDraining   = refuse(ReasonDraining, "score request: this frontend is draining; another one will take the call", nil)
	errRestarting = refuse(ReasonDeviceRestarting, "score request: the device owner is being restarted", nil)
	errDevice     = refuse(ReasonDeviceError, "score request: the device failed on rows of this request", nil)
	errPanic      = refuse(ReasonInternal, "score request: internal error; it was logged and counted", nil)
)

// errTooManyBytes says what a request holds and what it may hold; size is 0 when it was not read far enough to know.
func errTooManyBytes(size, limit int64) *Error {
	const unit, flag = "bytes", "--max-request-bytes"
	meta := map[string]string{"unit": unit, "limit": strconv.FormatInt(limit, 10), "flag": flag}
	if size == 0 {
		return refuse(ReasonRequestTooLarge, fmt.Sprintf("read request: it has more than %d %s, the limit (%s)", limit, unit, flag), meta)
	}
	meta["size"] = strconv.FormatInt(size, 10)
	return refuse(ReasonRequestTooLarge, fmt.Sprintf("read request: it has %d %s, want at most %d (%s)", size, unit, limit, flag), meta)
}

// full refuses a request because a queue is at its cap. Details are for people and are built on the refusal's own time.
func full(reason, flag, unit string, pending, more, limit int64) *Error {
	msg := fmt.Sprintf("admit request: %d %s are pending and it brings %d, want at most %d (%s)", pending, unit, more, limit, flag)
	return refuse(reason, msg, map[string]string{
		"unit": unit, "pending": strconv.FormatInt(pending, 10), "size": strconv.FormatInt(more, 10),
		"limit": strconv.FormatInt(limit, 10), "flag": flag,
	})
}

func errUnreachable(wait, left time.Duration) *Error {
	msg := fmt.Sprintf("admit request: the estimated wait is %s, want a deadline at least half as far again: it is in %s", wait.Round(time.Millisecond), left.Round(time.Millisecond))
	return refuse(ReasonDeadline, msg, map[string]string{"estimated_wait": wait.String(), "deadline_left": left.String()})
}

// errNotServed names the model or the version that was asked for and what is served.
func errNotServed(what, got, want string) *Error {
	msg := fmt.Sprintf("find model: got %s %q, this server serves %q", what, got, want)
	return refuse(ReasonModelNotFound, msg, map[string]string{"what": what, "got": got, "want": want})
}
