"""Decodes requests of ``rankd.v1`` and makes the replies."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankd_bench_py._generated import prediction_pb2 as pb
from rankd_bench_py.bundle import Bundle

_INT32 = np.dtype("<i4")
_INT64 = np.dtype("<i8")
_IDS: dict[int, np.dtype[Any]] = {pb.DTYPE_INT32: _INT32, pb.DTYPE_INT64: _INT64}


class Refusal(Exception):
    """A request that can never succeed; the client gets INVALID_ARGUMENT and the text."""


@dataclass(slots=True, frozen=True)
class Examples:
    """The inputs of a request as raw bytes: ids ``[rows, ids_per_row]``, dense float32 ``[rows, width]``.

    Bytes, since the batches of several requests are joined before NumPy sees them: one ``bytes.join`` is much cheaper
    than an array a request.
    """

    rows: int
    ids: bytes
    ids_dtype: np.dtype[Any]
    dense: bytes


class Wire:
    """Decodes and encodes for one model.

    Ids may come packed (``ids`` [B, sum of hotness]) or a tensor a table ([B, hotness]). Packed is the cheaper form by
    far: 2 map entries to parse instead of 27, and bytes that are used as they are.
    """

    def __init__(self, bundle: Bundle) -> None:
        """Prepares for the model of ``bundle``."""
        self._bundle = bundle
        self._width = bundle.ids_per_row
        self._names = {bundle.name, ""}
        self._versions = {bundle.version, ""}

    def decode(self, request: pb.PredictRequest) -> Examples:
        """Reads the inputs. Raises Refusal."""
        bundle = self._bundle
        if request.model_name not in self._names or request.model_version not in self._versions:
            raise Refusal(
                f'model: got "{request.model_name}" version "{request.model_version}", '
                f'want "{bundle.name}" version "{bundle.version}"'
            )
        inputs = request.inputs
        if bundle.dense not in inputs:
            raise Refusal(f'input "{bundle.dense}": missing')
        dense = inputs[bundle.dense]
        if len(dense.shape) != 2 or dense.shape[1] != bundle.dense_width:
            raise Refusal(f'input "{bundle.dense}": got shape {list(dense.shape)}, want [B, {bundle.dense_width}]')
        rows = dense.shape[0]
        if not 1 <= rows <= bundle.max_batch:
            raise Refusal(f'input "{bundle.dense}": got {rows} rows, want 1 to {bundle.max_batch}')
        numbers = dense.data
        if dense.dtype != pb.DTYPE_FLOAT32 or len(numbers) != 4 * rows * bundle.dense_width:
            raise Refusal(
                f'input "{bundle.dense}": got type {dense.dtype}, {len(numbers)} bytes, '
                f"want float32, {4 * rows * bundle.dense_width} bytes"
            )
        if len(inputs) == 2 and "ids" in inputs:
            ids, dtype = _tensor("ids", inputs["ids"], rows, self._width)
            return Examples(rows, ids, dtype, numbers)
        ids, dtype = self._by_table(inputs, rows)
        return Examples(rows, ids, dtype, numbers)

    def _by_table(self, inputs: Any, rows: int) -> tuple[bytes, np.dtype[Any]]:
        parts = []
        for table in self._bundle.tables:
            if table.name not in inputs:
                raise Refusal(f'input "{table.name}": missing')
            data, dtype = _tensor(table.name, inputs[table.name], rows, table.hotness)
            parts.append(np.frombuffer(data, dtype).reshape(rows, table.hotness))
        if len(inputs) != len(parts) + 1:
            known = {t.name for t in self._bundle.tables} | {self._bundle.dense}
            raise Refusal(f"inputs: got unknown {sorted(set(inputs) - known)}")
        ids = np.concatenate(parts, axis=1)  # int64 if any of them is
        return ids.tobytes(), ids.dtype

    def encode(self, request: pb.PredictRequest, rows: int, scores: bytes) -> pb.PredictResponse:
        """Makes the reply from float32 scores ``[rows]``."""
        response = pb.PredictResponse(
            model_name=self._bundle.name, model_version=self._bundle.version, request_id=request.request_id
        )
        tensor = response.outputs[self._bundle.output]
        tensor.dtype = pb.DTYPE_FLOAT32
        tensor.shape.append(rows)
        tensor.data = scores
        return response


def _tensor(name: str, tensor: pb.HostBufferProto, rows: int, width: int) -> tuple[bytes, np.dtype[Any]]:
    dtype = _IDS.get(tensor.dtype)
    if dtype is None:
        raise Refusal(f'input "{name}": got type {tensor.dtype}, want int32 or int64')
    data: bytes = tensor.data
    shape = tensor.shape
    if len(shape) != 2 or shape[0] != rows or shape[1] != width or len(data) != rows * width * dtype.itemsize:
        raise Refusal(
            f'input "{name}": got shape {list(shape)}, {len(data)} bytes, '
            f"want [{rows}, {width}], {rows * width * dtype.itemsize} bytes"
        )
    return data, dtype
