import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import models
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from rankd_export import Bundle, BundleError, Dense, Golden, Manifest, Table
from rankd_export.examples import dlrm_dcnv2


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    path = tmp_path_factory.mktemp("bundles") / "toy"
    models.export(path)
    return Bundle.open(path)


def test_manifest_describes_the_model(bundle: Bundle) -> None:
    manifest = bundle.manifest
    assert (manifest.name, manifest.version, manifest.max_batch) == ("toy", "3", 32)
    assert manifest.buckets == (1, 2, 4, 8, 16, 32)
    assert [(t.name, t.rows, t.dim, t.hotness, t.combiner, t.id_policy) for t in manifest.tables] == [
        ("user", 100, 8, 3, "sum", "reject"),
        ("clicks", 50, 16, 0, "mean", "reject"),
        ("ads", 20, 5, 2, "sqrtn", "clamp"),
    ]
    assert [(o.name, o.width, o.column) for o in manifest.outputs] == [("ctr", 0, 0), ("rank", 3, 1)]
    assert manifest.columns == 4


def test_manifest_has_exactly_the_fields_of_the_format(bundle: Bundle) -> None:
    raw = json.loads((bundle.directory / "manifest.json").read_text())
    assert list(raw) == [
        "format_version", "name", "version", "tables", "dense", "packed", "outputs", "program", "max_batch", "buckets",
        "digests",
    ]  # fmt: skip
    assert set(raw["tables"][0]) == {
        "name", "rows", "dim", "hotness", "combiner", "id_policy", "row_dtype", "file", "tensor", "slot",
    }  # fmt: skip
    assert set(raw["dense"][0]) == {"name", "width", "dtype", "slot"}
    assert raw["packed"] == [{"dtype": "float32", "stride": 256}]
    assert raw["program"]["inputs"][-1] == {"packed": 0}
    assert all(set(i) == {"weight"} for i in raw["program"]["inputs"][:-1])


def test_every_file_but_the_manifest_has_its_digest_and_is_readable_by_all(bundle: Bundle) -> None:
    files = {p for p in bundle.directory.rglob("*") if p.is_file()}
    digests = bundle.manifest.digests
    assert {p.relative_to(bundle.directory).as_posix() for p in files} == {*digests, "manifest.json"}
    for name, digest in digests.items():
        path = bundle.directory / name
        assert digest == "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
        assert path.stat().st_mode & 0o444 == 0o444


def test_weights_keep_their_names_order_and_values(bundle: Bundle) -> None:
    weights = bundle.weights()
    inputs = [i.weight for i in bundle.manifest.program.inputs[:-1]]
    assert inputs == ["heads.0", "heads.1", "hidden.bias", "hidden.weight", "unused"]
    np.testing.assert_array_equal(weights["hidden.weight"], models.params()["hidden"]["weight"])


@pytest.mark.parametrize("narrow", [False, True])
def test_tables_are_written_as_given(tmp_path: Path, narrow: bool) -> None:
    tables = models.tables(narrow)
    models.export(tmp_path / "b", tables=tables)
    for entry, table in zip(Bundle.open(tmp_path / "b").manifest.tables, tables, strict=True):
        with safe_open(tmp_path / "b" / entry.file, framework="numpy") as file:
            written = file.get_tensor(entry.tensor)
        assert entry.row_dtype == table.array.dtype.name
        assert written.dtype == table.array.dtype
        np.testing.assert_array_equal(written, table.array)


def test_a_view_with_strides_is_written_in_its_own_order(tmp_path: Path) -> None:
    wide = np.arange(60, dtype=np.float32).reshape(6, 10)
    table = Table("t", wide[::2, 1::3])
    models.export(tmp_path / "b", fn=lambda p, d, t: t["t"], params={}, tables=[table], dense=[], golden=Golden())
    written = load_file(tmp_path / "b" / "tables" / "t.safetensors")["t"]
    np.testing.assert_array_equal(written, wide[::2, 1::3])


def test_golden_scores_are_those_of_jax_jit(bundle: Bundle) -> None:
    request, expected = bundle.golden()
    assert request["clicks.lengths"][-1] == 0
    assert set(request) == {"user", "clicks.values", "clicks.lengths", "clicks.weights", "ads", "dense", "age"}
    pooled = {n: a.astype(np.float32) for n, a in bundle.pooled(request).items()}
    want = jax.jit(models.score)(models.params(), bundle.dense(request), pooled)
    assert expected["ctr"].shape == (24,)
    assert expected["rank"].shape == (24, 3)
    for name, scores in expected.items():
        np.testing.assert_allclose(scores, want[name], rtol=0, atol=1e-6)
    assert np.ptp(expected["ctr"]) > 0.1  # scores that were all alike would prove nothing


def test_the_same_model_gives_the_same_bytes_wherever_it_is_written(bundle: Bundle, tmp_path: Path) -> None:
    again = models.export(tmp_path / "deeper" / "elsewhere")
    assert again == bundle.manifest


def test_programs_are_portable_bytecode_without_paths(bundle: Bundle) -> None:
    for file in bundle.manifest.program.files:
        code = (bundle.directory / file.file).read_bytes()
        assert code.startswith(b"ML\xefR\rStableHLO_v1.")
        assert b"models.py" not in code


def test_existing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="it exists"):
        models.export(tmp_path)


def test_a_failed_export_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("rankd_export.bundle._with_digests", full)
    with pytest.raises(OSError, match="no space left"):
        models.export(tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def rows32(**changes: Any) -> Table:
    return replace(Table("t", np.ones((4, 2), np.float32)), **changes)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([rows32(array=np.ones((4, 2)))], r'table "t": got an array float64 \[4, 2\], want float32, .* \[rows, dim\]'),
        ([rows32(array=np.ones(4, np.float32))], r"got an array float32 \[4\]"),
        ([rows32(array=np.ones((0, 2), np.float32))], "at least one row"),
        ([rows32(array=[[1.0]])], "got list, want a NumPy array"),
        ([rows32(hotness=-1)], "got hotness -1"),
        ([rows32(combiner="max")], 'got combiner "max", want one of sum, mean, sqrtn'),
        ([rows32(id_policy="wrap")], 'got id policy "wrap"'),
        ([rows32(name="a.values")], 'table "a.values": want letters'),
        ([rows32(name="ids")], "reserved"),
        ([rows32(), rows32()], 'input "t": got two'),
        ([], "tables: got none"),
        ([rows32(combiner="max"), rows32(hotness=-1)], "combiner.*hotness.*got two"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, tables: list[Table], message: str) -> None:
    with pytest.raises(BundleError, match=message):
        models.export(tmp_path / "b", fn=lambda p, d, t: t["t"][:, 0], tables=tables, dense=[])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dense": [Dense("d", 0)]}, "got width 0"),
        ({"version": "one"}, "decimal"),
        ({"version": "01"}, "decimal"),
        ({"name": ""}, "name"),
        ({"name": "a/b"}, "name"),
        ({"buckets": [4, 2], "max_batch": None}, r"buckets: got \[4, 2\]"),
        ({"buckets": [], "max_batch": None}, r"buckets: got \[\]"),
        ({"buckets": [2, 4], "max_batch": 8}, r"got \[2, 4\], want the last to be max_batch, 8"),
        ({"max_batch": 0}, "got max_batch 0"),
        ({"max_batch": 1 << 17}, "at most 65536"),
        ({"outputs": ["ctr"]}, r"got outputs \['ctr', 'rank'\], want \['ctr'\]"),
        ({"golden": Golden(rows=0)}, "got 0 rows"),
        ({"golden": Golden(weighted=["user"])}, r"got weighted \['user'\]"),
        ({"platform": "metal"}, 'got platform "metal"'),
        ({"params": {"w": np.ones(3)}}, r'weight "w": got float64.*astype'),
        ({"params": {"w": 1 << 40}}, 'weight "w": got int'),
        ({"params": {"w": np.ones((0, 3), np.float32)}}, r'weight "w": got shape \[0, 3\]'),
        ({"params": {"w": "text"}}, 'weight "w": got'),
        ({"params": {"a.b": 1.0, "a": {"b": 1.0}}}, r"got \['a\.b'\] twice"),
    ],
)
def test_bad_arguments_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BundleError, match=message):
        models.export(tmp_path / "b", **changes)


def test_weights_of_other_types_keep_their_type(tmp_path: Path) -> None:
    params = {"w": np.full((13, 1), 0.5, ml_dtypes.bfloat16), "shift": 2, "scale": 0.5}

    def fn(p: Any, dense: Any, pooled: Any) -> Any:
        return (dense["dense"].astype(jnp.bfloat16) @ p["w"])[:, 0] * p["scale"] + p["shift"]

    models.export(tmp_path / "b", fn=fn, params=params, row_tolerance=1e-2)
    bundle = Bundle.open(tmp_path / "b")
    assert [i.weight for i in bundle.manifest.program.inputs[:-1]] == ["scale", "shift", "w"]
    dtypes = {n: a.dtype.name for n, a in bundle.weights().items()}
    assert dtypes == {"scale": "float32", "shift": "int32", "w": "bfloat16"}
    assert bundle.golden()[1]["score"].dtype == np.float32


def test_dictionaries_reach_the_function_in_the_order_that_jit_gives_them(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def fn(p: Any, dense: Any, pooled: Any) -> Any:
        seen.append([*pooled, *dense])
        return dense["dense"][:, 0]

    models.export(tmp_path / "b", fn=fn)
    assert seen
    assert all(names == ["ads", "clicks", "user", "age", "dense"] for names in seen)


def test_the_example_exports_and_agrees_with_float64(tmp_path: Path) -> None:
    from rankd_export import dcnv2

    dlrm_dcnv2.export(tmp_path / "dlrm", max_vocab=50, max_batch=8)
    bundle = Bundle.open(tmp_path / "dlrm")
    request, expected = bundle.golden()
    assert np.ptp(expected["score"]) > 0.1
    np.testing.assert_allclose(expected["score"], dcnv2.scores64(bundle, request), rtol=0, atol=1e-5)
    np.testing.assert_allclose(expected["score"], dcnv2.scores_jit(bundle, request), rtol=0, atol=1e-6)


def test_manifest_reader_reports_all_violations(bundle: Bundle) -> None:
    broken = replace(bundle.manifest, version="x", max_batch=7, digests={})
    with pytest.raises(BundleError, match=r"version.*buckets.*digests"):
        Manifest.loads(broken.dumps())
    with pytest.raises(BundleError, match="parse manifest"):
        Manifest.loads("{}")
    with pytest.raises(BundleError, match="parse manifest"):
        Manifest.loads(bundle.manifest.dumps().replace('"rows"', '"columns"'))


def test_manifest_reader_sees_overlapping_slots(bundle: Bundle) -> None:
    first, second, *rest = bundle.manifest.tables
    moved = replace(bundle.manifest, tables=(first, replace(second, slot=first.slot), *rest))
    with pytest.raises(BundleError, match=r'slot of "(user|clicks)": got offset 0, want'):
        Manifest.loads(moved.dumps())
