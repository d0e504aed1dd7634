"""The usual cause of a fault, in one sentence each. Empty where several are as likely."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BARRIER = re.compile(r"\b__sync(?:threads\w*|warp)\b")
NULL = "Was None passed for an array that the kernel uses?"
FAR = (
    "Is a pointer or an index not set, or has a product of ints overflowed? "
    "(Pointers stored in arrays can't be followed.)"
)
UNINITIALISED = (
    "Shared memory begins with arbitrary values: does a thread have to fill this element first, "
    "or does the loop that fills it end too early?"
)
MISALIGNED = (
    "A vector type (float4, ...) must lie at a multiple of its size: is the index counted in "
    "vectors, "
    "and the row's length a multiple of the vector's?"
)
NOT_WAITED = "Call copy_async_wait<0>() and then __syncthreads() before the elements are used."


def bounds(
    index: int, count: int, source: str, block: tuple[int, int, int], grid: tuple[int, int, int]
) -> str:
    """For element `index` of `count`."""
    if index < 0:
        return (
            "The index is negative: is the first element (or a halo at the border) a special case?"
        )
    if index == count and "<=" in source:
        return "Indices go from 0 to the size minus one: should `<=` be `<`?"
    threads = [b * g for b, g in zip(block, grid)]
    if index == count:
        return (
            "That is one too far: is there a `<=` that should be `<`, or is `if (i < n)` missing?"
        )
    if (
        count < threads[0] * threads[1] * threads[2]
        and index < threads[0] * threads[1] * threads[2]
    ):
        return "The launch has more threads than the array has elements: is `if (i < n)` missing?"
    return ""


def dynamic(size: int) -> str:
    """For an access behind dynamic shared memory of so many bytes."""
    if size == 0:
        return "The launch gives no dynamic shared memory: pass shared_mem=, in bytes."
    return (
        "shared_mem= counts bytes, not elements: is it large enough for all the arrays carved out "
        "of it?"
    )


@dataclass(frozen=True)
class Race:
    """Two accesses that nothing orders: this one, and the other one before it."""

    access: int  # as numbered in check_report._VERBS
    other_access: int
    line: int | None
    other_line: int | None
    source: str  # the two lines, and what stands between them
    other_source: str
    between: str
    name: str | None  # of the array
    same_block: bool
    same_warp: bool
    first_write: bool  # the other thread read what nobody had written yet


def race(r: Race) -> str:
    """For a data race."""
    line, other_line = r.line, r.other_line
    reads = r.access in (0, 3), r.other_access in (0, 3)
    atomic = r.access == 2 or r.other_access == 2
    if not r.same_block and (atomic or "atomic" in r.source + r.between + r.other_source):
        return (
            "What is handed over by an atomic needs __threadfence() before that atomic, "
            "and the other block an atomic on the same address before it reads."
        )
    if atomic:
        return (
            "Where some threads use atomics on an element, all must, or a barrier must stand "
            "between."
        )
    twice = len(re.findall(rf"\b{r.name}\b", r.source)) > 1
    if line == other_line and re.search(r"[-+*/|&^]=|\+\+|--", r.source) and not twice:
        return (
            "Several threads change one element: use an atomic, or give each thread its own "
            "element."
        )
    if not any(reads):
        return (
            "Several threads write one element: which of the values is meant? Is the index "
            "different for each thread?"
        )
    if not r.same_block:
        return (
            "A block can't wait for another one: split the kernel in two launches, or write to "
            "another array."
        )
    barrier = "__syncwarp() or __syncthreads()" if r.same_warp else "__syncthreads()"
    if line is None or other_line is None:
        return f"Is a {barrier} missing between them?"
    if line == other_line:
        return f"Is a {barrier} missing between what is read and what is written on line {line}?"
    (low, low_reads), (high, high_reads) = sorted([(line, reads[0]), (other_line, reads[1])])
    low_does, high_does = ("read" if r else "write" for r in (low_reads, high_reads))
    if low != high and _BARRIER.search(r.between) and not r.first_write:
        return (
            f"Between line {low} ({low_does}) and line {high} ({high_does}) there is a barrier, "
            f"but none on the way back: "
            "is one missing at the end of the loop?"
        )
    return f"Is a {barrier} missing between line {low} ({low_does}) and line {high} ({high_does})?"


def of_kind(kind: str, message: str, source: str) -> str:
    """For the emulator's own faults."""
    if kind == "deadlock" and "never came" in message:
        return (
            "All lanes that the mask names must call the function: call it outside of the `if`, "
            "or make the mask with "
            "__ballot_sync before."
        )
    if kind == "barrier" or (kind == "deadlock" and "__syncthreads" in message):
        return (
            "All threads of a block must reach the same __syncthreads(): move it out of the `if` "
            "or the loop that only "
            "some threads enter."
        )
    if kind == "warp" and "does not name" in message:
        return "The mask must name every lane that calls: 0xFFFFFFFF for a full warp."
    if kind == "interrupted":
        return (
            "Does the loop's condition change? A value that other threads change must be read "
            "with an atomic or volatile."
        )
    return ""
