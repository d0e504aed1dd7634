"""Runs kernels on the CPU: compiles the `.cu` with the system's C++ compiler and starts the runtime
(host/emu.cpp).

A `Mode` says how a kernel is instrumented; FAST is not at all. Other modes bring compiler flags and
a C++ file that answers the calls which those flags put before every access to memory, and read
their findings after the launch.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from .arguments import ArrayArgument, Parameter, parameters_of
from .binary import Binary, read_binary
from .compiler import HOST, build_module, build_object
from .errors import CompileError, KernelError
from .source import Source

STATIC_SHARED_LIMIT = 48 * 1024
PRINT_BYTES = 1 << 20  # as on a GPU
FAULTS = (
    "none",
    "memory",
    "stack",
    "arithmetic",
    "barrier",
    "warp",
    "deadlock",
    "assert",
    "interrupted",
    "trap",
    "check",
)

# ---- the structures of host/emu.h; keep both in step ----


class _Pool(ctypes.Structure):
    _fields_ = [("stacks", ctypes.c_void_p), ("count", ctypes.c_uint64)]


class _Array(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("begin", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("element_bytes", ctypes.c_uint32),
        ("writable", ctypes.c_uint32),
    ]


class Fault(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("line", ctypes.c_int32),
        ("block", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32 * 3),
        ("file", ctypes.c_char_p),
        ("pc", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("text", ctypes.c_char * 1500),
    ]


class Launch(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint64),
        ("args", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("arrays", ctypes.POINTER(_Array)),
        ("num_arrays", ctypes.c_int32),
        ("num_workers", ctypes.c_int32),
        ("pools", ctypes.POINTER(_Pool)),
        ("print", ctypes.c_void_p),
        ("print_capacity", ctypes.c_uint64),
        ("print_used", ctypes.c_uint64),
        ("print_dropped", ctypes.c_uint64),
        ("blocks_done", ctypes.c_uint64),
        ("mode_data", ctypes.c_void_p),
        ("fault", Fault),
        ("state", ctypes.c_void_p),
    ]


# ---- modes ----


@dataclass(frozen=True)
class Mode:
    """How a kernel is compiled and what happens around its launch.

    `flags` are the compiler's; `sources` are further C++ files of the emulator, linked in.
    `prepare(program, launch)` may set `launch.mode_data`; what it returns is kept until
    `collect(program, launch, kept)` has run, which is called whether or not the launch failed. Its
    result is what `run` returns.
    """

    name: str
    flags: tuple[str, ...] = ("-O2",)
    sources: tuple[Path, ...] = ()
    workers: int | None = None  # OS threads; None: one for each CPU
    prepare: Callable[[Program, Launch], object] | None = None
    collect: Callable[[Program, Launch, object], object] | None = None


FAST = Mode("fast")


@dataclass
class Program:
    """A compiled `.cu` in one mode, loaded: kernels by name expression."""

    source: Source
    path: Path
    library: ctypes.CDLL
    names: tuple[str, ...]
    parameters: dict[str, tuple[Parameter, ...]] = field(default_factory=dict)
    entries: dict[str, int] = field(default_factory=dict)

    @property
    def binary(self) -> Binary:
        return read_binary(self.path)

    @property
    def base(self) -> int:
        """Where the library lies in memory: addresses minus this are those of `binary`."""
        loaded = ctypes.cast(self.library.emu_start, ctypes.c_void_p).value
        return (
            loaded - self.binary.symbols["emu_start"][1]
            if "emu_start" in self.binary.symbols
            else 0
        )

    def line_of(self, pc: int) -> tuple[str, int] | None:
        """The source line of an address in this program's code. For a return address pass one
        less."""
        if not pc or not self.base:
            return None
        return self.binary.line_of(pc - self.base, own_headers())


@lru_cache
def own_headers() -> frozenset[str]:
    """File names whose lines mean nothing to a user."""
    return frozenset(f.name for f in HOST.iterdir()) | {"tinyvllm-launch"}


def compile_program(
    source: Source,
    names: tuple[str, ...],
    options: tuple[str, ...],
    prologue: str,
    mode: Mode = FAST,
) -> Program:
    """Compiles the kernels that the name expressions name. Raises CompileError,
    CompilerNotFound."""
    entries = "\n".join(f"TINYVLLM_KERNEL({i}, {name})" for i, name in enumerate(names))
    text = (
        f'{prologue}\n#line {source.first_line} "{source.filename}"\n{source.for_host()}\n'
        f'#line 1 "tinyvllm-launch"\n#include "entry.h"\n{entries}\n'
    )
    instrument = () if mode is FAST else ("-DTINYVLLM_INSTRUMENT",)
    runtime = build_object(HOST / "emu.cpp")
    extra = tuple(build_object(path, instrument) for path in mode.sources)
    include = tuple(o[2:] for o in options if o.startswith("-I"))
    flags = tuple(o for o in options if o.startswith(("-D", "-U")))
    path = build_module(text, (*mode.flags, *instrument, *flags), (runtime, *extra), include)
    return _load(path, source, names)


def _load(path: Path, source: Source, names: tuple[str, ...]) -> Program:
    library = ctypes.CDLL(str(path))
    library.emu_start.argtypes = library.emu_finish.argtypes = library.emu_interrupt.argtypes = [
        ctypes.c_void_p
    ]
    library.emu_wait.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.emu_start.restype = ctypes.c_char_p
    library.emu_static_shared_bytes.restype = ctypes.c_uint64
    program = Program(source, path, library, names)
    _check_program(program)
    for i, name in enumerate(names):
        entry = (ctypes.c_void_p * 2).in_dll(library, f"tinyvllm_kernel_{i}")
        program.entries[name] = ctypes.addressof(entry)
        program.parameters[name] = read_signature(entry[1], source.kernel(name).parameters)
    return program


def _check_program(program: Program) -> None:
    variables = program.binary.shared_variables
    total = max((v.offset + v.bytes for v in variables), default=0) - min(
        (v.offset for v in variables), default=0
    )
    by_function: dict[str, int] = {}
    for v in variables:
        by_function[v.function] = by_function.get(v.function, 0) + v.bytes
    largest = max(by_function.values(), default=total)
    if largest > STATIC_SHARED_LIMIT:
        names = ", ".join(f"{v.name} ({v.bytes})" for v in variables)
        raise CompileError(
            f"{program.source.filename}: the kernel's __shared__ variables need {largest} bytes, "
            f"a block has at most "
            f"{STATIC_SHARED_LIMIT} of static shared memory ({names}); more is possible with "
            "`extern __shared__` and shared_mem="
        )
    if any(
        s.startswith(("_GLOBAL__sub_I", "_Z41__static_init", "__cxx_global_var_init"))
        for s in program.binary.symbols
    ):
        raise CompileError(
            f"{program.source.filename}: a __device__ or __constant__ variable has a constructor "
            f"or an initial value "
            "that must be computed at run time; CUDA allows constant initial values only"
        )


def read_signature(address: int, names: tuple[str, ...]) -> tuple[Parameter, ...]:
    """The table of host/signature.h at an address of memory."""
    count = ctypes.c_int32.from_address(address).value
    table = (ctypes.c_int32 * (5 * count)).from_address(address + 4)
    return parameters_of(list(table), names)


# ---- launching ----

_one_launch = threading.Lock()  # signal handlers and stacks belong to the process
_pools = (_Pool * 64)()
_print_buffer: ctypes.Array | None = None


def default_workers() -> int:
    """OS threads for a launch: $TINYVLLM_EMULATOR_WORKERS, else the CPUs this process may use, at
    most 16."""
    asked = os.environ.get("TINYVLLM_EMULATOR_WORKERS")
    if asked:
        return max(1, min(64, int(asked)))
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(16, cpus)


def time_limit() -> float:
    """Seconds in which at least one block must end: $TINYVLLM_EMULATOR_LIMIT, else 60."""
    return float(os.environ.get("TINYVLLM_EMULATOR_LIMIT", "60"))


def run(
    program: Program,
    name: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    arguments: list[ArrayArgument | np.generic | None],
    shared_mem: int,
    mode: Mode = FAST,
) -> object:
    """Runs a kernel to its end; prints what it printed. Raises KernelError. Returns what the mode
    collects."""
    parameters = program.parameters[name]
    buffer, slots = _pack(parameters, arguments)
    arrays = [a for a in arguments if isinstance(a, ArrayArgument)]
    described = (_Array * max(1, len(arrays)))()
    for d, a in zip(described, arrays):
        d.name, d.begin, d.bytes = a.parameter.name.encode(), a.address, a.bytes
        d.element_bytes, d.writable = a.element_bytes, not a.parameter.const
    blocks = grid[0] * grid[1] * grid[2]
    launch = Launch(
        grid=grid,
        block=block,
        shared_bytes=shared_mem,
        kernel=program.entries[name],
        arrays=described,
    )
    launch.args = ctypes.addressof(slots)
    launch.num_arrays = len(arrays)
    launch.num_workers = min(mode.workers or default_workers(), blocks)
    with _one_launch:
        launch.pools = ctypes.cast(_pools, ctypes.POINTER(_Pool))
        launch.print, launch.print_capacity = ctypes.addressof(_printing()), PRINT_BYTES
        kept = mode.prepare(program, launch) if mode.prepare else None
        try:
            _run_to_end(program.library, launch)
        finally:
            printed = ctypes.string_at(launch.print, launch.print_used)
            result = mode.collect(program, launch, kept) if mode.collect else None
    del buffer
    _show(printed, launch.print_dropped)
    if not launch.fault.kind and launch.blocks_done < blocks:  # stopped between two blocks
        launch.fault.kind = FAULTS.index("interrupted")
    if launch.fault.kind:
        raise kernel_error(program, name, launch, arrays)
    return result


def _pack(parameters: tuple[Parameter, ...], arguments: list) -> tuple[ctypes.Array, ctypes.Array]:
    """Lays the values out in memory, 16-byte aligned, and lists their addresses."""
    sizes = [8 if p.pointer else p.bytes for p in parameters]
    starts = [sum(-(-s // 16) * 16 for s in sizes[:i]) for i in range(len(sizes))]
    total = starts[-1] + -(-sizes[-1] // 16) * 16 if sizes else 0
    buffer = ctypes.create_string_buffer(total + 32)
    base = -(-ctypes.addressof(buffer) // 16) * 16
    slots = (ctypes.c_void_p * max(1, len(sizes)))(*(base + s for s in starts))
    for start, p, value in zip(starts, parameters, arguments):
        if p.pointer:
            raw = (value.address if value is not None else 0).to_bytes(8, sys.byteorder)
        else:
            raw = value.tobytes()
        ctypes.memmove(base + start, raw, len(raw))
    return buffer, slots


def _printing() -> ctypes.Array:
    global _print_buffer
    if _print_buffer is None:
        _print_buffer = ctypes.create_string_buffer(PRINT_BYTES)
    return _print_buffer


def _run_to_end(library: ctypes.CDLL, launch: Launch) -> None:
    address = ctypes.addressof(launch)
    missing = library.emu_start(address)
    if missing:
        library.emu_interrupt(address)
        library.emu_finish(address)
        raise MemoryError(f"the emulator could not get {missing.decode()}")
    limit, done, since = time_limit(), 0, time.monotonic()
    try:
        # Python's own signal handlers (Ctrl-C) run between these waits.
        while not library.emu_wait(address, 100):
            if launch.blocks_done != done:
                done, since = launch.blocks_done, time.monotonic()
            if time.monotonic() - since > limit or launch.fault.kind:
                library.emu_interrupt(address)
    except BaseException:
        while not library.emu_wait(address, 20):
            library.emu_interrupt(address)
        raise
    finally:
        library.emu_finish(address)


def _show(printed: bytes, dropped: int) -> None:
    if printed:
        sys.stdout.write(printed.decode(errors="replace"))
    if dropped:
        sys.stdout.write(
            f"\n[{dropped} more printf calls: the buffer of {PRINT_BYTES} bytes was full]\n"
        )


# ---- what went wrong, in words ----


def kernel_error(
    program: Program, name: str, launch: Launch, arrays: list[ArrayArgument]
) -> KernelError:
    """The fault that stopped a launch as a sentence: kernel, block, thread, what, where in memory,
    which line."""
    fault = launch.fault
    kind = FAULTS[fault.kind]
    file, line = None, None
    if place := program.line_of(fault.pc):
        file, line = place
    elif fault.file:
        file, line = os.path.basename(fault.file.decode()), fault.line
    array, index = None, None
    text = fault.text.decode(errors="replace")
    if kind == "memory" and not text:
        text, array, index = _describe_address(fault.address, arrays)
    elif kind == "stack":
        text = "its stack is full: too large local arrays, or endless recursion"
    elif kind == "arithmetic":
        text = "whole number divided by zero (a GPU would go on with a wrong number)"
    elif kind == "interrupted":
        text = (
            f"stopped: not one block ended within {time_limit():g} seconds. Is there a loop "
            f"without an end, or does a "
            "block wait for another one? (The environment variable TINYVLLM_EMULATOR_LIMIT sets "
            "the seconds.)"
        )
    block, thread = tuple(fault.block), tuple(fault.thread)
    where = f" ({file}:{line})" if file else ""
    message = f"{name}: block {_xyz(block)} thread {_xyz(thread)}: {text}{where}"
    return KernelError(
        message,
        kernel=name,
        kind=kind,
        block=block,
        thread=thread,
        file=file,
        line=line,
        array=array,
        index=index,
    )


def _xyz(v: tuple[int, ...]) -> str:
    return f"({v[0]},{v[1]},{v[2]})"


def _describe_address(
    address: int, arrays: list[ArrayArgument]
) -> tuple[str, str | None, int | None]:
    if address == 0 or address < 4096:
        return "an access through a null pointer (or at no valid address)", None, None

    def distance(a: ArrayArgument) -> int:
        return max(a.address - address, address - (a.address + a.bytes) + 1, 0)

    near = min((a for a in arrays if a.bytes), key=distance, default=None)
    if near is None or distance(near) > max(1 << 26, 4 * near.bytes):
        return (
            f"an access far from all arrays (address {address:#x}): a wrong index or pointer",
            None,
            None,
        )
    index = (address - near.address) // near.element_bytes
    count, label = near.bytes // near.element_bytes, near.parameter.name
    return f"an access out of bounds near `{label}`: element {index} of {count}", label, index
