"""Profile mode: what a kernel asks of the memories, and where its warps diverge, counted on a CPU.

The kernel is compiled with a call at every basic block and every access; the emulator's threads run one after another
and each writes its trace; the traces of a warp are then replayed together (profile.cpp, profile_warp.cpp). The counts
are those of Nsight Compute, as tests/cuda/profile holds them to.

One C++ access is one instruction here. A GPU's compiler may do better: it joins neighbouring accesses of one thread
(an unrolled loop over a row of a shared array becomes 16-byte loads), and it may replace a short branch by predicates,
which then diverges here and not there.
"""

from __future__ import annotations

import ctypes
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from .compiler import find_compiler
from .emulator import Launch, Mode, Program
from .profile_flops import count_flops
from .profile_report import BLOCK, MMA_FLOPS, WARP, Report, Sample, report

if TYPE_CHECKING:
    from .module import Kernel

MAX_PLACES = 20_000  # of instructions; an event holds 16 bits for them
MAX_EVENTS = 1 << 27  # 1 GiB of traces
ALLOCATION = 256  # bytes: a GPU's arrays begin at multiples of it

# Each access of the source stays one call, and the code stays in the order of the source (the replay relies on it).
_GCC = (
    "-O1 -fsanitize=thread -fsanitize-coverage=trace-pc -fsanitize-coverage=trace-cmp -finline-functions "
    "-finline-small-functions --param=max-inline-insns-auto=5000 --param=max-inline-insns-single=5000 "
    "--param=inline-unit-growth=1000 -fno-tree-sra -fno-store-merging -fno-thread-jumps -fno-crossjumping "
    "-fno-reorder-blocks -fno-reorder-functions -fno-if-conversion -fno-if-conversion2 -fno-ipa-icf "
    "-fno-optimize-sibling-calls"
)
_CLANG = (
    "-O1 -fsanitize=thread -fsanitize-coverage=bb,trace-pc,trace-cmp -mllvm -tsan-instrument-func-entry-exit=1 "
    "-fno-vectorize -fno-slp-vectorize -fno-optimize-sibling-calls"
)

# ---- the structures of host/profile.h; keep both in step ----


class _Traffic(ctypes.Structure):
    _fields_ = [
        (n, ctypes.c_uint64) for n in ("requests", "threads", "bytes_asked", "units", "ideal")
    ]


class _Place(ctypes.Structure):
    _fields_ = [
        ("pc", ctypes.c_uint64), ("file", ctypes.c_char_p), ("line", ctypes.c_int32), ("kind", ctypes.c_uint8),
        ("bytes", ctypes.c_uint8), ("pad", ctypes.c_uint8 * 2), ("warps", ctypes.c_uint64),
        ("threads", ctypes.c_uint64), ("divergent", ctypes.c_uint64), ("global_", _Traffic), ("shared", _Traffic),
    ]  # fmt: skip


class _Range(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("begin", "end", "shift")]


class _Data(ctypes.Structure):
    _fields_ = [
        ("text", ctypes.c_uint64), ("text_bytes", ctypes.c_uint64), ("places", ctypes.POINTER(_Place)),
        ("num_places", ctypes.c_uint64), ("max_places", ctypes.c_uint64), ("ranges", ctypes.POINTER(_Range)),
        ("num_ranges", ctypes.c_uint64), ("max_events", ctypes.c_uint64),
    ]  # fmt: skip


def profile(kernel: Kernel, grid: tuple, block: tuple, args: tuple, shared_mem: int = 0) -> Report:
    """Runs a kernel on CPU arrays and counts. Raises what a launch raises.

    Results are those of a launch. An array counts as beginning where it would on a GPU: an allocation at a multiple of
    256 bytes, and a view (`x[1:]`) as far behind that as it lies in its allocation.
    """
    folder = Path(__file__).parent
    mode = Mode(
        "profile",
        flags=tuple((_GCC if find_compiler().kind == "gcc" else _CLANG).split()),
        sources=(folder / "profile.cpp", folder / "profile_warp.cpp"),
        workers=1,
        prepare=partial(_prepare, offsets=_offsets(args)),
        collect=_collect,
    )
    samples = kernel.run(grid, block, args, shared_mem, mode)
    return report(kernel.name, kernel.module.source, *samples)


def _offsets(args: tuple) -> dict[int, int]:
    """Address -> how far into its allocation an array begins, in bytes."""
    found = {}
    for a in args if isinstance(args, tuple | list) else ():
        if isinstance(a, torch.Tensor) and a.device.type == "cpu":
            found[a.data_ptr()] = a.storage_offset() * a.element_size()
        elif isinstance(a, np.ndarray):
            root = a
            while isinstance(root.base, np.ndarray):
                root = root.base
            found[a.ctypes.data] = a.ctypes.data - root.ctypes.data
    return found


def _prepare(program: Program, launch: Launch, offsets: dict[int, int]) -> tuple:
    arrays = [launch.arrays[i] for i in range(launch.num_arrays)]
    ranges = [
        (a.begin, a.begin + a.bytes, (a.begin - offsets.get(a.begin, 0)) % ALLOCATION)
        for a in arrays
        if a.begin
    ]
    ranges += _device_variables(program)
    places = (_Place * MAX_PLACES)()
    table = (_Range * max(1, len(ranges)))(*(_Range(*r) for r in ranges))
    end = max((v + n for kind, v, n in program.binary.symbols.values() if kind == 2), default=0)
    data = _Data(
        text=program.base, text_bytes=end + 16, places=places, max_places=MAX_PLACES, ranges=table,
        num_ranges=len(ranges), max_events=MAX_EVENTS,
    )  # fmt: skip
    launch.mode_data = ctypes.addressof(data)
    return data, places, table


_DEVICE = re.compile(r"\b__device__\b(?![^;{}=]*\()[^;{}=\[]*?\b(\w+)\s*(?=[\[;={])")


def _device_variables(program: Program) -> list[tuple[int, int, int]]:
    """Where the text's `__device__` variables lie: global memory. Constants are not."""
    names = set(_DEVICE.findall(program.source.blanked))
    found = []
    for symbol, (kind, value, size) in program.binary.symbols.items():
        name = (
            re.sub(r"^_ZL?\d+|^_ZN.*?\d+(?=[A-Za-z_]\w*E$)|E$", "", symbol)
            if symbol.startswith("_Z")
            else symbol
        )
        if kind == 1 and size and name in names:
            begin = program.base + value
            found.append((begin, begin + size, begin % ALLOCATION))
    return found


def _collect(program: Program, launch: Launch, kept: tuple) -> tuple | None:
    """What `report` wants: grid, block, samples, and whether FLOPs could be counted. None if the launch failed."""
    if launch.fault.kind:
        return None
    data, places, _ = kept
    flops = count_flops(program.path)
    samples = []
    for i in range(1, data.num_places):
        p = places[i]
        if p.kind > WARP:  # entering and leaving functions
            continue
        if p.kind == BLOCK:
            for address, count in (flops or {}).get(p.pc - program.base, ()):
                place = program.line_of(program.base + address)
                if place and p.threads:
                    samples.append(Sample(*place, BLOCK, flops=count * p.threads))
            continue
        place = program.line_of(p.pc - 1) if p.pc else (Path(p.file.decode()).name, p.line)
        if place is None:
            continue
        samples.append(
            Sample(
                *place,
                p.kind,
                warps=p.warps,
                divergent=p.divergent,
                global_=_tuple(p.global_),
                shared=_tuple(p.shared),
                flops=p.warps * MMA_FLOPS if p.kind == WARP and p.bytes else 0,
            )  # fmt: skip
        )
    return tuple(launch.grid), tuple(launch.block), samples, flops is not None


def _tuple(t: _Traffic) -> tuple[int, ...]:
    return t.requests, t.threads, t.bytes_asked, t.units, t.ideal
