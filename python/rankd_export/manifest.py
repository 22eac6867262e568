"""manifest.json: everything about a model but its numbers. Offsets and strides are bytes.

The classes mirror the file field by field; ``Manifest.problems`` states the rules that a bundle of this format keeps.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rankd_export.errors import BundleError
from rankd_export.spec import COMBINERS, ID_POLICIES

FORMAT_VERSION = 1

# The bounds that the server has.
MAX_NAME_BYTES = 256
MAX_BATCH = 65536
MAX_DIM = 1 << 16
MAX_HOTNESS = 1 << 20
MAX_STRIDE = 1 << 24

_VERSION = re.compile(r"0|[1-9][0-9]*")


@dataclass(frozen=True)
class Slot:
    """A place in a packed row."""

    array: int
    offset: int


@dataclass(frozen=True)
class Table:
    """One embedding table; ``hotness`` 0 means ragged."""

    name: str
    rows: int
    dim: int
    hotness: int
    combiner: str
    id_policy: str
    row_dtype: str
    file: str
    tensor: str
    slot: Slot


@dataclass(frozen=True)
class Dense:
    """A dense input ``[B, width]``."""

    name: str
    width: int
    dtype: str
    slot: Slot


@dataclass(frozen=True)
class PackedArray:
    """An array of packed rows; ``stride`` is bytes a row, a multiple of 64."""

    dtype: str
    stride: int


@dataclass(frozen=True)
class Output:
    """A run of columns of the result: ``width`` 0 is shape ``[B]``, k is ``[B, k]``."""

    name: str
    width: int
    column: int


@dataclass(frozen=True)
class ProgramInput:
    """One parameter of main: the name of a weight, or the index of a packed array."""

    weight: str | None = None
    packed: int | None = None


@dataclass(frozen=True)
class ProgramFile:
    """A program for one batch size; batch 0 is text in which ``@B@`` stands for the batch size."""

    batch: int
    file: str


@dataclass(frozen=True)
class Program:
    """How to call the network: function main, its parameters in order, one float32 result ``[B, K]``."""

    weights: str
    inputs: tuple[ProgramInput, ...]
    files: tuple[ProgramFile, ...]


@dataclass(frozen=True)
class Manifest:
    """The whole file."""

    name: str
    version: str
    tables: tuple[Table, ...]
    dense: tuple[Dense, ...]
    packed: tuple[PackedArray, ...]
    outputs: tuple[Output, ...]
    program: Program
    max_batch: int
    buckets: tuple[int, ...]
    digests: Mapping[str, str] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION

    def dumps(self) -> str:
        """The file's text."""
        raw = asdict(self)
        ordered = {"format_version": raw.pop("format_version"), **raw}
        ordered["program"]["inputs"] = [
            {k: v for k, v in i.items() if v is not None} for i in ordered["program"]["inputs"]
        ]
        return json.dumps(ordered, indent=2) + "\n"

    @classmethod
    def loads(cls, text: str) -> "Manifest":
        """Parses the file's text; raises a BundleError that lists every violation."""
        try:
            manifest = _parse(json.loads(text))
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise BundleError(f"parse manifest: {type(error).__name__}: {error}") from error
        problems = manifest.problems()
        if problems:
            raise BundleError("check manifest: " + "; ".join(problems))
        return manifest

    @classmethod
    def read(cls, directory: Path) -> "Manifest":
        """Reads ``directory/manifest.json``."""
        return cls.loads((directory / "manifest.json").read_text())

    @property
    def columns(self) -> int:
        """Columns of the result, all outputs together."""
        return sum(max(o.width, 1) for o in self.outputs)

    def problems(self) -> list[str]:
        """Every rule that this manifest breaks, in words."""
        found: list[str] = []
        if self.format_version != FORMAT_VERSION:
            found.append(f"format_version: got {self.format_version}, want {FORMAT_VERSION}")
        if not 0 < len(self.name.encode()) <= MAX_NAME_BYTES or "/" in self.name or "\0" in self.name:
            found.append(f'name: got "{self.name}", want 1 to {MAX_NAME_BYTES} bytes without "/"')
        if not _VERSION.fullmatch(self.version) or int(self.version) >= 1 << 63:
            found.append(f'version: got "{self.version}", want a decimal number below 2^63 without leading zeros')
        found += self._slot_problems()
        found += self._output_problems()
        found += self._batch_problems()
        for table in self.tables:
            where = f'table "{table.name}"'
            if table.combiner not in COMBINERS or table.id_policy not in ID_POLICIES:
                found.append(f"{where}: got combiner {table.combiner}, id policy {table.id_policy}")
            if table.rows < 1 or not 1 <= table.dim <= MAX_DIM or not 0 <= table.hotness <= MAX_HOTNESS:
                found.append(f"{where}: got rows {table.rows}, dim {table.dim}, hotness {table.hotness}")
        for name, digest in self.digests.items():
            if not digest.startswith("sha256:") or len(digest) != len("sha256:") + 64:
                found.append(f'digest of "{name}": got "{digest}", want sha256:<hex>')
        for name in self.files():
            if name not in self.digests:
                found.append(f'digests: want "{name}"')
        return found

    def files(self) -> list[str]:
        """Relative paths of the files that a server reads."""
        names = [t.file for t in self.tables] + [f.file for f in self.program.files]
        if self.program.weights:
            names.append(self.program.weights)
        return list(dict.fromkeys(names))

    def _slot_problems(self) -> list[str]:
        found: list[str] = []
        spans: list[tuple[int, int, int, str]] = []
        for table in self.tables:
            size = (
                2
                if 0 <= table.slot.array < len(self.packed) and self.packed[table.slot.array].dtype == "bfloat16"
                else 4
            )
            spans.append((table.slot.array, table.slot.offset, table.dim * size, table.name))
            if table.slot.offset % 64:
                found.append(f'table "{table.name}": got offset {table.slot.offset}, want a multiple of 64')
        spans += [(d.slot.array, d.slot.offset, d.width * 4, d.name) for d in self.dense]
        for index, array in enumerate(self.packed):
            if not 64 <= array.stride <= MAX_STRIDE or array.stride % 64:
                found.append(f"packed {index}: got stride {array.stride}, want a multiple of 64 up to {MAX_STRIDE}")
            end, last = 0, "the start"
            for _, offset, size, name in sorted(s for s in spans if s[0] == index):
                if offset < end or offset % 4:
                    found.append(f'slot of "{name}": got offset {offset}, want {end} or more, after "{last}"')
                end, last = offset + size, name
            if end > array.stride:
                found.append(f'slot of "{last}": ends at {end}, want within the stride {array.stride}')
        for span in spans:
            if not 0 <= span[0] < len(self.packed):
                found.append(f'slot of "{span[3]}": got array {span[0]}, want below {len(self.packed)}')
        return found

    def _output_problems(self) -> list[str]:
        found: list[str] = []
        column = 0
        for output in sorted(self.outputs, key=lambda o: o.column):
            if output.column != column or output.width < 0:
                found.append(f'output "{output.name}": got column {output.column}, want {column}')
            column += max(output.width, 1)
        if not self.outputs:
            found.append("outputs: got none, want at least one")
        return found

    def _batch_problems(self) -> list[str]:
        found: list[str] = []
        buckets = list(self.buckets)
        if not buckets or buckets != sorted(set(buckets)) or buckets[0] < 1 or buckets[-1] != self.max_batch:
            found.append(f"buckets: got {buckets}, want ascending sizes that end with max_batch {self.max_batch}")
        if self.max_batch > MAX_BATCH:
            found.append(f"max_batch: got {self.max_batch}, want at most {MAX_BATCH}")
        have = {f.batch for f in self.program.files}
        if 0 not in have and not set(buckets) <= have:
            found.append(f"program files: got batches {sorted(have)}, want all of {buckets}")
        if sorted(i.packed for i in self.program.inputs if i.packed is not None) != list(range(len(self.packed))):
            found.append("program inputs: want every packed array once")
        if any((i.weight is None) == (i.packed is None) for i in self.program.inputs):
            found.append("program inputs: want each to name a weight or a packed array, not both")
        return found


def _parse(raw: dict[str, Any]) -> Manifest:
    program = raw["program"]
    return Manifest(
        format_version=raw["format_version"],
        name=raw["name"],
        version=raw["version"],
        tables=tuple(Table(**{**t, "slot": Slot(**t["slot"])}) for t in raw["tables"] or ()),
        dense=tuple(Dense(**{**d, "slot": Slot(**d["slot"])}) for d in raw["dense"] or ()),
        packed=tuple(PackedArray(**p) for p in raw["packed"]),
        outputs=tuple(Output(**o) for o in raw["outputs"]),
        program=Program(
            weights=program["weights"],
            inputs=tuple(ProgramInput(**i) for i in program["inputs"]),
            files=tuple(ProgramFile(**f) for f in program["files"]),
        ),
        max_batch=raw["max_batch"],
        buckets=tuple(raw["buckets"]),
        digests=dict(raw["digests"]),
    )
