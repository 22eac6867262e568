"""The client."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import grpc
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankd_client import errors, tensors
from rankd_client._generated import prediction_pb2 as pb

_METHOD = "/rankd.v1.PredictionService/Predict"


@dataclass(frozen=True)
class Prediction:
    """The scores of one request: float32 ``[B]`` or ``[B, k]`` by output name, and the version that gave them."""

    outputs: Mapping[str, NDArray[np.generic]]
    model_version: str
    request_id: str


class Client:
    """A connection to a server. It may be used from any number of threads, and as a context manager.

        with Client("localhost:8500") as client:
            scores = client.predict("dlrm", {"t00": ids, "dense": features}).outputs["score"]

    ``credentials`` (``grpc.ssl_channel_credentials()``) asks for TLS. ``options`` are those of a gRPC channel.
    """

    def __init__(
        self,
        target: str,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        """Connects when the first call is made."""
        # The server bounds requests, and replies are as large as the request asks for: no second limit here.
        limits = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), *options]
        if credentials is None:
            self._channel = grpc.insecure_channel(target, limits)
        else:
            self._channel = grpc.secure_channel(target, credentials, limits)
        self._call = self._channel.unary_unary(
            _METHOD,
            request_serializer=pb.PredictRequest.SerializeToString,
            response_deserializer=pb.PredictResponse.FromString,
        )

    def predict(
        self,
        model: str,
        inputs: Mapping[str, ArrayLike],
        *,
        outputs: Sequence[str] = (),
        version: str = "",
        request_id: str = "",
        timeout: float | None = None,
    ) -> Prediction:
        """Scores every row of a request.

        Sparse inputs of table ``t`` (int32 or int64): ``t`` ``[B, hot]``; or ``t.values`` ``[nnz]`` with ``t.lengths``
        ``[B]`` or ``t.offsets`` ``[B+1]`` and perhaps float32 ``t.weights`` ``[nnz]``; or ``ids`` for all tables of
        fixed hotness at once. Dense inputs: floats ``[B, width]``. An input with one row serves all rows of the others.

        ``outputs`` selects outputs by name (default: all), ``version`` a model version (default: the one served),
        ``timeout`` is in seconds. Raises RankdError for a refusal, TypeError for an array type that no tensor has.
        """
        request = pb.PredictRequest(
            model_name=model,
            model_version=version,
            request_id=request_id,
            inputs={name: tensors.encode(name, value) for name, value in inputs.items()},
            output_filter=outputs,
        )
        try:
            response = self._call(request, timeout=timeout)
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from error
        scores = {name: tensors.decode(tensor) for name, tensor in response.outputs.items()}
        return Prediction(scores, response.model_version, response.request_id)

    def close(self) -> None:
        """Ends the connection; calls in flight are cancelled."""
        self._channel.close()

    def __enter__(self) -> Self:
        """Returns the client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the client."""
        self.close()
