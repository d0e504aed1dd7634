"""What a profile says, as plain data: counts for each source line and in total."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .source import Source

SECTOR_BYTES = 32  # the unit in which global memory moves
# Kinds of places in host/profile.h
LOAD, STORE, ATOMIC, COPY, BLOCK, CONDITION, BARRIER, WARP = range(8)
QUIET_LINES = 3  # shown around lines that do something
MMA_FLOPS = 2 * 16 * 8 * 16  # of one mma_m16n8k16


@dataclass(frozen=True)
class GlobalTraffic:
    """Requests of warps to global memory.

    requests: instructions, each for up to 32 threads. sectors: 32-byte pieces they touch.
    bytes_asked: distinct bytes that their threads want. ideal_sectors: the fewest that could hold
    these bytes.
    """

    requests: int = 0
    threads: int = 0
    bytes_asked: int = 0
    sectors: int = 0
    ideal_sectors: int = 0

    @property
    def bytes_moved(self) -> int:
        return self.sectors * SECTOR_BYTES

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """Of the bytes moved, the share that was asked for (1.0: perfectly coalesced)."""
        return self.bytes_asked / self.bytes_moved if self.sectors else 1.0

    def __add__(self, other: GlobalTraffic) -> GlobalTraffic:
        return _add(self, other)


@dataclass(frozen=True)
class SharedTraffic:
    """Requests of warps to shared memory.

    wavefronts: passes over the 32 banks that they need; ideal_wavefronts: without bank conflicts.
    """

    requests: int = 0
    threads: int = 0
    bytes_asked: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0

    @property
    def bank_conflicts(self) -> int:
        """Wavefronts lost to conflicts."""
        return self.wavefronts - self.ideal_wavefronts

    def __add__(self, other: SharedTraffic) -> SharedTraffic:
        return _add(self, other)


@dataclass(frozen=True)
class Counts:
    """What one line, or a whole launch, does.

    Async copies count as a global load and a shared store. branches: conditions that warps
    evaluated; divergent_branches: those where active lanes of a warp went both ways. barriers:
    block barriers passed. warp_functions: shuffles, votes and __syncwarp, by warps. flops:
    additions, multiplications, divisions and square roots of threads (a fused multiply-add is two;
    what expf and the like do inside is not counted), and those of mma; None where the machine has
    no objdump to count them with.
    """

    global_load: GlobalTraffic = field(default_factory=GlobalTraffic)
    global_store: GlobalTraffic = field(default_factory=GlobalTraffic)
    global_atomic: GlobalTraffic = field(default_factory=GlobalTraffic)
    shared_load: SharedTraffic = field(default_factory=SharedTraffic)
    shared_store: SharedTraffic = field(default_factory=SharedTraffic)
    shared_atomic: SharedTraffic = field(default_factory=SharedTraffic)
    branches: int = 0
    divergent_branches: int = 0
    barriers: int = 0
    warp_functions: int = 0
    flops: int | None = 0

    @property
    def bytes_asked(self) -> int:
        """Of global memory, loads and stores."""
        return self.global_load.bytes_asked + self.global_store.bytes_asked

    @property
    def bytes_moved(self) -> int:
        """Of global memory, loads and stores, in sectors (before any cache)."""
        return self.global_load.bytes_moved + self.global_store.bytes_moved

    def __add__(self, other: Counts) -> Counts:
        return _add(self, other)


def _add(a, b):
    sums = {}
    for f in fields(a):
        x, y = getattr(a, f.name), getattr(b, f.name)
        sums[f.name] = None if x is None or y is None else x + y
    return type(a)(**sums)


@dataclass(frozen=True)
class Line:
    """A source line: its number, its text ("" where it is in another file), what it did."""

    file: str
    number: int
    text: str
    counts: Counts


@dataclass(frozen=True, repr=False)
class Report:
    """A profile. `lines` are those that did something, in order; `total` is their sum.

    Prints as a table beside the source; in a notebook it shows as one.
    """

    kernel: str
    filename: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    lines: tuple[Line, ...]
    total: Counts
    source: tuple[tuple[int, str], ...] = field(repr=False, default=())  # of the table; 0: left out

    def line(self, number: int) -> Counts:
        """What a line of the kernel's own file did (zeros, if nothing)."""
        for line in self.lines:
            if line.number == number and line.file == self.filename:
                return line.counts
        return Counts()

    def __str__(self) -> str:
        from .profile_table import text_table

        return text_table(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from .profile_table import html_table

        return html_table(self)


@dataclass(frozen=True)
class Sample:
    """What one instruction did, on its line.

    Traffic is (requests, threads, bytes asked, units, ideal units), as in GlobalTraffic.
    """

    file: str
    line: int
    kind: int
    warps: int = 0
    divergent: int = 0
    global_: tuple[int, ...] = ()
    shared: tuple[int, ...] = ()
    flops: int | None = 0


def counts_of(sample: Sample) -> Counts:
    """One instruction's part of its line's counts."""
    if sample.kind == CONDITION:
        return Counts(branches=sample.warps, divergent_branches=sample.divergent)
    if sample.kind == BARRIER:
        return Counts(barriers=sample.warps)
    if sample.kind == WARP:
        return Counts(warp_functions=sample.warps, flops=sample.flops)
    if sample.kind == BLOCK:
        return Counts(flops=sample.flops)
    name = {LOAD: "load", STORE: "store", ATOMIC: "atomic", COPY: "store"}[sample.kind]
    return Counts(
        **{
            f"global_{name}": GlobalTraffic(*sample.global_),
            f"shared_{name}": SharedTraffic(*sample.shared),
        }
    )


def report(
    kernel: str,
    source: Source,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    samples: list[Sample],
    counts_flops: bool,
) -> Report:
    """Sums samples up by line."""
    text = source.code.split("\n")
    by_line: dict[tuple[str, int], Counts] = {}
    for s in samples:
        key = (s.file, s.line)
        by_line[key] = by_line.get(key, Counts()) + counts_of(s)
    unknown = Counts(flops=0 if counts_flops else None)
    by_line = {key: c + unknown for key, c in by_line.items()}
    own = source.filename.rsplit("/", 1)[-1]

    def text_of(file: str, number: int) -> str:
        i = number - source.first_line
        return text[i] if file == own and 0 <= i < len(text) else ""

    # The kernel's own file first, then headers.
    order = sorted(by_line, key=lambda key: (key[0] != own, key))
    lines = tuple(
        Line(f, n, text_of(f, n), by_line[f, n]) for f, n in order if by_line[f, n] != unknown
    )
    total = sum((line.counts for line in lines), unknown)
    numbers = {line.number for line in lines if line.file == own}
    shown = _shown(numbers | {source.kernel(kernel).line})
    return Report(
        kernel, own, grid, block, lines, total, tuple((n, text_of(own, n)) for n in shown)
    )


def _shown(numbers: set[int]) -> list[int]:
    """The lines of a table: from the first to the last of `numbers`; 0 for a long quiet stretch."""
    shown: list[int] = []
    for number in sorted(numbers):
        before = shown[-1] if shown else number - 1
        if number - before > 2 * QUIET_LINES + 1:
            shown += [*range(before + 1, before + 1 + QUIET_LINES), 0]
            before = number - 1 - QUIET_LINES
        shown += range(before + 1, number + 1)
    return shown
