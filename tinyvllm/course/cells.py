"""A cell of a chapter: its directives, its solution, its stub.

Everything that the course knows about a cell stands in the cell's own text, as directive lines at
its top (below a cell magic, if there is one): `#| exercise 5.2 points=3`, `#| promote ops/rope.py`
and `#| support`; in a `%%cuda` cell they begin with `//|`. Text survives copying, splitting and
other notebook programs; metadata doesn't.
"""

import re
from dataclasses import dataclass, field, replace
from functools import cached_property

from tinyvllm.course.project import CourseError

_DIRECTIVE = re.compile(r"^(?:#|//)\|\s*(.*?)\s*$")
_MARKER = re.compile(r"^\s*(?:###|//) (BEGIN|END) SOLUTION\s*$")
_STUB = re.compile(
    r"""^[^\S\n]*(?:raise\s+NotImplementedError\(\s*["']exercise|\#\s*error\s+"?exercise)\b""",
    re.MULTILINE,
)
_EXERCISE = re.compile(r"(\d{1,2})\.(\d{1,2})")


class CellError(CourseError):
    """A cell whose directives or solution markers are wrong."""


@dataclass(frozen=True)
class Cell:
    """One cell: `kind` is "code", "markdown" or "raw", `id` is the notebook's id for it."""

    kind: str
    text: str
    id: str | None = None
    tags: tuple[str, ...] = field(default=())

    @cached_property
    def _parsed(self) -> tuple[str, dict[str, str], str]:
        """(cell magic, directives by name, the text without both)."""
        if self.kind != "code":
            return "", {}, self.text
        magic, directives, kept = "", {}, []
        lines = self.text.split("\n")
        for i, line in enumerate(lines):
            if not magic and line.startswith("%%") and not any(k.strip() for k in kept):
                magic = line.rstrip()
            elif match := _DIRECTIVE.match(line):
                name, _, rest = match[1].partition(" ")
                if name in directives:
                    raise CellError(f"a cell has two directives `#| {name}`: {self.label}")
                directives[name] = rest.strip()
            elif not line.strip() or line.startswith(("#", "//")):
                kept.append(line)
            else:
                kept += lines[i:]
                break
        for name in directives:
            if name not in ("exercise", "promote", "support"):
                raise CellError(
                    f"there is no directive `#| {name}`; there are exercise, promote and support"
                )
        return magic, directives, "\n".join(kept)

    @property
    def magic(self) -> str:
        """The cell magic, such as "%%cuda rms_norm", or ''."""
        return self._parsed[0]

    @property
    def is_cuda(self) -> bool:
        return self.magic.split(" ")[0] == "%%cuda"

    @property
    def body(self) -> str:
        """The text without the cell magic and the directives, and without blank lines around."""
        return self._parsed[2].strip("\n").rstrip()

    @property
    def exercise(self) -> str | None:
        """The number of the exercise that this cell is, such as "5.2"."""
        given = self._parsed[1].get("exercise")
        if given is None:
            return None
        number = given.split(" ")[0]
        if not _EXERCISE.fullmatch(number):
            raise CellError(f"`#| exercise {given}`: an exercise has a number such as 5.2")
        return number

    @property
    def options(self) -> dict[str, int]:
        """What follows the number of the exercise: points (default 1), seconds."""
        options = {"points": 1}
        for word in self._parsed[1].get("exercise", "").split()[1:]:
            name, _, value = word.partition("=")
            if name not in ("points", "seconds") or not value.isdecimal() or int(value) < 1:
                raise CellError(
                    f"`#| exercise {self.exercise} {word}`: points=3 and seconds=60 may stand here"
                )
            options[name] = int(value)
        return options

    @property
    def promote(self) -> str | None:
        """The module of the package that this cell belongs to, such as "ops/rope.py"."""
        path = self._parsed[1].get("promote")
        if path is None:
            return None
        if not re.fullmatch(r"([a-z0-9_]+/)*[a-z0-9_]+\.(py|cu|cuh)", path):
            raise CellError(f"`#| promote {path}`: a module has a path such as ops/rope.py")
        if path.endswith(".py") == self.is_cuda:
            raise CellError(
                f"`#| promote {path}`: a .py file is made of Python cells, a .cu file of %%cuda"
                " cells"
            )
        return path

    @property
    def is_support(self) -> bool:
        return "support" in self._parsed[1]

    @property
    def is_stub(self) -> bool:
        """True while the cell still says which exercise it is instead of doing it."""
        return bool(_STUB.search(self.text))

    @property
    def label(self) -> str:
        """The cell in words: its exercise, or its first line."""
        if match := re.search(r"^(?:#|//)\|\s*exercise\s+(\S+)", self.text, re.MULTILINE):
            return f"the cell of exercise {match[1]}"
        first = next((line for line in self.text.splitlines() if line.strip()), "(empty)")
        return f"the cell that begins with {first.strip()[:50]!r}"

    def without_markers(self) -> str:
        """The cell's text with its solution, without the lines that mark it."""
        return "\n".join(line for line in self.text.split("\n") if not _MARKER.match(line))

    def stub(self) -> "Cell":
        """The student's version: each marked solution replaced by a line that names it."""
        kept: list[str] = []
        inside = False
        for line in self.text.split("\n"):
            match = _MARKER.match(line)
            if match and (match[1] == "BEGIN") == inside:
                raise CellError(f"{self.label}: BEGIN and END SOLUTION don't come in pairs")
            if match:
                inside = not inside
                if inside and self.is_cuda:
                    kept.append(f'#error "exercise {self.exercise}: your code goes here"')
                elif inside:
                    indent = line[: len(line) - len(line.lstrip())]
                    kept.append(f'{indent}raise NotImplementedError("exercise {self.exercise}")')
            elif not inside:
                kept.append(line)
        if inside:
            raise CellError(f"{self.label}: BEGIN SOLUTION without END SOLUTION")
        return replace(self, text="\n".join(kept))


def exercise_key(number: str) -> tuple[int, int]:
    """A key that sorts 1.10 after 1.9."""
    chapter, _, exercise = number.partition(".")
    return int(chapter), int(exercise)
