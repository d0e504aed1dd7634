"""The corpus as data: each kernel of kernels/*.cu with its launch, and what must be found, or what
must come out.

Plain numpy, so that sanitize.py can run the same list on a GPU without torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

KERNELS = Path(__file__).parent / "kernels"


@dataclass(frozen=True)
class Array:
    """An array argument. `dtype` is numpy's, or "bf16" (the bits are uint16)."""

    dtype: str
    values: np.ndarray


@dataclass(frozen=True)
class Case:
    """A kernel and its launch.

    Faulty ones: `kind`, `name`, `index` of the KernelError, and the line that ends in FAULT (or
    OTHER: either of the two of a race may be told). Correct ones: `expected(*arrays)`, what the
    first argument holds afterwards. `tool`: the compute-sanitizer tool that is asked about the
    fault; `missed`: why it can't see it; `accused`: why racecheck accuses a correct one;
    `hangs`: never run on a GPU.
    """

    file: str
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple
    shared_mem: int = 0
    kind: str = ""
    name: str | None = None
    index: int | None = None
    tool: str = ""
    missed: str = ""
    accused: str = ""
    hangs: bool = False
    expected: Callable[..., np.ndarray] | None = None

    def lines(self) -> set[int]:
        """The lines of the kernel that are marked FAULT or OTHER."""
        marked, inside = set(), False
        for number, text in enumerate((KERNELS / self.file).read_text().split("\n"), 1):
            if "__global__" in text:
                inside = f" {self.kernel}(" in text
            if inside and text.rstrip().endswith(("// FAULT", "// OTHER")):
                marked.add(number)
        return marked


INSIDE = "the access stays inside the block's shared memory"
OWN = "the access stays inside the thread's local memory, or in a register"
CONSTANT = "the tool does not check constant memory"
SHARED_INIT = "initcheck watches global memory only"
GLOBAL_RACE = "racecheck watches shared memory only"
PADDING = "the array's memory is rounded up, and the access stays inside what was allocated"
SYSTEM_SHARED = "below a block's shared memory lies the system's own, which memcheck lets pass"
ATOMIC_RACE = "racecheck does not weigh an atomic against a plain access"
OTHER_WARP = "racecheck saw no race between the two warps in this run"
HANGS_FIRST = "the kernel hangs on this GPU, and synccheck has said nothing by then"
MASK_UNSEEN = "synccheck does not look at this argument of a shuffle"
# Why racecheck accuses a kernel that is correct.
NO_CHAINS = "racecheck does not follow order that is handed on from one __syncwarp to the next"
NO_FENCES = "racecheck does not know order by a fence and an atomic in shared memory"


def zeros(count: int, dtype: str = "f4") -> Array:
    return Array(dtype, np.zeros(count, "u2" if dtype == "bf16" else dtype))


def floats(count: int, seed: int = 0) -> Array:
    """Uniform in [0, 1)."""
    return Array("f4", np.random.default_rng(seed).random(count, np.float32))


def ints(count: int, high: int = 10, seed: int = 0, dtype: str = "i4") -> Array:
    """Whole numbers in [0, high)."""
    return Array(dtype, np.random.default_rng(seed).integers(0, high, count).astype(dtype))


def these(*values: int) -> Array:
    return Array("i4", np.array(values, "i4"))


def bf16(count: int) -> Array:
    """Bits of bfloat16 numbers in [0, 1)."""
    return Array("bf16", (floats(count).values.view("u4") >> 16).astype("u2"))


def as_float(bits: np.ndarray) -> np.ndarray:
    return (bits.astype("u4") << 16).view("f4")


def _bounds() -> list[Case]:
    def case(kernel, grid, block, args, name, index, **more):
        more = {"kind": "bounds", "tool": "memcheck", **more}
        return Case(
            "faulty_bounds.cu", kernel, (grid,), block, args, name=name, index=index, **more
        )

    return [
        case("no_guard", 1, (128,), (zeros(128), floats(100), 100), "x", 100),
        case("less_or_equal", 2, (64,), (zeros(100), 100), "out", 100),
        case("left_neighbour", 1, (128,), (zeros(100), floats(100), 100), "x", -1),
        case("wrong_stride", 1, (8, 4), (zeros(32), floats(32), 4, 8), "x", 32),
        case("shifted_write", 1, (64,), (zeros(50, "i4"), 50), "out", 50),
        case("far_away", 1, (32,), (zeros(32), floats(32), 32), "x", 1000003),
        case("null_pointer", 1, (32,), (zeros(32), None, 32), None, None),
        case("vector_tail", 1, (32,), (zeros(120), floats(102), 102), "x", 103, missed=PADDING),
        case("misaligned_vector", 1, (8,), (zeros(32), floats(32)), None, None, kind="misaligned"),
        case(
            "histogram_bin",
            1,
            (32,),
            (zeros(8, "i4"), Array("f4", np.linspace(0, 1, 32, dtype="f4")), 32, 8),
            "bins",
            8,
        ),
        case("padded_slot", 1, (32,), (zeros(4), floats(4), these(0, 1, -1, 3), 4), "cache", -1),
        case("streaming_load", 1, (32,), (zeros(32), floats(32), 32), "x", 32),
        case("async_source", 1, (32,), (zeros(128), floats(128)), "x", 128),
        case("shared_end", 1, (64,), (zeros(64), floats(64)), "row", 64),
        case("shared_neighbour", 1, (64,), (zeros(64), floats(64), 8), "first", 64, missed=INSIDE),
        case("shared_row", 1, (16, 16), (zeros(256), 4), "tile", 17),
        case(
            "shared_negative", 1, (64,), (zeros(64), floats(64), 1), "row", -1, missed=SYSTEM_SHARED
        ),
        case(
            "dynamic_too_small", 1, (64,), (zeros(64), floats(64), 64), "buffer", 96, shared_mem=384
        ),
        case(
            "dynamic_in_elements", 1, (64,), (zeros(64), floats(64)), "staging", 16, shared_mem=64
        ),
        case("dynamic_forgotten", 1, (64,), (zeros(64, "i4"),), "counts", 0),
        case("local_array", 1, (32,), (zeros(32), floats(5), 4), "mine", 4, missed=OWN),
        case("constant_table", 1, (4,), (zeros(4), these(0, 3, 4, 1)), "table", 4, missed=CONSTANT),
    ]


def _races() -> list[Case]:
    def race(kernel, block, args, name, grid=1, **more):
        more = {"kind": "race", "tool": "racecheck", **more}
        return Case("faulty_races.cu", kernel, (grid,), (block,), args, name=name, **more)

    def unwritten(kernel, block, args, name, index):
        return race(
            kernel,
            block,
            args,
            name,
            kind="uninitialised",
            tool="initcheck",
            missed=SHARED_INIT,
            index=index,
        )

    return [
        race("no_barrier", 128, (zeros(128), floats(128)), "row"),
        race("no_second_barrier", 64, (zeros(64), floats(192), 3), "tile"),
        race("no_syncwarp", 32, (zeros(1), floats(64)), "sums"),
        race("volatile_warp", 64, (zeros(1), floats(64)), "sums"),
        race("shuffle_is_no_barrier", 32, (zeros(32, "i4"), ints(32)), "row"),
        race("histogram_without_atomics", 64, (zeros(16, "i4"), ints(256, 16), 256), "bins"),
        race("all_write_one", 64, (zeros(64, "i4"),), "winner"),
        race("atomic_and_read", 64, (zeros(64, "i4"),), "total", missed=ATOMIC_RACE),
        race("atomic_before_start", 96, (zeros(96, "i4"),), "count", missed=ATOMIC_RACE),
        race("wrong_buffer", 64, (zeros(64), floats(256), 4), "buffer"),
        race("reused_scratch", 64, (zeros(64), floats(64)), "scratch"),
        race("half_warps", 32, (zeros(32, "i4"), ints(32)), "row"),
        race("tree_without_barrier", 256, (zeros(1), floats(256)), "sums"),
        race("half_of_a_pair", 64, (zeros(64, "bf16"), bf16(64)), "row"),
        race("argmax_tree", 128, (zeros(1, "i4"), floats(128)), "best", shared_mem=1024),
        race("async_without_barrier", 64, (zeros(64), floats(256)), "staged"),
        race("async_without_wait", 64, (zeros(64), floats(256)), "staged"),
        race("fence_alone", 64, (zeros(1, "i4"),), "message", missed=OTHER_WARP),
        unwritten("unfilled_tail", 64, (zeros(64), floats(64), 64), "row", 63),
        unwritten("unset_sum", 64, (zeros(64, "i4"),), "total", None),
        unwritten("unset_partials", 128, (zeros(1), floats(128)), "partial", 4),
        unwritten("unset_vector_tail", 64, (zeros(16), floats(62), 62), "row", 62),
        race(
            "last_block_without_fence",
            64,
            (zeros(1), zeros(8), zeros(1, "i4"), floats(512)),
            "partial",
            8,
            missed=GLOBAL_RACE,
        ),
        race("stencil_in_place", 64, (floats(256), 256), "x", 4, missed=GLOBAL_RACE),
        race(
            "global_exchange", 64, (zeros(64), zeros(64), floats(64)), "scratch", missed=GLOBAL_RACE
        ),
        race("sum_without_atomic", 32, (zeros(1, "i4"),), "total", 4, missed=GLOBAL_RACE),
    ]


def _sync() -> list[Case]:
    def case(kernel, block, args, kind, **more):
        more = {"tool": "synccheck", **more}
        return Case("faulty_sync.cu", kernel, (1,), (block,), args, kind=kind, **more)

    return [
        case("barrier_in_both_branches", 64, (zeros(64, "i4"),), "barrier"),
        case("barrier_in_if", 64, (zeros(64, "i4"),), "barrier"),
        case("barrier_in_loop", 64, (zeros(64, "i4"), 100), "barrier", missed=HANGS_FIRST),
        case("full_mask_in_branch", 32, (zeros(32, "i4"),), "deadlock", missed=HANGS_FIRST),
        case("mask_without_caller", 32, (zeros(32, "i4"),), "warp", missed=MASK_UNSEEN),
        case("mixed_warp_functions", 32, (zeros(32, "i4"),), "warp", missed=HANGS_FIRST),
        case("syncwarp_in_branch", 32, (zeros(32, "i4"),), "deadlock", missed=HANGS_FIRST),
        case("endless_wait", 32, (zeros(1, "i4"),), "interrupted", hangs=True),
        case("endless_loop", 32, (zeros(32), 32), "interrupted", hangs=True),
        case("shuffle_width", 32, (zeros(32, "i4"), 12), "warp", missed=MASK_UNSEEN),
    ]


FAULTY = [*_bounds(), *_races(), *_sync()]


def _scan_by_warp(out, x):
    return x.reshape(4, 32).sum(1, dtype="f4").repeat(32)


def _windows(x):
    padded = np.pad(x, 1)
    return padded[:-2] + padded[1:-1] + padded[2:]


def _softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)).ravel()


def _partial_masks(out, x, n):
    sums = x[:n].reshape(-1, 4).sum(1).repeat(4) + 1000
    return np.concatenate([sums, np.zeros(32 - n, "i4")])


def _early_return(out, x, n):
    row = np.zeros(96, "i4")
    row[:n] = x[:n]
    return np.concatenate([row[::-1], np.zeros(32, "i4")])


def _chained(out, prefix, ready, x):
    ends = x.reshape(8, 32).sum(1).cumsum() - x.reshape(8, 32).sum(1)
    return x + ends.repeat(32).astype("i4")


def _carved(out, x, order, n):
    rounded = as_float(((x.view("u4") + 0x7FFF + (x.view("u4") >> 16 & 1)) >> 16).astype("u2"))
    return x[order] + rounded[order[::-1]]


def _correct() -> list[Case]:
    def warps(kernel, block, args, expected, grid=1, shared_mem=0, accused=""):
        return Case(
            "correct_warps.cu",
            kernel,
            (grid,),
            (block,),
            args,
            shared_mem,
            accused=accused,
            expected=expected,
        )

    def blocks(kernel, grid, block, args, expected, shared_mem=0):
        return Case("correct_blocks.cu", kernel, grid, block, args, shared_mem, expected=expected)

    order = Array("i4", np.random.default_rng(1).permutation(64).astype("i4"))
    return [
        warps("syncwarp_reduction", 128, (zeros(128), floats(128)), _scan_by_warp),
        warps(
            "block_reduction",
            96,
            (zeros(1), floats(1000), 1000),
            lambda out, x, n: x.sum(keepdims=True),
        ),
        warps(
            "half_warp_exchange",
            64,
            (zeros(64, "i4"), ints(64)),
            lambda out, x: x.reshape(4, 16)[:, ::-1].ravel() + 2,
        ),
        warps(
            "chain_of_meetings",
            32,
            (zeros(2, "i4"),),
            lambda out: np.array([5, 6], "i4"),
            accused=NO_CHAINS,
        ),
        warps(
            "partial_masks",
            32,
            (zeros(32, "i4"), Array("i4", ints(32).values + 1), 20),
            _partial_masks,
        ),
        warps("early_return", 128, (zeros(128, "i4"), ints(128), 70), _early_return),
        warps(
            "histogram",
            64,
            (zeros(16, "i4"), ints(1000, 16), 1000),
            lambda out, x, n: np.bincount(x, minlength=16),
            3,
        ),
        warps("any_of_them", 64, (zeros(64, "i4"), ints(64)), lambda out, x: np.ones(64, "i4")),
        warps(
            "neighbouring_bytes",
            128,
            (zeros(128, "u1"), ints(128, 100, dtype="u1")),
            lambda out, x: 2 * x[::-1],
        ),
        warps(
            "last_warp",
            128,
            (zeros(1), floats(128)),
            lambda out, x: x.sum(keepdims=True),
            accused=NO_FENCES,
        ),
        warps(
            "spin_lock",
            128,
            (zeros(1, "i4"), zeros(1, "i4")),
            lambda out, lock: np.array([12], "i4"),
            3,
        ),
        warps(
            "counting_barrier",
            64,
            (zeros(64, "i4"), ints(64)),
            lambda out, x: (x > 3).sum() * 100 + x[::-1],
        ),
        blocks(
            "double_buffered_gemm",
            (2, 2),
            (16, 16),
            (zeros(32 * 32), floats(32 * 32), floats(32 * 32, 1), 32),
            lambda C, A, B, n: (A.reshape(n, n) @ B.reshape(n, n)).ravel(),
        ),
        blocks(
            "ragged_gemm",
            (2, 3),
            (16, 16),
            (zeros(37 * 21), floats(37 * 19), floats(19 * 21, 1), 37, 21, 19),
            lambda C, A, B, M, N, K: (A.reshape(M, K) @ B.reshape(K, N)).ravel(),
        ),
        blocks(
            "last_block",
            (5,),
            (64,),
            (zeros(1), zeros(5), zeros(1, "i4"), floats(700), 700),
            lambda out, partial, count, x, n: x.sum(keepdims=True),
        ),
        blocks(
            "last_block_by_all",
            (4,),
            (32,),
            (zeros(128), zeros(128), zeros(1, "u4"), floats(128)),
            lambda out, partial, count, x: 2 * x + 1,
        ),
        blocks(
            "chained_scan",
            (8,),
            (32,),
            (zeros(256, "i4"), zeros(8, "i4"), zeros(8, "i4"), ints(256)),
            _chained,
        ),
        blocks("carved", (1,), (64,), (zeros(64), floats(64), order, 64), _carved, 640),
        blocks(
            "argmax",
            (2,),
            (128,),
            (zeros(2, "i4"), floats(256)),
            lambda out, x: x.reshape(2, 128).argmax(1),
        ),
        blocks(
            "transpose",
            (2, 2),
            (32, 8),
            (zeros(64 * 64, "bf16"), bf16(64 * 64), 64),
            lambda out, x, n: x.reshape(n, n).T.ravel(),
        ),
        blocks(
            "vectors",
            (1,),
            (32,),
            (zeros(32), floats(128)),
            lambda out, x: x.reshape(32, 4)[::-1] @ [1, 2, 3, 4],
        ),
        blocks(
            "online_softmax",
            (2,),
            (64,),
            (zeros(2 * 150), floats(2 * 150), 150),
            lambda out, x, n: _softmax(x.reshape(2, n)),
        ),
        blocks(
            "async_double_buffer",
            (1,),
            (64,),
            (zeros(64), floats(1024), 4),
            lambda out, x, rounds: x.reshape(4, 256)[:, ::-1].reshape(16, 64).sum(0),
        ),
        blocks("scan", (1,), (64,), (zeros(64, "i4"), ints(64)), lambda out, x: x.cumsum()),
        blocks(
            "stencil", (3,), (64,), (zeros(150), floats(150), 150), lambda out, x, n: _windows(x)
        ),
        blocks(
            "global_reversal",
            (2,),
            (64,),
            (zeros(128), zeros(128), floats(128)),
            lambda out, scratch, x: x.reshape(2, 64)[:, ::-1].ravel(),
        ),
        blocks(
            "shared_exit",
            (1,),
            (64,),
            (zeros(64, "i4"), Array("i4", ints(64, 50).values + 3), 64),
            lambda out, x, n: np.full(64, x.min()),
        ),
        blocks("in_place", (2,), (32,), (floats(150), 150), lambda x, n: 2 * x + 1),
    ]


CORRECT = _correct()
ALL = [*FAULTY, *CORRECT]
