"""A client of rankd's own gRPC service: NumPy arrays in, scores out."""

from rankd_client.client import Client, Prediction
from rankd_client.errors import RankdError

__all__ = ["Client", "Prediction", "RankdError"]
