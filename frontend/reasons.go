package frontend

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"rankd/internal/stats"
)

// Domain is the domain of every google.rpc.ErrorInfo that rankd sends.
const Domain = "rankd"

// The reasons of refusals, as they stand in ErrorInfo.reason. Those of malformed input are "invalid_" and what is wrong;
// the decoder and the binder name further ones of that form.
const (
	ReasonRequestTooLarge    = "request_too_large"
	ReasonFrontendFull       = "frontend_pending_full"
	ReasonServerFull         = "server_total_queue_full"
	ReasonDeadline           = "deadline_unreachable"
	ReasonDeadlineExceeded   = "deadline_exceeded"
	ReasonCancelled          = "cancelled"
	ReasonDeviceError        = "device_error"
	ReasonDraining           = "draining"
	ReasonDeviceRestarting   = "device_restarting"
	ReasonModelNotFound      = "model_not_found"
	ReasonInvalidCompression = "invalid_compression"
	ReasonInvalidID          = "invalid_id"
	ReasonInternal           = "internal"
)

// refusal is what follows from a reason.
type refusal struct {
	reason  string
	code    codes.Code
	retry   time.Duration // when trying again may help; 0: it does not
	outcome stats.Outcome // the counter of such replies
}

// refusals has a row for each reason.
var refusals = [...]refusal{
	{reason: ReasonRequestTooLarge, code: codes.InvalidArgument, outcome: stats.OutcomeRequestTooLarge},
	{reason: ReasonFrontendFull, code: codes.ResourceExhausted, retry: 100 * time.Millisecond, outcome: stats.OutcomeFrontendPendingFull},
	{reason: ReasonServerFull, code: codes.ResourceExhausted, retry: 100 * time.Millisecond, outcome: stats.OutcomeServerTotalQueueFull},
	{reason: ReasonDeadline, code: codes.DeadlineExceeded, outcome: stats.OutcomeDeadlineUnreachable},
	{reason: ReasonDeadlineExceeded, code: codes.DeadlineExceeded, outcome: stats.OutcomeDeadlineExceeded},
	{reason: ReasonCancelled, code: codes.Canceled, outcome: stats.OutcomeCancelled},
	{reason: ReasonDeviceError, code: codes.Internal, outcome: stats.OutcomeDeviceError},
	{reason: ReasonDraining, code: codes.Unavailable, retry: 100 * time.Millisecond, outcome: stats.OutcomeDraining},
	{reason: ReasonDeviceRestarting, code: codes.Unavailable, retry: time.Second, outcome: stats.OutcomeDeviceRestarting},
	{reason: ReasonModelNotFound, code: codes.NotFound, outcome: stats.OutcomeInvalid},
	{reason: ReasonInvalidCompression, code: codes.InvalidArgument, outcome: stats.OutcomeInvalid},
	{reason: ReasonInvalidID, code: codes.InvalidArgument, outcome: stats.OutcomeInvalid},
	{reason: ReasonInternal, code: codes.Internal, outcome: stats.OutcomeInternal},
}

// refusalOf is the row of a reason. Malformed input needs none of its own; a reason that is neither is a bug, which a client
// sees as one.
func refusalOf(reason string) refusal {
	for _, r := range refusals {
		if r.reason == reason {
			return r
		}
	}
	if strings.HasPrefix(reason, "invalid_") {
		return refusal{reason: reason, code: codes.InvalidArgument, outcome: stats.OutcomeInvalid}
	}
	return refusal{reason: reason, code: codes.Internal, outcome: stats.OutcomeInternal}
}

// Reasons lists every reason that is a constant here, sorted, for documentation and tests.
func Reasons() []string {
	all := make([]string, 0, len(refusals))
	for _, r := range refusals {
		all = append(all, r.reason)
	}
	slices.Sort(all)
	return all
}
