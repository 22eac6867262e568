"""Refusals, with the stable word that says why."""

import grpc
from google.rpc import error_details_pb2, status_pb2

_DETAILS = "grpc-status-details-bin"


class RankdError(Exception):
    """A call that ended without scores.

    ``code`` is the gRPC status. ``reason`` is the server's word for it (``"invalid_shape"``, ``"draining"``,
    ``"server_total_queue_full"``), or ``""`` if the call never reached a server that gives one. ``retry_after`` is the
    time in seconds after which a retry may help, or None.
    """

    def __init__(self, code: grpc.StatusCode, message: str, reason: str, retry_after: float | None) -> None:
        """See the class for the meaning of the fields."""
        super().__init__(f"{code.name}{f' ({reason})' if reason else ''}: {message}")
        self.code = code
        self.message = message
        self.reason = reason
        self.retry_after = retry_after


def from_rpc(error: grpc.RpcError) -> RankdError:
    """Reads the details that the server attached to the status."""
    reason, retry_after = "", None
    for key, value in error.trailing_metadata() or ():
        if key != _DETAILS:
            continue
        for detail in status_pb2.Status.FromString(value).details:
            info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
            if detail.Unpack(info):
                reason = info.reason
            elif detail.Unpack(retry):
                retry_after = retry.retry_delay.ToTimedelta().total_seconds()
    return RankdError(error.code(), error.details() or "", reason, retry_after)
