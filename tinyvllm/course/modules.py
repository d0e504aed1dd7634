"""From the cells of a chapter to the modules of the package, and whose code a module holds.

Cells of one module are joined in chapter order; directives and solution markers are dropped, and
nothing is reformatted. A first line is put in front that says where the code comes from.
"""

from collections.abc import Iterable
from pathlib import Path

from tinyvllm.course.cells import Cell
from tinyvllm.course.project import Chapter

_REFERENCE = "Promoted from solutions/"
_STUDENT = "Your code, from chapters/"


def reference_note(chapter: Chapter) -> str:
    """The first line of a module that build wrote."""
    return f"{_REFERENCE}{chapter.name}.md: edit it there, then `make build`."


def student_note(chapter: Chapter) -> str:
    """The first line of a module that a student promoted."""
    return (
        f"{_STUDENT}{chapter.name}.ipynb. Back to the reference: make reset-chapter"
        f" {chapter.number}"
    )


def module_texts(cells: Iterable[Cell], note: str) -> dict[str, str]:
    """Path in the package ("ops/rope.py") -> text of the module, `note` in its first line."""
    parts: dict[str, list[str]] = {}
    for cell in cells:
        if cell.promote:
            parts.setdefault(cell.promote, []).append(module_part(cell))
    return {path: join_parts(path, bodies, note) for path, bodies in parts.items()}


def module_part(cell: Cell) -> str:
    """What `cell` adds to its module."""
    return Cell("code", cell.without_markers()).body


def join_parts(path: str, parts: list[str], note: str) -> str:
    """One module out of the texts of its cells."""
    comment, gap = ("#", "\n\n\n") if path.endswith(".py") else ("//", "\n\n")
    return f"{comment} {note}\n" + gap.join(part for part in parts if part) + "\n"


def part_lines(path: str, parts: list[str]) -> list[tuple[int, int]]:
    """For each part, its first and last line (from 1) in the text that `join_parts` makes."""
    gap = 2 if path.endswith(".py") else 1
    lines, line = [], 2
    for part in parts:
        if not part:
            lines.append((0, -1))
            continue
        last = line + part.count("\n")
        lines.append((line, last))
        line = last + gap + 1
    return lines


def whose(module: Path) -> str:
    """Whose code the file `module` holds: "student", "reference" (of a chapter) or "project"."""
    try:
        with module.open(encoding="utf-8") as file:
            first = file.readline().lstrip("#/ ")
    except (FileNotFoundError, UnicodeDecodeError):
        return "project"
    if first.startswith(_STUDENT):
        return "student"
    return "reference" if first.startswith(_REFERENCE) else "project"


def student_modules(package: Path) -> list[str]:
    """Paths in the package ("ops/rope.py") of the modules that hold a student's code."""
    files = [f for ending in ("*.py", "*.cu") for f in package.rglob(ending)]
    return sorted(f.relative_to(package).as_posix() for f in files if whose(f) == "student")
