"""What check mode found, in words: kernel, block, thread, what, which element, which line, and the
usual cause."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import check_hints as hints
from .arguments import ArrayArgument
from .check_names import Shared
from .emulator import Program
from .errors import KernelError

if TYPE_CHECKING:
    from .module import Kernel

# The enumerations of host/check.h.
_VERBS = ("read", "write", "atomic operation", "volatile read", "volatile write")
_PAST = ("read", "wrote", "changed atomically", "read", "wrote")
_IN_ARRAY, _IN_STATIC, _IN_DYNAMIC, _IN_MODULE, _NOWHERE, _DECLARED = range(6)
_KINDS = ("", "bounds", "race", "uninitialised", "misaligned", "race")
_NOT_WAITED = 5
_IS_LINE = 1 << 31


class Report(ctypes.Structure):
    """`Report` of host/check.h; keep both in step."""

    _fields_ = [
        *((n, ctypes.c_int32) for n in ("kind", "access", "space", "item")),
        *((n, ctypes.c_uint32) for n in ("bytes", "run", "thread", "site")),
        ("offset", ctypes.c_int64),
        *((f"other_{n}", ctypes.c_uint32) for n in ("access", "run", "thread", "site")),
        ("index", ctypes.c_int64),
        ("file", ctypes.c_char_p),
        ("line", ctypes.c_uint32),
        ("column", ctypes.c_uint32),
        ("type", ctypes.c_char * 128),
        ("last_site", ctypes.c_uint32),
        ("first_write", ctypes.c_uint32),
    ]


@dataclass(frozen=True)
class Scene:
    """What a report is about. `shared` is in the order of the binary's shared variables."""

    program: Program
    kernel: Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arrays: list[ArrayArgument]
    shared: list[Shared]
    dynamic: Shared

    def place(self, site: int) -> tuple[str, int] | None:
        """File and line of a site (host/check.h)."""
        if site & _IS_LINE:
            return self.program.source.filename, site & ~_IS_LINE
        return self.program.line_of(self.program.base + site)

    def text(self, line: int | None) -> str:
        """A line of the source."""
        source = self.program.source
        lines = source.code.split("\n")
        at = (line or 0) - source.first_line
        return lines[at] if 0 <= at < len(lines) else ""

    def between(self, line: int | None, other: int | None) -> str:
        """The source from one line to the other, both left out, without comments."""
        source = self.program.source
        low, high = sorted((line or 0, other or 0))
        lines = source.blanked.split("\n")
        return "\n".join(
            lines[max(0, low - source.first_line + 1) : max(0, high - source.first_line)]
        )

    def block_index(self, run: int) -> tuple[int, int, int]:
        x, y, _ = self.grid
        return (run - 1) % x, (run - 1) // x % y, (run - 1) // (x * y)

    def thread_index(self, thread: int) -> tuple[int, int, int]:
        x, y, _ = self.block
        return thread % x, thread // x % y, thread // (x * y)


@dataclass(frozen=True)
class Element:
    """The place in memory of a fault: as the source writes it, the name, the flat index, the
    declaration."""

    text: str
    name: str | None
    index: int | None
    declared: str


def explained(error: KernelError, report: Report, unwritten: Report, scene: Scene) -> KernelError:
    """The emulator's error with what check mode knows about it.

    `unwritten`: a read of unwritten memory before it (kind 0: none), from which other faults
    follow.
    """
    if unwritten.kind and not (error.kind == "check" and _KINDS[report.kind] == "race"):
        report = unwritten
    elif error.kind != "check":
        return _with_hint(error, report, scene)
    place = scene.place(report.site)
    file, line = place or (None, None)
    if report.space == _DECLARED or (report.file and report.kind == 1):
        file, line = report.file.decode().rsplit("/", 1)[-1], report.line
    element = _element(report, scene)
    describe = (None, _bounds, _race, _uninitialised, _misaligned, _not_waited)[report.kind]
    text, hint = describe(report, scene, element, line)
    block, thread = scene.block_index(report.run), scene.thread_index(report.thread)
    where = f" ({file}:{line})" if file else ""
    message = f"{error.kernel}: block {_xyz(block)} thread {_xyz(thread)}: {text}{where}"
    if hint:
        message += f"\n{hint}"
    return KernelError(
        message,
        kernel=error.kernel,
        kind=_KINDS[report.kind],
        block=block,
        thread=thread,
        file=file,
        line=line,
        array=element.name,
        index=element.index,
    )


def _with_hint(error: KernelError, report: Report, scene: Scene) -> KernelError:
    message, file, line = str(error), error.file, error.line
    place = scene.place(report.last_site) if report.last_site else None
    if line is None and error.kind == "interrupted" and place:
        file, line = place
        message += f" (last seen at {file}:{line})"
    if hint := hints.of_kind(error.kind, message, scene.text(line)):
        message += f"\n{hint}"
    return KernelError(
        message,
        kernel=error.kernel,
        kind=error.kind,
        block=error.block,
        thread=error.thread,
        file=file,
        line=line,
        array=error.array,
        index=error.index,
    )


def _xyz(v: tuple[int, ...]) -> str:
    return f"({v[0]},{v[1]},{v[2]})"


def _element(report: Report, scene: Scene) -> Element:
    offset = report.offset
    if report.space == _IN_ARRAY:
        a = scene.arrays[report.item]
        index, count = offset // a.element_bytes, a.bytes // a.element_bytes
        last = (offset + report.bytes - 1) // a.element_bytes
        if report.kind == 1 and 0 <= index < count:
            index = last  # a wide access that begins inside
        name = a.parameter.name
        shown = (
            f"{name}[{index}]" if report.bytes <= a.element_bytes else f"{name}[{index}..{last}]"
        )
        return Element(shown, name, index, f"{name} has {count} elements")
    if report.space == _IN_STATIC:
        variable = scene.shared[report.item]
        text, index = variable.element(offset)
        return Element(text, variable.name, index, f"it is declared {variable.declaration}")
    if report.space == _IN_DYNAMIC:
        d = scene.dynamic
        text, index = d.element(offset)
        if d.element_bytes == 1 and d.extents is None:
            text = f"byte {offset} of {d.name}"
        return Element(
            text,
            d.name,
            index,
            f"dynamic shared memory has {d.bytes} bytes in this launch (shared_mem={d.bytes})",
        )
    if report.space == _DECLARED:
        chain, name = _indexed(scene.text(report.line), report.column)
        return Element(chain, name, report.index, "")
    return Element(f"address {report.offset & (2**64 - 1):#x}", None, None, "")


def _indexed(text: str, column: int) -> tuple[str, str | None]:
    """The expression `tile[y][x]` whose index a column of the line is about, and the array's
    name."""
    end = min(column, len(text))
    if not text[max(0, column - 1) :].startswith("]"):  # clang: the column is where `tile` begins
        name = re.compile(r"\w*").match(text, max(0, column - 1))
        end, depth = name.end(), 0
        for i in range(name.end(), len(text)):
            if depth == 0 and text[i] != "[":
                break
            depth += (text[i] == "[") - (text[i] == "]")
            end = i + 1
        return text[name.start() : end] or "an array", name[0] or None
    begin = end
    while begin > 0 and text[begin - 1] == "]":
        depth = 0
        while begin > 0:
            begin -= 1
            depth += (text[begin] == "]") - (text[begin] == "[")
            if depth == 0:
                break
        while begin > 0 and text[begin - 1] == " ":
            begin -= 1
    name = re.search(r"\w+$", text[:begin])
    if not name:
        return "an array", None
    return text[name.start() : end], name[0]


def _bounds(report: Report, scene: Scene, element: Element, line: int | None) -> tuple[str, str]:
    verb = _VERBS[report.access]
    source = scene.text(line)
    if report.space == _DECLARED:
        count = re.search(r"\[(\d+)\]", report.type.decode(errors="replace"))
        size = int(count[1]) if count else 0
        whole = next(
            (v.declaration for v in scene.shared if v.name == element.name), element.name or "it"
        )
        dimension = element.text.count("][") + 1
        which = "it" if dimension == 1 else f"dimension {dimension} of it"
        text = (
            f"out of bounds: index {report.index} in `{element.text}`: {which} has {size} elements "
            f"(0 to {size - 1})"
        )
        if whole != element.name:
            text += f", as it is declared {whole}"
        return text, hints.bounds(report.index, size, source, scene.block, scene.grid)
    if report.space == _NOWHERE:
        if report.offset & (2**64 - 1) < 65536:
            return f"{verb} through a null pointer", hints.NULL
        return f"out of bounds: {verb} at {element.text}, far from all arrays", hints.FAR
    text = f"out of bounds: {verb} of {element.text}, but {element.declared}"
    if report.space == _IN_DYNAMIC:
        return text, hints.dynamic(scene.dynamic.bytes)
    if report.space == _IN_ARRAY:
        a = scene.arrays[report.item]
        count = a.bytes // a.element_bytes
    else:
        count = scene.shared[report.item].bytes // scene.shared[report.item].element_bytes
    return text, hints.bounds(element.index or 0, count, source, scene.block, scene.grid)


def _race(report: Report, scene: Scene, element: Element, line: int | None) -> tuple[str, str]:
    other = scene.place(report.other_site)
    other_line = other[1] if other else None
    same_block = report.run == report.other_run
    who = f"thread {_xyz(scene.thread_index(report.other_thread))}"
    if not same_block:
        who += f" of block {_xyz(scene.block_index(report.other_run))}"
    at = f" on line {other_line}" if other_line else ""
    text = (
        f"data race: {_VERBS[report.access]} of {element.text}, which {who} "
        f"{_PAST[report.other_access]}{at} "
        f"with nothing that orders the two"
    )
    same_warp = same_block and report.thread // 32 == report.other_thread // 32
    if not same_block:
        text += " (blocks run in any order, or at the same time)"
    elif same_warp:
        text += " (both are in one warp)"
    return text, hints.race(
        hints.Race(
            report.access,
            report.other_access,
            line,
            other_line,
            scene.text(line),
            scene.text(other_line),
            scene.between(line, other_line),
            element.name,
            same_block,
            same_warp,
            bool(report.first_write),
        )
    )


def _uninitialised(
    report: Report, scene: Scene, element: Element, line: int | None
) -> tuple[str, str]:
    return (
        f"uninitialised shared memory: {_VERBS[report.access]} of {element.text}, which no thread "
        f"of this block has "
        "written",
        hints.UNINITIALISED,
    )


def _misaligned(
    report: Report, scene: Scene, element: Element, line: int | None
) -> tuple[str, str]:
    return (
        f"misaligned {_VERBS[report.access]} of {report.bytes} bytes: the address is not a "
        f"multiple of {report.bytes}",
        hints.MISALIGNED,
    )


def _not_waited(
    report: Report, scene: Scene, element: Element, line: int | None
) -> tuple[str, str]:
    other = scene.place(report.other_site)
    who = (
        "this thread"
        if report.other_thread == report.thread
        else (f"thread {_xyz(scene.thread_index(report.other_thread))}")
    )
    at = f" on line {other[1]}" if other else ""
    return (
        f"data race: {_VERBS[report.access]} of {element.text}, to which a copy_async that {who} "
        f"started{at} is still "
        "under way",
        hints.NOT_WAITED,
    )
