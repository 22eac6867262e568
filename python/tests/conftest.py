"""Servers for the tests marked ``server``: one after the other, each test with every bundle."""

from collections.abc import Iterator
from pathlib import Path

import models
import pytest
import server as rankd

from rankd_export.examples import dlrm_dcnv2

BUNDLES = ["toy", "narrow", "half", "example", "demo", "int8", "demo-half"]


@pytest.fixture(scope="session", params=BUNDLES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[rankd.Server]:
    """A server of the small model, of the exported DLRM-DCNv2, and of rankd's demo.

    Two of them also with rows of fewer bits and with pooled vectors of 16 bits.
    """
    running = rankd.external()
    if running is not None:
        if request.param != BUNDLES[0]:
            pytest.skip("RANKD_TEST_TARGET names one server: unset it to test all bundles")
        yield running
        return
    rankd.binary()
    rankd.plugin()
    scratch = tmp_path_factory.mktemp(request.param)
    make(request.param, scratch / "bundle")
    with rankd.serve(scratch / "bundle", scratch) as started:
        yield started


def make(name: str, path: Path) -> None:
    if name == "toy":
        models.export(path)
    elif name == "narrow":
        models.export(path, tables=models.tables(narrow=True))
    elif name == "half":
        models.export(path, pooled_dtype="bfloat16")
    elif name == "demo-half":
        rankd.create_demo(path, "--pooled-dtype=bfloat16")
    elif name == "int8":
        wide = path.with_name("float32")
        rankd.create_demo(wide)
        rankd.run("model", "quantize", str(wide), str(path), "--dtype=int8", f"--plugin={rankd.plugin()}")
    elif name == "example":
        dlrm_dcnv2.export(path, max_vocab=1000, max_batch=64)
    else:
        rankd.create_demo(path)
