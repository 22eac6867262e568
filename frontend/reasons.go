package frontend

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
