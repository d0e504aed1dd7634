"""Check mode: runs a kernel on the CPU and judges every access to memory before it is made.

Found, one error (KernelError) a launch, with kernel, block, thread, name, element and source line:

* out of bounds: arrays (each lies alone in memory while it is checked), static shared variables,
  also into a neighbour or the next row (`tile[0][20]` of `tile[16][17]`), dynamic shared memory,
  local arrays; misaligned vectors;
* data races in shared memory, within a warp too: ordered are accesses by block barriers, by
  `__syncwarp` (a shuffle or a vote orders no memory, says the CUDA guide), and by a fence followed
  by an atomic that the other thread's atomic on the same address comes after; two atomics don't
  race; several threads may write the same value;
* data races in global memory, between the threads of a block and between blocks, by the same rules:
  a last-block reduction needs its `__threadfence()`. Volatile accesses to global memory count as
  atomics. Arrays that no parameter can write are left out;
* shared memory that is read before anybody wrote it; an asynchronous copy that is read before it is
  waited for;
* divergent barriers, bad masks of warp functions, deadlocks (emulator), endless loops (a time
  limit).

Not seen: what happens inside library calls (`memcpy` of a length that is known only at run time),
and races that the given input doesn't reach. A kernel runs on one worker, its blocks one after
another, so the same error comes each time.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import torch

from . import arguments, check_report, emulator
from .arguments import ArrayArgument
from .check_names import Shared, dynamic_shared, static_shared
from .compiler import HOST, find_compiler
from .emulator import Launch, Mode, Program
from .errors import CompileError, KernelError

if TYPE_CHECKING:
    from .module import Kernel

GAP = 64 << 20  # bytes of address space between arrays: an overrun lands in nothing
_FLAGS = ("-O1", "-fsanitize=thread")
_GCC = (
    "-fsanitize=bounds,object-size",
    # Every access of the source stays, where it is and as wide as it is.
    *("-fno-tree-loop-im", "-fno-tree-sra", "-fno-store-merging", "-fno-if-conversion"),
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=1",
)
_CLANG = (
    *("-fsanitize=array-bounds", "-fno-sanitize-trap=array-bounds"),
    *("-mllvm", "-tsan-distinguish-volatile=1", "-mllvm", "-tsan-instrument-func-entry-exit=0"),
    *("-mllvm", "-tsan-instrument-read-before-write=1"),
)

# ---- the structures of host/check.h; keep both in step ----


class _Variable(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_uint64), ("bytes", ctypes.c_uint64)]


class _Region(ctypes.Structure):
    _fields_ = [
        *((n, ctypes.c_uint64) for n in ("begin", "bytes")),
        *((n, ctypes.c_int32) for n in ("tracked", "unit")),
    ]


class _Data(ctypes.Structure):
    _fields_ = [
        ("variables", ctypes.POINTER(_Variable)),
        ("regions", ctypes.POINTER(_Region)),
        *((n, ctypes.c_uint64) for n in ("base", "image_end")),
        *(
            (n, ctypes.c_int32)
            for n in ("num_variables", "num_guards", "num_regions", "instrumented")
        ),
        *((n, check_report.Report) for n in ("report", "unwritten")),
    ]


def check(kernel: Kernel, grid: tuple, block: tuple, args: tuple, shared_mem: int = 0) -> None:
    """Runs a kernel in check mode; results are those of a launch. Arrays on a GPU are copied to the
    CPU and back.

    Raises KernelError for the first fault (see the module's docstring), and what a launch raises.
    """
    host, back = _on_cpu(args) if isinstance(args, (tuple, list)) else (args, [])
    program = kernel.module.program(check_mode())
    values = arguments.convert(kernel.name, program.parameters[kernel.name], host)
    where = (
        arguments.geometry(kernel.name, "grid", grid),
        arguments.geometry(kernel.name, "block", block),
        arguments.shared_bytes(kernel.name, shared_mem),
    )
    apart = _Apart(values)
    data = _Data()

    def prepare(program: Program, launch: Launch) -> object:
        kept = _fill(data, program, apart)
        launch.mode_data = ctypes.addressof(data)
        return kept

    try:
        emulator.run(
            program,
            kernel.name,
            *where[:2],
            apart.values,
            where[2],
            replace(check_mode(), prepare=prepare),
        )
    except KernelError as error:
        shared = static_shared(program.binary)
        dynamic = _dynamic(kernel, where[2])
        scene = check_report.Scene(program, kernel, *where[:2], apart.arrays, shared, dynamic)
        raise check_report.explained(error, data.report, data.unwritten, scene) from None
    else:
        if not data.instrumented:
            raise CompileError(
                f"{find_compiler().command[0]} did not instrument the kernel (-fsanitize=thread), "
                f"so nothing was "
                "checked: set the environment variable CXX to a g++ or clang++ that does"
            )
    finally:
        apart.copy_back()
        for original, copy in back:
            original.copy_(copy) if isinstance(original, torch.Tensor) else original.set(copy)


def check_mode() -> Mode:
    """How a kernel is compiled to be checked, by the compiler that is there."""
    return _mode_of(find_compiler().kind)


@lru_cache
def _mode_of(compiler: str) -> Mode:
    flags = (*_FLAGS, *(_GCC if compiler == "gcc" else _CLANG))
    return Mode("check", flags=flags, sources=(HOST / "check.cpp",), workers=1)


def _dynamic(kernel: Kernel, shared_mem: int) -> Shared:
    alias = re.search(r"^using scalar_t = (\w+);", kernel.module.prologue, re.M)
    scalar_t = alias[1] if alias else ""
    return dynamic_shared(kernel.module.source, kernel.name, scalar_t, shared_mem)


def _fill(data: _Data, program: Program, apart: _Apart) -> object:
    symbols = program.binary.symbols
    variables = [(v.offset, v.bytes) for v in program.binary.shared_variables]
    # Beside a shared array of a class (bfloat16) the compiler keeps a flag of its own.
    guards = [
        (at, size) for n, (kind, at, size) in symbols.items() if kind == 6 and n.startswith("_ZGV")
    ]
    described = (_Variable * max(1, len(variables) + len(guards)))(*variables, *guards)
    regions = (_Region * max(1, len(apart.regions)))(*apart.regions)
    data.variables, data.num_variables, data.num_guards = described, len(variables), len(guards)
    data.regions, data.num_regions = regions, len(apart.regions)
    data.base = program.base
    ends = [value + size for kind, value, size in symbols.values() if kind in (1, 2)]
    data.image_end = program.base + -(-max(ends, default=0) // 4096) * 4096 + 4096
    return described, regions


def _on_cpu(args: tuple) -> tuple[tuple, list]:
    """The arguments with arrays of a GPU replaced by copies, and those copies with where they came
    from."""
    host, back = [], []
    for a in args:
        if isinstance(a, torch.Tensor) and a.is_cuda:
            back.append((a, a.cpu()))
        elif not isinstance(a, torch.Tensor) and hasattr(a, "__cuda_array_interface__"):
            back.append((a, a.get()))
        else:
            host.append(a)
            continue
        host.append(back[-1][1])
    return tuple(host), back


class _Apart:
    """The arrays of a launch, each copied to memory of its own far from the others.

    Arrays that overlap (one given twice, or a view of another) stay together. `regions` are
    (address, bytes, whether a parameter can write it, bytes of the smallest element and 4 at most).
    """

    def __init__(self, values: list):
        arrays = sorted(
            (a for a in values if isinstance(a, ArrayArgument)), key=lambda a: a.address
        )
        groups: list[list[ArrayArgument]] = []
        end = 0
        for a in arrays:
            if groups and a.address < end:
                groups[-1].append(a)
            else:
                groups.append([a])
            end = max(end, a.address + a.bytes)
        sizes = [max(a.address + a.bytes for a in g) - g[0].address for g in groups]
        rooms = [-(-(size + 4096) // 4096) * 4096 + GAP for size in sizes]
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        self._memory = mmap.mmap(-1, sum(rooms) + GAP, flags=flags)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.regions: list[tuple[int, int, bool, int]] = []
        self._moves: list[tuple[int, int, int, bool]] = []  # from, to, bytes, written
        moved: dict[int, ArrayArgument] = {}
        at = self._start + GAP
        for group, size, room in zip(groups, sizes, rooms):
            begin = -(-at // 4096) * 4096 + group[0].address % 256  # aligned as it was
            written = any(not a.parameter.const for a in group)
            unit = min(4, *(a.element_bytes for a in group))
            self.regions.append((begin, size, written, unit))
            self._moves.append((group[0].address, begin, size, written))
            for a in group:
                moved[id(a)] = replace(a, address=begin + a.address - group[0].address)
            at += room
        self.values = [moved.get(id(v), v) for v in values]
        self.arrays = [v for v in self.values if isinstance(v, ArrayArgument)]
        for here, there, size, _ in self._moves:
            ctypes.memmove(there, here, size)

    def copy_back(self) -> None:
        """What the kernel wrote, to where the arrays are."""
        for here, there, size, written in self._moves:
            if written:
                ctypes.memmove(here, there, size)
        self._moves = []
