"""Writes a bundle: all of it under a temporary name, then one rename."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from rankd_export import golden as goldens
from rankd_export import independence, layout, pooling, program, spec, weights
from rankd_export import manifest as m
from rankd_export.errors import BundleError

DEFAULT_MAX_BATCH = 4096
WEIGHTS_FILE = "weights.safetensors"
GOLDEN_FILE = "golden/golden.safetensors"

# Rows for the check of independence: enough to see a neighbour, few enough to cost nothing.
_CHECK_ROWS = 8


def export_bundle(
    path: str | os.PathLike[str],
    fn: program.Scorer,
    params: Any,
    *,
    tables: Sequence[spec.Table],
    dense: Sequence[spec.Dense] = (),
    outputs: Sequence[str] | None = None,
    buckets: Sequence[int] | None = None,
    max_batch: int | None = None,
    name: str,
    version: str | int = 1,
    golden: goldens.Golden | None = None,
    platform: str | None = None,
    pooled_dtype: str = "float32",
    row_tolerance: float = 1e-4,
) -> m.Manifest:
    """Exports ``fn`` with its parameters and tables to the new directory ``path`` and returns the manifest.

    ``fn(params, dense, pooled)`` is any JAX function: ``dense[name]`` is float32 ``[B, width]``, ``pooled[name]`` is
    float32 ``[B, dim]``, the bag of table ``name`` as its combiner pools it; both are in the order of their keys, as
    ``jax.jit`` hands over dictionaries. It returns a float ``[B]`` or ``[B, k]``, or a dict of such by output name.
    ``params`` is any tree of arrays.

    ``outputs`` names the result (default ``score``) or orders the dict's keys. ``buckets`` are the batch sizes to
    lower, ascending up to ``max_batch`` (default: powers of two up to 4096). ``platform`` is None for programs that
    are the same on cpu, cuda and tpu, which is checked. ``pooled_dtype`` ``"bfloat16"`` halves what goes to the device:
    pooled vectors are summed as float32, rounded, and widened again before ``fn`` gets them; golden scores are those
    of the rounded vectors. ``row_tolerance`` bounds how far a score may move when its
    neighbours or the batch size change, as a part of the largest score; raise it for models that compute in bfloat16.

    Raises BundleError, saying got and want, for a model that cannot be served, and if ``path`` exists.
    Nothing stands under ``path`` unless the export is complete.
    """
    spec.check(tables, dense)
    sizes = _buckets(buckets, max_batch)
    packed_layout = layout.plan(tables, dense, pooled_dtype)
    network = program.bind(fn, weights.flatten(params), packed_layout, outputs)
    draft = _manifest(name, str(version), tables, dense, network, sizes)
    problems = [p for p in draft.problems() if not p.startswith("digests")]
    if problems:
        raise BundleError("check manifest: " + "; ".join(problems))

    request = goldens.draw(draft, golden or goldens.Golden())
    result = network.score(_packed(draft, packed_layout, tables, request))
    others = goldens.draw(draft, goldens.Golden(rows=_CHECK_ROWS, seed=1))
    independence.check(network.score, _packed(draft, packed_layout, tables, others), row_tolerance)
    programs = program.lower_all(network, sizes, platform)

    with _complete_directory(Path(path)) as directory:
        _write_tensors(directory / WEIGHTS_FILE, dict(zip(network.weights.names, network.weights.arrays, strict=True)))
        for entry, table in zip(draft.tables, tables, strict=True):
            _write_tensors(directory / entry.file, {entry.tensor: table.array})
        for file in draft.program.files:
            _write_bytes(directory / file.file, programs[file.batch])
        expected = {f"expect.{n}": v for n, v in network.outputs(result).items()}
        _write_tensors(directory / GOLDEN_FILE, {**request, **expected})
        manifest = _with_digests(draft, directory)
        _write_bytes(directory / "manifest.json", manifest.dumps().encode())
    return manifest


def _buckets(buckets: Sequence[int] | None, max_batch: int | None) -> tuple[int, ...]:
    if buckets is not None:
        sizes = tuple(int(b) for b in buckets)
        if max_batch is not None and sizes[-1:] != (max_batch,):
            raise BundleError(f"choose buckets: got {list(sizes)}, want the last to be max_batch, {max_batch}")
        return sizes
    largest = DEFAULT_MAX_BATCH if max_batch is None else max_batch
    if largest < 1:
        raise BundleError(f"choose buckets: got max_batch {largest}, want at least 1")
    powers = [1 << i for i in range(largest.bit_length()) if 1 << i < largest]
    return (*powers, largest)


def _manifest(
    name: str,
    version: str,
    tables: Sequence[spec.Table],
    dense: Sequence[spec.Dense],
    network: program.Network,
    buckets: tuple[int, ...],
) -> m.Manifest:
    where = network.layout
    inputs = [m.ProgramInput(weight=n) for n in network.weights.names]
    inputs += [m.ProgramInput(packed=i) for i in range(len(where.arrays))]
    return m.Manifest(
        name=name,
        version=version,
        tables=tuple(
            m.Table(
                name=t.name,
                rows=t.rows,
                dim=t.dim,
                hotness=t.hotness,
                combiner=t.combiner,
                id_policy=t.id_policy,
                row_dtype=t.array.dtype.name,
                file=f"tables/{t.name}.safetensors",
                tensor=t.name,
                slot=_slot(where.pooled[t.name]),
            )
            for t in tables
        ),
        dense=tuple(m.Dense(d.name, d.width, "float32", _slot(where.dense[d.name])) for d in dense),
        packed=tuple(m.PackedArray(a.dtype, a.stride) for a in where.arrays),
        outputs=network.heads,
        program=m.Program(
            weights=WEIGHTS_FILE,
            inputs=tuple(inputs),
            files=tuple(m.ProgramFile(b, f"programs/batch-{b}.mlirbc") for b in buckets),
        ),
        max_batch=buckets[-1] if buckets else 0,
        buckets=buckets,
    )


def _slot(slot: layout.Slot) -> m.Slot:
    return m.Slot(slot.array, slot.offset)


def _packed(
    manifest: m.Manifest,
    where: layout.Layout,
    tables: Sequence[spec.Table],
    request: Mapping[str, NDArray[Any]],
) -> tuple[NDArray[Any], ...]:
    bags = pooling.bags(manifest, request)
    pooled = {
        entry.name: pooling.pool(entry, bags[entry.name], table.array[bags[entry.name].values].astype(np.float32))
        for entry, table in zip(manifest.tables, tables, strict=True)
    }
    dense = {d.name: request[d.name] for d in manifest.dense}
    return where.pack(dense, pooled)


def _write_tensors(path: Path, tensors: Mapping[str, NDArray[Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    # The library writes memory as it lies, so a view with strides must be laid out first.
    save_file({n: np.ascontiguousarray(a).reshape(a.shape) for n, a in tensors.items()}, path)


def _write_bytes(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


def _with_digests(draft: m.Manifest, directory: Path) -> m.Manifest:
    digests: dict[str, str] = {}
    for path in sorted(p for p in directory.rglob("*") if p.is_file()):
        with path.open("rb") as file:
            digests[path.relative_to(directory).as_posix()] = (
                "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
            )
            os.fsync(file.fileno())
    complete = m.Manifest(**{**vars(draft), "digests": digests})
    problems = complete.problems()
    if problems:
        raise BundleError("check manifest: " + "; ".join(problems))
    return complete


@contextmanager
def _complete_directory(path: Path) -> Iterator[Path]:
    """Gives a temporary directory beside ``path`` that takes its name if the block ends well, and goes otherwise."""
    if path.exists():
        raise BundleError(f'write bundle "{path}": it exists; want a new directory, one a version')
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield temporary
        # The library and mkdtemp give access to the owner alone; the server is often another user.
        for entry in (temporary, *temporary.rglob("*")):
            entry.chmod(0o755 if entry.is_dir() else 0o644)
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
