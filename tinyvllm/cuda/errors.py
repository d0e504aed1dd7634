"""What can go wrong between a `.cu` and its results."""

from __future__ import annotations

from dataclasses import dataclass


class CompilerNotFound(RuntimeError):
    """There is no C++ compiler for the emulator; the message says how to get one."""


@dataclass(frozen=True)
class Diagnostic:
    """One error of the compiler: where in the user's text, and what."""

    file: str
    line: int
    column: int
    message: str


class CompileError(ValueError):
    """The text isn't CUDA C++ of the subset. `diagnostics` holds the compiler's errors, in
    order."""

    def __init__(self, message: str, diagnostics: tuple[Diagnostic, ...] = (), output: str = ""):
        super().__init__(message)
        self.diagnostics = diagnostics
        self.output = output  # everything the compiler said


class KernelError(RuntimeError):
    """A kernel went wrong while it ran in the emulator.

    Attributes: `kernel` (name), `kind` ("memory", "deadlock", "barrier", ...), `block` and `thread`
    (x, y, z), `file`, `line` (None where unknown), `array` and `index` (the array's parameter name
    and the element, where the fault is an access to memory).
    """

    def __init__(
        self,
        message: str,
        *,
        kernel: str,
        kind: str,
        block: tuple[int, int, int] | None = None,
        thread: tuple[int, int, int] | None = None,
        file: str | None = None,
        line: int | None = None,
        array: str | None = None,
        index: int | None = None,
    ):
        super().__init__(message)
        self.kernel, self.kind = kernel, kind
        self.block, self.thread = block, thread
        self.file, self.line = file, line
        self.array, self.index = array, index
