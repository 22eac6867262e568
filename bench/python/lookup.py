"""Measures pooling of DLRM-DCNv2 bags on one core: NumPy, torch's embedding_bag, and FBGEMM's table-batched kernel.

    taskset -c 1 python bench/python/lookup.py --max_vocab_size 850000

Prints a JSON object: CPU microseconds an example, the best and the median of the repeats, for each way and batch size,
and the largest difference of its sums from those of plain NumPy. All tables lie on huge pages where the kernel has any;
ids are uniform, and other ones in every batch. Needs the packages of requirements-lookup.txt; --only_numpy measures
NumPy alone.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from rankd_bench_py.bundle import Bundle, Table  # first: it holds BLAS to one thread
from rankd_bench_py.hugemem import Memory
from rankd_bench_py.lookup import Block, Lookup
from rankd_bench_py.tables import first_rows

# isort: split
import numpy as np
from numpy.typing import NDArray

DIM = 128
HOTS = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1]
# fmt: off
ROWS = [
    40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10,
    2209, 11938, 155, 4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36,
]
# fmt: on
OFFSETS = np.concatenate([[0], np.cumsum(HOTS)]).tolist()
TABLES = len(HOTS)

Ids = NDArray[np.int32]  # packed, [B, 214]
# Gives a function that pools the ids it was prepared for, and returns [B, 26, 128]. Preparing, which is not measured,
# brings ids into the form that the library wants.
Prepare = Callable[[Ids], Callable[[], Any]]


def model(max_vocab: int) -> Bundle:
    """The demo's tables, capped, without any files."""
    rows = [min(r, max_vocab) if max_vocab else r for r in ROWS]
    tables = tuple(Table(f"cat_{t}", r, h, "", "") for t, (r, h) in enumerate(zip(rows, HOTS, strict=True)))
    pooled = TABLES * DIM
    return Bundle(Path(), "", "", tables, DIM, "dense", 13, pooled, pooled + 16, "score", 4096, "")


def fill(table: NDArray[np.float32]) -> None:
    """Fills all rows with numbers in [-1, 1): a block of random rows, over and over."""
    block = np.random.default_rng(1).random((1 << 14, DIM), np.float32) * 2 - 1
    for at in range(0, len(table), len(block)):
        table[at : at + len(block)] = block[: len(table) - at]


def numpy_by_table(bundle: Bundle, table: NDArray[np.float32]) -> Prepare:
    """A take and a sum for each table, into arrays made before."""
    firsts = first_rows(bundle)
    tables = [table[f : f + t.rows] for f, t in zip(firsts, bundle.tables, strict=True)]

    @cache
    def arrays(rows: int) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        gathered = [np.empty((rows, hot, DIM), np.float32) for hot in HOTS]
        return np.empty((rows, TABLES, DIM), np.float32), gathered

    def prepare(ids: Ids) -> Callable[[], Any]:
        out, buffers = arrays(len(ids))

        def pool() -> Any:
            for t, buffer in enumerate(buffers):
                tables[t].take(ids[:, OFFSETS[t] : OFFSETS[t + 1]], axis=0, out=buffer, mode="clip")
                np.add.reduce(buffer, axis=1, out=out[:, t])
            return out

        return pool

    return prepare


def numpy_at_once(bundle: Bundle, table: NDArray[np.float32]) -> Prepare:
    """What the servers do: see rankd_bench_py.lookup. Includes the check of the ids and the dense features."""
    lookup = Lookup(bundle, table)

    @cache
    def arrays(rows: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return np.empty((rows, bundle.row_floats), np.float32), np.zeros((rows, bundle.dense_width), np.float32)

    def prepare(ids: Ids) -> Callable[[], Any]:
        out, dense = arrays(len(ids))

        def pool() -> Any:
            block = Block(len(ids), ids, dense)
            if lookup.bad(block) is not None:
                raise AssertionError("ids outside their table")
            lookup.pool(block, out)
            return out[:, : TABLES * DIM].reshape(len(ids), TABLES, DIM)

        return pool

    return prepare


def torch_embedding_bag(bundle: Bundle, table: NDArray[np.float32]) -> Prepare:
    """An embedding_bag for each table."""
    import torch

    torch.set_num_threads(1)
    firsts = first_rows(bundle)
    weights = [torch.from_numpy(table[f : f + t.rows]) for f, t in zip(firsts, bundle.tables, strict=True)]
    bag = torch.nn.functional.embedding_bag

    def prepare(ids: Ids) -> Callable[[], Any]:
        parts = [torch.from_numpy(ids[:, OFFSETS[t] : OFFSETS[t + 1]].astype(np.int64)) for t in range(TABLES)]

        def pool() -> Any:
            with torch.inference_mode():
                return torch.stack([bag(p, w, mode="sum") for p, w in zip(parts, weights, strict=True)], 1)

        return pool

    return prepare


def fbgemm(bundle: Bundle, table: NDArray[np.float32], kind: str) -> Prepare:
    """One call of the table-batched inference kernel, with rows of float32, float16 or int8.

    Raises RuntimeError if FBGEMM makes no machine code for it: then it runs a scalar loop.
    """
    import torch
    from fbgemm_gpu.split_embedding_configs import SparseType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode, EmbeddingLocation, PoolingMode
    from fbgemm_gpu.split_table_batched_embeddings_ops_inference import IntNBitTableBatchedEmbeddingBagsCodegen

    torch.set_num_threads(1)
    sparse = {"float32": SparseType.FP32, "float16": SparseType.FP16, "int8": SparseType.INT8}[kind]
    op = IntNBitTableBatchedEmbeddingBagsCodegen(
        [(t.name, t.rows, DIM, sparse, EmbeddingLocation.HOST) for t in bundle.tables],
        device="cpu",
        output_dtype=SparseType.FP32,
        pooling_mode=PoolingMode.SUM,
        bounds_check_mode=BoundsCheckMode.NONE,
    )
    op.initialize_weights()
    # Its own memory would be on small pages. What was allocated has not been written, and costs nothing.
    size = op.weights_host.numel()
    op.weights_host = torch.from_numpy(Memory(size).array(np.uint8, 0, size))
    for first, t, (rows, scale_and_bias) in zip(
        first_rows(bundle), bundle.tables, op.split_embedding_weights(), strict=True
    ):
        for at in range(0, t.rows, 1 << 16):
            end = min(at + (1 << 16), t.rows)
            _store(table[first + at : first + end], kind, rows[at:end], scale_and_bias, slice(at, end))

    def prepare(ids: Ids) -> Callable[[], Any]:
        # All bags of the first table, then of the second, ...
        parts = [ids[:, OFFSETS[t] : OFFSETS[t + 1]].ravel() for t in range(TABLES)]
        values = torch.from_numpy(np.concatenate(parts))
        lengths = np.repeat(HOTS, len(ids))
        offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))

        def pool() -> Any:
            with torch.inference_mode():
                return op(values, offsets).view(len(ids), TABLES, DIM)

        return pool

    before = _machine_code()
    prepare(draw(bundle, 1, seed=0))()
    if not _machine_code() - before:
        raise RuntimeError(f"{kind}: FBGEMM made no machine code and would run a scalar loop; want versions that do")
    return prepare


def _store(part: NDArray[np.float32], kind: str, rows: Any, scale_and_bias: Any, where: slice) -> None:
    """Writes rows as FBGEMM holds them; int8 with a float16 scale and bias for each row."""
    import torch

    if kind != "int8":
        rows.copy_(torch.from_numpy(part.astype(kind).view(np.uint8)))
        return
    low, high = part.min(axis=1, keepdims=True), part.max(axis=1, keepdims=True)
    scale, bias = ((high - low) / 255).astype(np.float16), low.astype(np.float16)
    steps = np.rint((part - bias) / np.maximum(scale, np.float16(1e-7)).astype(np.float32)).clip(0, 255)
    rows.copy_(torch.from_numpy(steps.astype(np.uint8)))
    scale_and_bias[where].copy_(torch.from_numpy(np.concatenate([scale, bias], axis=1).view(np.uint8)))


def _machine_code() -> set[str]:
    """The executable mappings of this process that come from no file: code made at run time."""
    with open("/proc/self/maps") as maps:
        lines = [line.split() for line in maps]
    return {f[0] for f in lines if "x" in f[1] and len(f) == 5}


def draw(bundle: Bundle, rows: int, seed: int) -> Ids:
    """Uniform ids."""
    rng = np.random.default_rng(seed)
    parts = [rng.integers(0, t.rows, (rows, t.hotness), np.int32) for t in bundle.tables]
    return np.concatenate(parts, axis=1)


def batches(ids: Ids, size: int) -> Iterator[Ids]:
    """The ids in batches."""
    for at in range(0, len(ids) - size + 1, size):
        yield np.ascontiguousarray(ids[at : at + size])


def measure(prepare: Prepare, ids: Ids, size: int, repeats: int) -> dict[str, float]:
    """CPU microseconds an example, over all ids, each repeat."""
    calls = [prepare(batch) for batch in batches(ids, size)]
    for call in calls[: max(1, len(calls) // 4)]:
        call()
    times = []
    for _ in range(repeats):
        start = time.process_time_ns()
        for call in calls:
            call()
        times.append((time.process_time_ns() - start) / 1e3 / (len(calls) * size))
    times.sort()
    return {"best_us": round(times[0], 2), "median_us": round(times[len(times) // 2], 2)}


def main() -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(description="Measure embedding lookups of DLRM-DCNv2 on one core.")
    parser.add_argument("--max_vocab_size", type=int, default=850_000, help="most rows of a table; 0: full scale")
    parser.add_argument("--batch_sizes", type=int, nargs="+", default=[1, 16, 128])
    parser.add_argument("--examples", type=int, default=4096, help="distinct examples that a repeat goes through")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only_numpy", action="store_true")
    args = parser.parse_args()

    bundle = model(args.max_vocab_size)
    memory = Memory(bundle.total_rows * DIM * 4)
    table: NDArray[np.float32] = memory.array(np.float32, 0, bundle.total_rows * DIM).reshape(-1, DIM)
    fill(table)
    ways: dict[str, Callable[[], Prepare]] = {
        "numpy_by_table": lambda: numpy_by_table(bundle, table),
        "numpy_at_once": lambda: numpy_at_once(bundle, table),
    }
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    if not args.only_numpy:
        import fbgemm_gpu
        import torch

        versions |= {"torch": torch.__version__, "fbgemm": fbgemm_gpu.__version__}
        ways["torch_embedding_bag"] = lambda: torch_embedding_bag(bundle, table)
        for kind in ("float32", "float16", "int8"):
            ways[f"fbgemm_{kind}"] = partial(fbgemm, bundle, table, kind)

    ids = draw(bundle, args.examples, seed=7)
    want = np.array(numpy_by_table(bundle, table)(ids[:16])())
    results: dict[str, Any] = {}
    for name, make in ways.items():
        print(f"measuring {name}", file=sys.stderr, flush=True)
        prepare = make()
        difference = float(np.abs(np.asarray(prepare(ids[:16])()) - want).max())
        # A pooled number is a sum of up to 100 in [-1, 1): float16 rounds each by up to 2^-12, int8 by up to 1/255.
        limit = 100 * (1 / 255 if "int8" in name else 2**-12 if "float16" in name else 2**-20)
        if not difference <= limit:
            raise SystemExit(f"{name}: sums differ by {difference}, want at most {limit}")
        results[name] = {str(b): measure(prepare, ids, b, args.repeats) for b in args.batch_sizes}
        results[name]["largest_difference"] = float(f"{difference:.3g}")
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    print(
        json.dumps(
            {
                "unit": "CPU us an example",
                "cpu": cpu,
                "versions": versions,
                "rows": bundle.total_rows,
                "table_bytes": bundle.total_rows * DIM * 4,
                "huge_bytes": memory.huge_bytes(),
                "results": results,
            },
            indent=2,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
