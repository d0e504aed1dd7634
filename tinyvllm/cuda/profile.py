"""Profile mode: what a kernel asks of the memories, and where its warps diverge, counted on a CPU.

The kernel is compiled with a call at every basic block and every access; the emulator's threads run
one after another and each writes its trace; the traces of a warp are then replayed together
(host/profile.cpp, host/profile_warp.cpp). tests/cuda/profile holds the counts to Nsight Compute's.

One C++ access is one instruction here. A GPU's compiler may do better: it joins neighbouring
accesses of one thread (an unrolled loop over a row of a shared array becomes 16-byte loads), loads
only those members of a struct that are used, and replaces a short branch by predicates, which then
diverges here and not there.
"""

from __future__ import annotations

import ctypes
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from .compiler import HOST, find_compiler
from .emulator import Launch, Mode, Program
from .profile_flops import count_flops
from .profile_report import BLOCK, MMA_FLOPS, WARP, Report, Sample, report

if TYPE_CHECKING:
    from .module import Kernel

MAX_PLACES = 20_000  # of instructions; an event holds 16 bits for them
MAX_EVENTS = 1 << 27  # 1 GiB of traces
ALLOCATION = 256  # bytes: a GPU's arrays begin at multiples of it

# Each access of the source stays one call, and the code stays in the order of the source, on which
# the replay relies.
_GCC = (
    "-O1 -fsanitize=thread -fsanitize-coverage=trace-pc -fsanitize-coverage=trace-cmp "
    "-finline-functions -finline-small-functions --param=max-inline-insns-auto=5000 "
    "--param=max-inline-insns-single=5000 --param=inline-unit-growth=1000 "
    # A loop's condition may be put before it as well, so that what doesn't change can be loaded
    # once; more than a plain condition may not, for that code would then stand in two places.
    "--param=max-loop-header-insns=5 "
    "-fno-tree-sra -fno-store-merging -fno-thread-jumps -fno-crossjumping -fno-reorder-blocks "
    "-fno-reorder-functions -fno-if-conversion -fno-if-conversion2 -fno-ipa-icf "
    "-fno-optimize-sibling-calls"
)
_CLANG = (
    "-O1 -fsanitize=thread -fsanitize-coverage=bb,trace-pc,trace-cmp -fno-vectorize "
    "-fno-slp-vectorize -fno-optimize-sibling-calls"
)

# ---- the structures of host/profile.h; keep both in step ----

_u64 = ctypes.c_uint64


class _Traffic(ctypes.Structure):
    _fields_ = [(n, _u64) for n in ("requests", "threads", "bytes_asked", "units", "ideal")]


class _Place(ctypes.Structure):
    _fields_ = [
        ("pc", _u64), ("file", ctypes.c_char_p), ("line", ctypes.c_int32),
        ("kind", ctypes.c_uint8), ("bytes", ctypes.c_uint8), ("pad", ctypes.c_uint8 * 2),
        ("warps", _u64), ("threads", _u64), ("divergent", _u64),
        ("global_", _Traffic), ("shared", _Traffic),
    ]  # fmt: skip


class _Range(ctypes.Structure):
    _fields_ = [(n, _u64) for n in ("begin", "end", "shift")]


class _Data(ctypes.Structure):
    _fields_ = [
        ("text", _u64), ("text_bytes", _u64),
        ("places", ctypes.POINTER(_Place)), ("num_places", _u64), ("max_places", _u64),
        ("ranges", ctypes.POINTER(_Range)), ("num_ranges", _u64),
        ("guards", ctypes.POINTER(_Range)), ("num_guards", _u64),
        ("max_events", _u64),
    ]  # fmt: skip


def profile(kernel: Kernel, grid: tuple, block: tuple, args: tuple, shared_mem: int = 0) -> Report:
    """Runs a kernel on CPU arrays and counts. Raises what a launch raises.

    Results are those of a launch. An array counts as beginning where it would on a GPU: an
    allocation at a multiple of 256 bytes, and a view (`x[1:]`) as far behind that as it lies in its
    allocation.
    """
    mode = Mode(
        "profile",
        flags=tuple((_GCC if find_compiler().kind == "gcc" else _CLANG).split()),
        sources=(HOST / "profile.cpp", HOST / "profile_warp.cpp"),
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
    symbols = program.binary.symbols
    # Shared arrays of bfloat16 or half have a byte that says "constructed", read at every use.
    guards = [(v, v + n, 0) for s, (kind, v, n) in symbols.items() if kind == 6 and s[:4] == "_ZGV"]
    places = (_Place * MAX_PLACES)()
    tables = [(_Range * max(1, len(t)))(*(_Range(*r) for r in t)) for t in (ranges, guards)]
    data = _Data(
        text=program.base,
        text_bytes=max((v + n for kind, v, n in symbols.values() if kind == 2), default=0) + 16,
        places=places,
        max_places=MAX_PLACES,
        ranges=tables[0],
        num_ranges=len(ranges),
        guards=tables[1],
        num_guards=len(guards),
        max_events=MAX_EVENTS,
    )
    launch.mode_data = ctypes.addressof(data)
    return data, places, tables


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
    """What `report` wants: grid, block, samples, whether FLOPs were counted. None after a fault."""
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
            )
        )
    return tuple(launch.grid), tuple(launch.block), samples, flops is not None


def _tuple(t: _Traffic) -> tuple[int, ...]:
    return t.requests, t.threads, t.bytes_asked, t.units, t.ideal
