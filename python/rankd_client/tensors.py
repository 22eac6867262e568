"""NumPy arrays as the tensors of ``rankd.v1``, and back."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankd_client._generated import prediction_pb2 as pb

_PREFIX = "DTYPE_"


def encode(name: str, value: ArrayLike) -> pb.HostBufferProto:
    """Encodes an array; bfloat16 works with the NumPy type that ``ml_dtypes`` adds. ``name`` is for the message."""
    array = np.asarray(value)
    try:
        dtype = pb.DType.Value(_PREFIX + array.dtype.name.upper())
    except ValueError:
        known = ", ".join(n.removeprefix(_PREFIX).lower() for n in pb.DType.keys()[1:])
        raise TypeError(f'encode input "{name}": got {array.dtype}, want one of {known}') from None
    data = array if array.dtype.byteorder != ">" else array.astype(array.dtype.newbyteorder("<"))
    return pb.HostBufferProto(dtype=dtype, shape=array.shape, data=data.tobytes())


def decode(tensor: pb.HostBufferProto) -> NDArray[np.generic]:
    """Decodes a tensor into an array of its own that may be written to."""
    name = pb.DType.Name(tensor.dtype).removeprefix(_PREFIX).lower()
    flat = np.frombuffer(tensor.data, np.dtype(name).newbyteorder("<"))
    return flat.reshape(tuple(tensor.shape)).copy()
