"""Decodes requests of ``rankd.v1`` and makes the replies."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankd_bench_py._generated import prediction_pb2 as pb
from rankd_bench_py.bundle import Bundle
from rankd_bench_py.lookup import Block, Once

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

    A request in which some inputs have one row for all examples is a ``block`` of arrays instead: it is not joined with
    others.
    """

    rows: int
    ids: bytes = b""
    ids_dtype: np.dtype[Any] = _INT32
    dense: bytes = b""
    block: Block | None = None


class Wire:
    """Decodes and encodes for one model. An input of one row beside others of B rows serves all of them.

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
        own = dense.shape[0]
        if not 1 <= own <= bundle.max_batch:
            raise Refusal(f'input "{bundle.dense}": got {own} rows, want 1 to {bundle.max_batch}')
        numbers = dense.data
        if dense.dtype != pb.DTYPE_FLOAT32 or len(numbers) != 4 * own * bundle.dense_width:
            raise Refusal(
                f'input "{bundle.dense}": got type {dense.dtype}, {len(numbers)} bytes, '
                f"want float32, {4 * own * bundle.dense_width} bytes"
            )
        if len(inputs) == 2 and "ids" in inputs:
            return self._packed(inputs["ids"], own, numbers)
        return self._by_table(inputs, own, numbers)

    def _packed(self, tensor: pb.HostBufferProto, dense_rows: int, dense: bytes) -> Examples:
        """With the ids of all tables in one tensor."""
        brought = _rows_of(tensor)
        rows = self._rows(max(dense_rows, brought))
        ids, dtype = _tensor("ids", tensor, rows if brought != 1 else 1, self._width)
        if brought == dense_rows:
            return Examples(rows, ids, dtype, dense)
        self._check_dense(dense_rows, rows)
        array = np.frombuffer(ids, dtype).reshape(-1, self._width)
        if brought == rows:
            return self._block(rows, array, dense, None)
        once = Once((True,) * len(self._bundle.tables), array)
        return self._block(rows, np.empty((rows, 0), dtype), dense, once)

    def _by_table(self, inputs: Any, dense_rows: int, dense: bytes) -> Examples:
        """With a tensor a table."""
        tables = self._bundle.tables
        tensors = []
        for table in tables:
            if table.name not in inputs:
                raise Refusal(f'input "{table.name}": missing')
            tensors.append(inputs[table.name])
        if len(inputs) != len(tensors) + 1:
            known = {t.name for t in tables} | {self._bundle.dense}
            raise Refusal(f"inputs: got unknown {sorted(set(inputs) - known)}")
        brought = [_rows_of(t) for t in tensors]
        rows = self._rows(max(dense_rows, *brought))
        self._check_dense(dense_rows, rows)
        parts = []
        for table, tensor, count in zip(tables, tensors, brought, strict=True):
            data, dtype = _tensor(table.name, tensor, rows if count != 1 else 1, table.hotness)
            parts.append(np.frombuffer(data, dtype).reshape(-1, table.hotness))
        if rows == 1 or 1 not in brought:
            ids = np.concatenate(parts, axis=1)  # int64 if any of them is
            if dense_rows == rows:
                return Examples(rows, ids.tobytes(), ids.dtype, dense)
            return self._block(rows, ids, dense, None)
        once = Once(tuple([n == 1 for n in brought]), np.concatenate([p for p in parts if len(p) == 1], axis=1))
        own = [p for p in parts if len(p) != 1]
        ids = np.concatenate(own, axis=1) if own else np.empty((rows, 0), _INT32)
        return self._block(rows, ids, dense, once)

    def _block(self, rows: int, ids: NDArray[Any], dense: bytes, once: Once | None) -> Examples:
        features = np.frombuffer(dense, np.float32).reshape(-1, self._bundle.dense_width)
        return Examples(rows, block=Block(rows, ids, features, once))

    def _rows(self, rows: int) -> int:
        if rows > self._bundle.max_batch:
            raise Refusal(f"inputs: got {rows} rows, want at most {self._bundle.max_batch}")
        return rows

    def _check_dense(self, got: int, rows: int) -> None:
        if got not in (1, rows):
            raise Refusal(f'input "{self._bundle.dense}": got {got} rows, want 1 or {rows}')

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


def _rows_of(tensor: pb.HostBufferProto) -> int:
    """The rows that a tensor claims to have; 0 if it has no shape."""
    return tensor.shape[0] if tensor.shape else 0


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
