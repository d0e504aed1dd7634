"""Errors of `%%cuda` cells as a notebook shows them: words and the cell's own lines.

Tracebacks end where the notebook's code ends: frames of this package say nothing to who reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from .errors import CompileError, Diagnostic, KernelError
from .source import Source

_CELL = r"the cell of [^:()\n]+|the %%cuda cell"  # what CudaCell calls its text
_SHOWN = 5  # errors of one compilation: later ones mostly follow from the first


class CellError(ValueError):
    """A `%%cuda` cell that makes no sense; its words are the whole message."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class CellCompileError(CompileError):
    """A cell that the compiler refuses: each error with the cell's line number and text."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def exercise_to_do(number: str, line: int) -> NotImplementedError:
    """What a cell raises that still holds its `#error` line; a notebook shows it as a sentence."""
    error = NotImplementedError(f"exercise {number}")
    words = (
        f"exercise {number} is still to do: write your code in place of line {line} (#error ...)"
        " and run the cell"
    )
    # On the instance: the class stays NotImplementedError, as in stubs of Python.
    error._render_traceback_ = lambda: [words]
    return error


def compile_words(error: CompileError, sources: Sequence[Source]) -> str:
    """The compiler's errors, each with the line it is about. `sources[0]` is the cell that ran."""
    name = sources[0].filename
    by_file = {source.filename: source for source in reversed(sources)}
    found = [_in_users_text(d, error.output, by_file) for d in error.diagnostics]
    found = list(dict.fromkeys(d for d in found if d is not None))
    hints = [line for line in str(error).splitlines() if line.startswith("Hint: ")]
    if not found:
        said = _without_paths(str(error)).removeprefix(f"{name}: ")
        return f"{name} does not compile: {said}"
    parts = [f"{name} does not compile:"]
    parts += [_shown(d, by_file.get(d.file), d.file != name) for d in found[:_SHOWN]]
    if len(found) > _SHOWN:
        more = len(found) - _SHOWN
        parts.append(f"... and {more} more error{'s' if more > 1 else ''}")
    return "\n\n".join(parts) + "".join(f"\n\n{hint}" for hint in hints)


def _in_users_text(d: Diagnostic, output: str, by_file: dict[str, Source]) -> Diagnostic | None:
    """The error at its place in a cell, if it came out of a macro of the emulator's own headers."""
    if d.file in by_file or "/host/" not in d.file:
        return d
    after = output.partition(f"{d.file}:{d.line}:{d.column}: error")[2]
    note = re.search(r"^([^\n]+?):(\d+):(\d+): note: in expansion of macro ['‘`](\w+)", after, re.M)
    if note and note[1] in by_file:
        return Diagnostic(note[1], int(note[2]), int(note[3]), f"`{note[4]}` can't stand here")
    return None


def _shown(d: Diagnostic, source: Source | None, foreign: bool) -> str:
    """`line 4: message`, the line's text, and a caret below the column."""
    if source is None:
        return f"{Path(d.file).name}, line {d.line}: {d.message}"
    where = f"{d.file}, line {d.line}" if foreign else f"line {d.line}"
    text = line_text(source, d.line)
    if not text.strip():
        return f"{where}: {d.message}"
    # Columns count bytes: the compiler can't open a file of the cell's name to know better.
    before = text.encode()[: d.column - 1].decode(errors="ignore")
    if not before.strip():
        before = text[: len(text) - len(text.lstrip())]
    margin = f"{d.line:>4} | "
    caret = " " * (len(margin) - 2) + "| " + " " * len(before.expandtabs(4)) + "^"
    return f"{where}: {d.message}\n{margin}{text.expandtabs(4)}\n{caret}"


def line_text(source: Source, line: int | None) -> str:
    """A line of the cell, '' if it isn't there."""
    lines = source.code.split("\n")
    at = (line or 0) - source.first_line
    return lines[at].rstrip() if 0 <= at < len(lines) else ""


def in_words(source: Source, launch: Callable[..., Any], *args: Any, **more: Any) -> Any:
    """Calls `launch`; a KernelError then says `line 7 of the cell of rms_norm`, with that line."""
    try:
        return launch(*args, **more)
    except (KernelError, TypeError, ValueError) as error:
        if isinstance(error, KernelError):
            error.args = (_with_line(error, source),)
        error._render_traceback_ = partial(_users_part, error)
        raise


def _with_line(error: KernelError, source: Source) -> str:
    message = re.sub(rf"({_CELL}):(\d+)", r"line \2 of \1", str(error))
    if error.file == source.filename and (text := line_text(source, error.line)).strip():
        message += f"\n{error.line:>4} | {text.expandtabs(4)}"
    return message


def _users_part(error: BaseException) -> list[str]:
    """The traceback without the frames of this package at its end, as IPython shows it."""
    from IPython import get_ipython

    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    here = str(Path(__file__).parent)
    while frames and frames[-1].tb_frame.f_code.co_filename.startswith(here):
        frames.pop()
    for frame in reversed(frames):
        trace = TracebackType(trace, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return get_ipython().InteractiveTB.structured_traceback(type(error), error, trace)


def _without_paths(text: str) -> str:
    return re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "", text)
