"""`%%cuda rms_norm`: a cell of CUDA C++, compiled when it runs, its kernels bound for Python.

    %%cuda rms_norm                  binds this kernel; several names may stand here
    %%cuda                           binds every kernel of the cell
    %%cuda scale<float, 4>           an instance of a template, bound as `scale`
    %%cuda scale_bf16=scale<bf16>    the same under a name of one's own
    %%cuda --scalar bf16 rms_norm    what `scalar_t` stands for: bf16, half or float
    %%cuda --fast rms_norm           launches on a CPU are not checked

A bound kernel is called as any other: `rms_norm(grid, block, args, shared_mem=0)`; on CUDA tensors
it runs on the GPU, on CPU tensors in check mode (check.py). Lines are counted as the notebook
counts them: the first line of the cell is line 1. A cell sees the files of tinyvllm/kernels
(`#include "device.cuh"`) and, if it is promoted, what the earlier cells of its module define, as
they last ran.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch

from tinyvllm.course.cells import Cell
from tinyvllm.course.project import CourseError

from .arguments import side_of
from .cell_errors import CellCompileError, CellError, compile_words, exercise_to_do, in_words
from .cell_line import MagicLine, read_line
from .cell_output import device_printf
from .check import check_mode
from .emulator import FAST
from .errors import CompileError
from .module import Kernel, RawModule
from .profile_report import Report
from .source import Source


class CellKernel(Kernel):
    """A kernel of a cell: on a CPU it is checked, unless the cell says `--fast`."""

    def __init__(self, module: RawModule, name: str, *, fast: bool):
        super().__init__(module, name)
        self.fast = fast

    def __call__(self, grid: tuple, block: tuple, args: tuple, *, shared_mem: int = 0) -> None:
        """Launches the kernel; on a CPU a fault is a KernelError that names the cell's line."""
        if self._goes_to_gpu(args):
            with device_printf(self.module.source):
                super().__call__(grid, block, args, shared_mem=shared_mem)
        elif self.fast:
            launch = super().__call__
            in_words(self.module.source, launch, grid, block, args, shared_mem=shared_mem)
        else:
            self.check(grid, block, args, shared_mem=shared_mem)

    def check(self, grid: tuple, block: tuple, args: tuple, *, shared_mem: int = 0) -> None:
        """Runs the kernel on the CPU and judges every access; see Kernel."""
        in_words(self.module.source, super().check, grid, block, args, shared_mem=shared_mem)

    def profile(self, grid: tuple, block: tuple, args: tuple, *, shared_mem: int = 0) -> Report:
        """Runs the kernel on CPU arrays and counts memory traffic; see Kernel."""
        launch = super().profile
        return in_words(self.module.source, launch, grid, block, args, shared_mem=shared_mem)

    def _goes_to_gpu(self, args: tuple) -> bool:
        if not torch.cuda.is_available() or not isinstance(args, (tuple, list)):
            return False
        return side_of(args) in ("cuda", None)


@dataclass(frozen=True)
class CudaCell:
    """A cell's text as the notebook shows it, taken apart."""

    text: str
    line: MagicLine
    source: Source
    exercise: str | None
    promote: str | None

    @classmethod
    def read(cls, text: str, line: str | None = None) -> CudaCell:
        """`line` is what stands behind `%%cuda`, if IPython has put values into it.

        Raises CellError for what makes no sense.
        """
        lines = text.split("\n")
        first = next((i for i, each in enumerate(lines) if each.strip()), 0)
        magic = read_line(lines[first].strip().removeprefix("%%cuda") if line is None else line)
        try:
            cell = Cell("code", text.lstrip())
            exercise, promote = cell.exercise, cell.promote
        except CourseError as error:
            raise CellError(str(error)) from None
        code = "\n".join(lines[first + 1 :])
        names = [name for name, _ in magic.names] or list(Source(code, "").kernels)
        what = f"exercise {exercise}" if exercise else ", ".join(names)
        label = f"the cell of {what}" if what else "the %%cuda cell"
        return cls(text, magic, Source(code, label, first + 2), exercise, promote)

    @property
    def still_to_do(self) -> tuple[str, int] | None:
        """The exercise and the line of `#error "exercise 3.2: ..."`, while it is there."""
        stub = re.search(r'^[ \t]*#[ \t]*error[ \t]+"?exercise (\d+\.\d+)', self.source.code, re.M)
        return (stub[1], self.source.line_at(stub.start())) if stub else None

    def names(self) -> dict[str, str]:
        """Python name -> name expression of what the cell binds."""
        if self.line.names:
            return dict(self.line.names)
        for kernel in self.source.kernels.values():
            if kernel.is_template or not kernel.at_top:
                what = "a template" if kernel.is_template else "inside a namespace or an #if"
                example = f"{kernel.name}<float>" if kernel.is_template else f"ns::{kernel.name}"
                raise CellError(
                    f"the kernel `{kernel.name}` (line {kernel.line}) is {what}: say in the first"
                    f" line what to bind, for example `%%cuda {example}`"
                )
        return {name: name for name in self.source.kernels}


def compile_cell(cell: CudaCell, earlier: Sequence[CudaCell] = ()) -> dict[str, CellKernel]:
    """Compiles a cell behind the `earlier` cells of its module: what it binds, by name.

    Raises NotImplementedError (an exercise that is still to do), CellCompileError, CellError,
    CompilerNotFound.
    """
    if stub := cell.still_to_do:
        raise exercise_to_do(*stub)
    names = cell.names()
    source = cell.source
    try:
        module = RawModule(
            source.code,
            filename=source.filename,
            first_line=source.first_line,
            scalar_t=cell.line.scalar_t,
            name_expressions=list(names.values()),
        )
    except ValueError as error:  # no such kernel, or a template without its arguments
        raise CellError(str(error)) from None
    try:
        module.prologue += "".join(_for_both(before.source) for before in earlier)
        _compile(module, cell.line.fast)
    except CompileError as error:
        sources = [source, *(before.source for before in earlier)]
        words = compile_words(error, sources)
        raise CellCompileError(words, error.diagnostics, error.output) from None
    return {
        name: CellKernel(module, " ".join(expression.split()), fast=cell.line.fast)
        for name, expression in names.items()
    }


def _compile(module: RawModule, fast: bool) -> None:
    """Compiles for where launches will go: errors show now, and the first launch doesn't wait."""
    if torch.cuda.is_available() and find_spec("cupy"):
        module.compile()
    else:
        module.program(FAST if fast else check_mode())


def _for_both(source: Source) -> str:
    """A text as NVRTC and the emulator want it, to be put in front of another one."""
    place = f'#line {source.first_line} "{source.filename}"'
    return (
        f"\n#ifdef __CUDACC_RTC__\n{place}\n{source.without_needless_includes()}\n"
        f"#else\n{place}\n{source.for_host()}\n#endif\n"
    )


class CudaMagic:
    """The magic `%%cuda` of one shell: it remembers the promoted cells that ran."""

    def __init__(self, shell: Any):
        self._shell = shell
        self._raw = ""
        self._identity: str | None = None
        self._modules: dict[str, dict[str, CudaCell]] = {}  # promoted file -> its cells, in order
        self._to_do: dict[str, dict[str, tuple[str, int]]] = {}  # those that are still stubs

    def before_cell(self, info: Any) -> None:
        """Keeps what only the event knows: the whole cell, and the notebook's id for it."""
        self._raw, self._identity = info.raw_cell, getattr(info, "cell_id", None)

    def cuda(self, line: str, body: str) -> None:
        """Compile the cell, which is CUDA C++, and bind its kernels.

        %%cuda [--fast] [--scalar bf16|half|float] [name ...]

        Without a name every kernel is bound. On a CPU launches are checked, `--fast` leaves that
        out; `kernel.check(...)` and `kernel.profile(...)` are always there.
        """
        text, identity = self._as_shown(line, body)
        cell = CudaCell.read(text, line)
        earlier: list[CudaCell] = []
        if cell.promote:
            cells = self._modules.setdefault(cell.promote, {})
            key = identity or cell.exercise or " ".join(sorted(defined(cell))) or text
            earlier = _in_front_of(key, cell, cells)
            to_do = self._to_do.setdefault(cell.promote, {})
            to_do.pop(key, None)
            if stub := cell.still_to_do:
                to_do[key] = stub
        try:
            kernels = compile_cell(cell, earlier)
        except CellCompileError:
            if cell.promote and to_do:  # most likely it calls what isn't written yet
                raise exercise_to_do(*next(iter(to_do.values()))) from None
            raise
        if cell.promote:
            cells[key] = cell
        self._shell.user_ns.update(kernels)

    def _as_shown(self, line: str, body: str) -> tuple[str, str | None]:
        """The cell's text and id as the notebook has them."""
        parent = self._shell.get_parent() if hasattr(self._shell, "get_parent") else {}
        sent = parent.get("content", {}).get("code", "")
        for raw, identity in (
            (sent, parent.get("metadata", {}).get("cellId")),
            (self._raw, self._identity),
        ):
            if raw.lstrip().startswith("%%cuda") and raw.rstrip().endswith(body.rstrip()):
                return raw, identity
        return f"%%cuda {line}\n{body}", None  # run by a program, or below another magic


def _in_front_of(key: str, cell: CudaCell, cells: dict[str, CudaCell]) -> list[CudaCell]:
    """The cells of the module that ran before this one first did, but none that it replaces."""
    keys = list(cells)
    keys = keys[: keys.index(key)] if key in keys else keys
    mine = defined(cell)
    return [cells[k] for k in keys if not mine & defined(cells[k])]


def defined(cell: CudaCell) -> set[str]:
    """Names of the kernels and functions that a cell defines (by their look)."""
    functions = r"\b__device__\b[^;{}()]*?\b(\w+)\s*\([^;{}]*\)\s*\{"
    return set(cell.source.kernels) | set(re.findall(functions, cell.source.blanked))


def load(shell: Any) -> None:
    """What `%load_ext tinyvllm.cuda` does; a second one changes nothing."""
    if getattr(shell, "_tinyvllm_cuda", None) is None:
        shell._tinyvllm_cuda = CudaMagic(shell)
        shell.events.register("pre_run_cell", shell._tinyvllm_cuda.before_cell)
    shell.register_magic_function(shell._tinyvllm_cuda.cuda, "cell", "cuda")
