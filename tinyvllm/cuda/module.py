"""`RawModule` and `Kernel`: CuPy's own convention, on a GPU through CuPy and on a CPU through the
emulator.

The arguments decide the side: CUDA arrays go to the GPU (gpu.py), CPU arrays to the emulator
(emulator.py).
"""

from __future__ import annotations

from pathlib import Path

import torch

from . import arguments, emulator
from .arguments import Parameter
from .check import check
from .compiler import KERNELS
from .emulator import FAST, Mode, Program
from .profile import profile
from .profile_report import Report
from .source import Source

SCALAR_TYPES = {
    "bf16": "__nv_bfloat16",
    "bfloat16": "__nv_bfloat16",
    torch.bfloat16: "__nv_bfloat16",
    "fp16": "__half",
    "float16": "__half",
    "half": "__half",
    torch.float16: "__half",
    torch.half: "__half",
    "fp32": "float",
    "float32": "float",
    "float": "float",
    torch.float32: "float",
}


class RawModule:
    """A `.cu` text whose kernels Python can launch.

    Args:
        code: CUDA C++ of the subset (see the package's docstring).
        options: compiler options, as CuPy's: `-DNAME=value` and `-Ifolder` count on both sides,
          others only for NVRTC.
        name_expressions: instances of templates to compile, `["scale<float>"]`; get_function adds
          others.
        filename, first_line: what error messages call the text and its first line.
        scalar_t: "bf16", "fp16", "fp32" or a torch dtype: what the text's `scalar_t` stands for.

    Nothing is compiled before the first launch, or `compile()`.
    """

    def __init__(
        self,
        code: str | None = None,
        *,
        path: str | Path | None = None,
        options: tuple[str, ...] = (),
        name_expressions: list[str] | tuple[str, ...] | None = None,
        filename: str | None = None,
        first_line: int = 1,
        scalar_t: str | torch.dtype | None = None,
    ):
        if (code is None) == (path is None):
            raise TypeError("RawModule takes either code= or path=")
        if code is None:
            code, filename = Path(path).read_text(), filename or Path(path).name
            options = (*options, f"-I{Path(path).resolve().parent}")
        if isinstance(options, str):
            raise TypeError(f"options must be a tuple of strings, got the string {options!r}")
        self.source = Source(code, filename or "kernel.cu", first_line)
        self.options = tuple(options)
        self.prologue = _prologue(scalar_t)
        self._names: list[str] = []
        for name in name_expressions or ():
            self._add(name)
        for name, kernel in self.source.kernels.items():
            if kernel.at_top and not kernel.is_template:
                self._add(name)
        self._programs: dict[str, Program] = {}
        self._gpu = None

    def _add(self, expression: str) -> str:
        name = " ".join(expression.split())
        self.source.kernel(name)  # raises if there is none
        if name not in self._names:
            self._names.append(name)
            self._programs, self._gpu = {}, None  # built anew, with this one
        return name

    @property
    def names(self) -> tuple[str, ...]:
        """The name expressions that are compiled: the text's plain kernels, and those asked for."""
        return tuple(self._names)

    def get_function(self, name: str) -> Kernel:
        """A kernel by its name, or by name expression (`"scale<float>"`). Raises ValueError if
        there is none."""
        return Kernel(self, self._add(name))

    def compile(self, mode: Mode = FAST) -> None:
        """Compiles now, for the GPU if there is one, else for the CPU. Raises CompileError."""
        if mode is FAST and torch.cuda.is_available():
            self.gpu_module().compile()
        else:
            self.program(mode)

    def program(self, mode: Mode = FAST) -> Program:
        """The text compiled for the emulator in a mode; done once."""
        if mode.name not in self._programs:
            self._programs[mode.name] = emulator.compile_program(
                self.source, self.names, self.options, self.prologue, mode
            )
        return self._programs[mode.name]

    def gpu_module(self):
        """The text compiled by NVRTC (gpu.GpuModule); done once."""
        if self._gpu is None:
            from .gpu import GpuModule

            self._gpu = GpuModule(self.source, self.names, self.options, self.prologue)
        return self._gpu


class Kernel:
    """A kernel: `kernel(grid, block, args, shared_mem=0)`, as CuPy's RawKernel."""

    def __init__(self, module: RawModule, name: str):
        self.module = module
        self.name = name
        self._gpu_function = None

    def __repr__(self) -> str:
        return f"<Kernel {self.name} of {self.module.source.filename}>"

    def __call__(self, grid: tuple, block: tuple, args: tuple, *, shared_mem: int = 0) -> None:
        """Launches the kernel on the device of its arrays: on torch's current stream, or on the CPU
        to its end.

        Args:
            grid, block: blocks and threads a block, one to three numbers.
            args: one value a parameter: arrays for pointers (or None), numbers for the rest.
            shared_mem: dynamic shared memory of a block in bytes.

        Raises: TypeError, ValueError (an argument, named), CompileError, and on the CPU
        KernelError.
        """
        function = self._gpu_function
        known = function is not None and function.owner is self.module._gpu
        if known and function.launch(grid, block, args, shared_mem):
            return
        side = arguments.side_of(args) if isinstance(args, (tuple, list)) else "cpu"
        if side == "cuda" or (side is None and torch.cuda.is_available()):
            self._gpu_function = self.module.gpu_module().function(self.name)
            self._gpu_function.launch_checked(grid, block, args, shared_mem)
        else:
            self.run(grid, block, args, shared_mem, FAST)

    def run(self, grid: tuple, block: tuple, args: tuple, shared_mem: int, mode: Mode) -> object:
        """Runs the kernel in the emulator in a mode, on CPU arrays; returns what the mode
        collects."""
        where = emulator_geometry(self.name, grid, block, shared_mem)
        program = self.module.program(mode)
        values = arguments.convert(self.name, program.parameters[self.name], args)
        for a in values:
            if isinstance(a, arguments.ArrayArgument) and a.where != "cpu":
                raise TypeError(
                    f"{self.name}: {a.parameter.label} is on {a.where}; the emulator needs CPU "
                    f"arrays"
                )
        return emulator.run(program, self.name, *where[:2], values, where[2], mode)

    def profile(self, grid: tuple, block: tuple, args: tuple, *, shared_mem: int = 0) -> Report:
        """Runs the kernel on CPU arrays and counts memory traffic, conflicts, divergence
        (profile.py)."""
        return profile(self, grid, block, args, shared_mem)

    def check(self, grid: tuple, block: tuple, args: tuple, *, shared_mem: int = 0) -> None:
        """Runs the kernel on the CPU and judges every access; raises KernelError for the first
        fault (check.py)."""
        check(self, grid, block, args, shared_mem)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The kernel's parameters, as the CPU's compiler sees them."""
        return self.module.program().parameters[self.name]


def emulator_geometry(kernel: str, grid: tuple, block: tuple, shared_mem: int) -> tuple:
    return (
        arguments.geometry(kernel, "grid", grid),
        arguments.geometry(kernel, "block", block),
        arguments.shared_bytes(kernel, shared_mem),
    )


def _prologue(scalar_t: str | torch.dtype | None) -> str:
    if scalar_t is None:
        return ""
    if scalar_t not in SCALAR_TYPES:
        raise ValueError(
            f'scalar_t must be "bf16", "fp16" or "fp32" (or that torch dtype), got {scalar_t!r}'
        )
    type_ = SCALAR_TYPES[scalar_t]
    header = {
        "__nv_bfloat16": "#include <cuda_bf16.h>",
        "__half": "#include <cuda_fp16.h>",
        "float": "",
    }[type_]
    return f"{header}\nusing scalar_t = {type_};"


def load(
    file: str | Path,
    name: str,
    *,
    scalar_t: str | torch.dtype | None = None,
    options: tuple[str, ...] = (),
) -> Kernel:
    """A kernel of a `.cu` file: a file of tinyvllm/kernels by its name, any other by its path.

    `scalar_t` says what the file's `scalar_t` stands for: "bf16", "fp16", "fp32".
    """
    path = Path(file)
    if not path.is_absolute() and len(path.parts) == 1 and not path.exists():
        path = KERNELS / path
    if not path.exists():
        known = ", ".join(sorted(f.name for f in KERNELS.glob("*.cu"))) or "none"
        raise FileNotFoundError(f"there is no kernel file {file} (the package has: {known})")
    return RawModule(path=path, scalar_t=scalar_t, options=options).get_function(name)
