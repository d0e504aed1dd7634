"""Wrong answers that the checks must catch: tests/chapters/mutants/NN_name/N_M_mistake.py or .cu.

Each file is the whole text of an exercise's cell with one mistake that people really make. Its
first lines are `# expects: ...` (`// expects:` in CUDA): phrases that the check must say.
Directives and the cell magic may be left out: they are those of the exercise.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from tinyvllm.course.cells import Cell
from tinyvllm.course.project import Chapter, CourseError

_NAME = re.compile(r"(\d+)_(\d+)_\w+\.(py|cu)")
_EXPECTS = re.compile(r"^(?:#|//) expects: (.+)$")


@dataclass(frozen=True)
class Mutant:
    """One wrong answer for `exercise`, and the phrases that its check must say."""

    file: Path
    exercise: str
    expects: tuple[str, ...]
    text: str

    def put_into(self, cells: list[Cell]) -> list[Cell]:
        """The cells of the chapter with this answer in place of the right one."""
        return [self._instead_of(c) if c.exercise == self.exercise else c for c in cells]

    def _instead_of(self, cell: Cell) -> Cell:
        own = Cell("code", self.text)
        lines = [] if own.magic or not cell.magic else [cell.magic]
        if own.exercise is None:
            pattern = r"^(?:#|//)\|.*$"
            lines += re.findall(pattern, cell.text, re.MULTILINE)
        return replace(cell, text="\n".join([*lines, self.text]))


def mutants_of(chapter: Chapter) -> list[Mutant]:
    """All wrong answers of a chapter, in the order of their names."""
    if not chapter.mutants.is_dir():
        return []
    files = sorted(path for path in chapter.mutants.iterdir() if path.suffix in (".py", ".cu"))
    return [read(path) for path in files]


def read(path: Path) -> Mutant:
    """The mutant in the file `path`."""
    match = _NAME.fullmatch(path.name)
    if not match:
        raise CourseError(f"{path.name}: a mutant is named like 5_2_adjacent_pairs.py")
    lines = path.read_text(encoding="utf-8").splitlines()
    expects = []
    while lines and (found := _EXPECTS.match(lines[0])):
        expects.append(found[1].strip())
        lines.pop(0)
    if not expects:
        raise CourseError(f"{path.name} must begin with a line `# expects: what the check says`")
    return Mutant(
        path, f"{int(match[1])}.{int(match[2])}", tuple(expects), "\n".join(lines).strip()
    )
