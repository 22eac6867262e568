"""From a JAX function to StableHLO programs: wrapping, lowering, and what a program must be to be served.

``main(weights..., packed...) -> float32 [B, K]``: the weights in the order of the parameter tree, then the packed
arrays; the result holds the columns of all outputs side by side. The function is given float32 in any case: what
travels as bfloat16 is widened first.

Programs are lowered for each platform on its own and must come out the same, so that one file serves all of them. The
other way that JAX offers, one module for several platforms, is not used: it gives ``main`` a further argument, the
index of the platform, and a switch around every operation that has platform rules.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export as jax_export
from jax import tree_util
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from numpy.typing import NDArray

from rankd_export import layout as packing
from rankd_export import manifest, spec
from rankd_export.errors import BundleError
from rankd_export.weights import Weights

Features = dict[str, jax.Array]
Scorer = Callable[[Any, Features, Features], Any]

PLATFORMS = ("cpu", "cuda", "tpu")

# A program is compiled once a bucket: data written into it is repeated in each of them.
MAX_PROGRAM_BYTES = 8 << 20


@dataclass(frozen=True)
class Network:
    """A scoring function bound to its layout and weights; ``heads`` are its outputs in column order."""

    fn: Scorer
    weights: Weights
    layout: packing.Layout
    heads: tuple[manifest.Output, ...]

    @property
    def columns(self) -> int:
        """Columns of the result."""
        return sum(max(h.width, 1) for h in self.heads)

    def main(self, *args: jax.Array) -> jax.Array:
        """The function that is lowered."""
        count = len(self.layout.arrays)
        params, packed = tree_util.tree_unflatten(self.weights.tree, args[:-count]), args[-count:]

        def cut(slots: Mapping[str, packing.Slot]) -> Features:
            # Sorted, as jax.jit hands dictionaries to a function: one that goes through pooled.values() was trained so.
            parts = {n: packed[s.array][:, self.layout.columns(s)] for n, s in sorted(slots.items())}
            return {n: p.astype(jnp.float32) for n, p in parts.items()}

        dense, pooled = cut(self.layout.dense), cut(self.layout.pooled)
        result = _as_dict(self.fn(params, dense, pooled), [h.name for h in self.heads])
        batch = packed[0].shape[0]
        parts = [jnp.reshape(result[h.name], (batch, max(h.width, 1))) for h in self.heads]
        return jnp.concatenate([p.astype(jnp.float32) for p in parts], axis=1)

    @cached_property
    def _jitted(self) -> Any:
        # The keyword keeps parameters that the function ignores: the order of main's parameters is the manifest's.
        return jax.jit(self.main, keep_unused=True)

    def score(self, packed: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Runs the function under ``jax.jit`` on packed arrays ``[B, width]``; returns ``[B, K]``."""
        return np.asarray(self._jitted(*self.weights.arrays, *packed))

    def outputs(self, result: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        """Cuts ``[B, K]`` into the outputs as clients see them, ``[B]`` or ``[B, k]``."""
        cut: dict[str, NDArray[np.float32]] = {}
        for head in self.heads:
            part = result[:, head.column : head.column + max(head.width, 1)]
            cut[head.name] = np.ascontiguousarray(part if head.width else part[:, 0])
        return cut

    def lower(self, batch: int, platform: str) -> str:
        """Lowers ``main`` for one batch size and platform; returns StableHLO text without source locations."""
        shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in self.weights.arrays]
        shapes += [jax.ShapeDtypeStruct((batch, a.width), packing.DTYPES[a.dtype]) for a in self.layout.arrays]
        try:
            exported = jax_export.export(self._jitted, platforms=[platform])(*shapes)
        except (ValueError, NotImplementedError) as error:
            raise BundleError(f"lower program for {platform}, batch {batch}: {error}") from error
        _check_signature(exported, shapes, (batch, self.columns))
        _check_calls(exported.mlir_module())
        with ir.Context() as context:
            module = stablehlo.deserialize_portable_artifact(context, exported.mlir_module_serialized)
            # Locations hold paths of the exporting machine; without them equal models give equal files.
            text = str(module.operation.get_asm(enable_debug_info=False))
        _check_text(text, batch)
        return text


def bind(fn: Scorer, weights: Weights, layout: packing.Layout, names: Sequence[str] | None) -> Network:
    """Finds the outputs of ``fn`` by tracing it and checks their shapes and types."""

    def shapes(batch: int) -> dict[str, jax.ShapeDtypeStruct]:
        def inputs(slots: Mapping[str, packing.Slot]) -> dict[str, jax.ShapeDtypeStruct]:
            return {n: jax.ShapeDtypeStruct((batch, s.width), np.float32) for n, s in slots.items()}

        traced = jax.eval_shape(fn, weights.params, inputs(layout.dense), inputs(layout.pooled))
        return _as_dict(traced, names)

    # Two sizes that no model is likely to have as a width: a fixed first dimension cannot pass for the batch.
    first, second = 7, 11
    heads: list[manifest.Output] = []
    column = 0
    other = shapes(second)
    for name, shape in shapes(first).items():
        spec.check_output_name(name)
        width = _head_width(name, shape, first)
        if _head_width(name, other[name], second) != width:
            raise BundleError(f'trace function: output "{name}": its width changes with the batch size')
        heads.append(manifest.Output(name=name, width=width, column=column))
        column += max(width, 1)
    return Network(fn, weights, layout, tuple(heads))


def lower_all(network: Network, buckets: Sequence[int], platform: str | None) -> dict[int, bytes]:
    """Lowers every bucket to portable StableHLO bytecode.

    With ``platform`` None the smallest and the largest bucket are lowered for cpu, cuda and tpu and must agree;
    otherwise the programs are for that platform alone.
    """
    if platform is not None and platform not in PLATFORMS:
        raise BundleError(f'lower program: got platform "{platform}", want one of {", ".join(PLATFORMS)} or None')
    chosen = platform or PLATFORMS[0]
    programs: dict[int, bytes] = {}
    # The oldest readers that JAX promises to serve (12 weeks), so that a plugin may be older than the exporter.
    window = stablehlo.StablehloCompatibilityRequirement.WEEK_12
    version = stablehlo.get_version_from_compatibility_requirement(window)
    for batch in buckets:
        text = network.lower(batch, chosen)
        if platform is None and batch in (buckets[0], buckets[-1]):
            _check_neutral(network, batch, text)
        programs[batch] = bytes(stablehlo.serialize_portable_artifact_str(text, version))
    return programs


def _as_dict(result: Any, names: Sequence[str] | None) -> dict[str, Any]:
    if not isinstance(result, Mapping):
        names = names or ("score",)
        if not hasattr(result, "shape") or len(names) != 1:
            got = type(result).__name__
            raise BundleError(f"trace function: got {got} for outputs {list(names)}, want an array, or a dict by name")
        return {names[0]: result}
    names = names or list(result)
    if sorted(names) != sorted(result) or not names:
        raise BundleError(f"trace function: got outputs {sorted(result)}, want {sorted(names)}")
    return {name: result[name] for name in names}


def _head_width(name: str, shape: Any, batch: int) -> int:
    got = f"{shape.dtype} {list(shape.shape)}"
    if len(shape.shape) not in (1, 2) or shape.shape[0] != batch:
        raise BundleError(f'trace function: output "{name}": got {got} for a batch of {batch}, want [B] or [B, k]')
    if not jnp.issubdtype(shape.dtype, jnp.floating):
        raise BundleError(f'trace function: output "{name}": got {got}, want a float type')
    if len(shape.shape) == 1:
        return 0
    if shape.shape[1] == 0:
        raise BundleError(f'trace function: output "{name}": got {got}, want at least one column')
    return int(shape.shape[1])


def _check_signature(
    exported: jax_export.Exported, shapes: Sequence[jax.ShapeDtypeStruct], result: tuple[int, int]
) -> None:
    got = [(a.shape, np.dtype(a.dtype)) for a in exported.in_avals]
    want = [(s.shape, np.dtype(s.dtype)) for s in shapes]
    if got != want or tuple(exported.module_kept_var_idx) != tuple(range(len(want))):
        raise BundleError(f"check program: main takes {got}, want {want}")
    outs = [(a.shape, np.dtype(a.dtype)) for a in exported.out_avals]
    if outs != [(result, np.dtype(np.float32))]:
        raise BundleError(f"check program: main returns {outs}, want one float32 {list(result)}")
    if exported.nr_devices != 1 or exported.ordered_effects or exported.unordered_effects:
        raise BundleError("check program: want a pure function on one device (no callbacks, prints or sharding)")


def _check_calls(text: str) -> None:
    calls = sorted(set(re.findall(r"stablehlo\.custom_call @([\w.$]+)", text)))
    if calls:
        raise BundleError(
            f"check program: calls {', '.join(calls)}, which live in jaxlib and not in a PJRT plugin; "
            "use operations that lower to plain StableHLO"
        )


def _check_text(text: str, batch: int) -> None:
    main = re.search(r"func\.func public @(\S+?)\(", text)
    if main is None or main[1] != "main":
        raise BundleError(f"check program: entry is {main and main[1]}, want main")
    if len(text) > MAX_PROGRAM_BYTES:
        raise BundleError(
            f"check program: got {len(text)} bytes for batch {batch}, want at most {MAX_PROGRAM_BYTES}: "
            "pass large arrays through params instead of closing over them"
        )


def _check_neutral(network: Network, batch: int, text: str) -> None:
    for platform in PLATFORMS[1:]:
        other = network.lower(batch, platform)
        if other == text:
            continue
        pairs = zip(text.splitlines(), other.splitlines(), strict=False)
        here, there = next(((a, b) for a, b in pairs if a != b), ("", ""))
        raise BundleError(
            f"lower program: {PLATFORMS[0]} and {platform} differ at batch {batch}, first in "
            f'"{here.strip()[:120]}" and "{there.strip()[:120]}"; name one with platform='
        )
