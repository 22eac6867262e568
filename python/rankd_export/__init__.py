"""Turns a JAX function, its parameters and its embedding tables into a bundle that rankd serves.

A bundle is a directory: ``manifest.json``, ``tables/*.safetensors``, ``weights.safetensors``, ``programs/*.mlirbc``
(StableHLO, one program a batch size) and ``golden/golden.safetensors`` (requests with the scores to expect).
"""

from rankd_export.bundle import export_bundle
from rankd_export.errors import BundleError
from rankd_export.golden import Golden
from rankd_export.manifest import Manifest
from rankd_export.reference import Bundle
from rankd_export.spec import Dense, Table

__all__ = ["Bundle", "BundleError", "Dense", "Golden", "Manifest", "Table", "export_bundle"]
