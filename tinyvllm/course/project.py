"""Where a course lives on disk, and which chapters it has.

A checkout holds `solutions/NN_name.md` (the source), `solutions/NN_name.ipynb`,
`chapters/NN_name.ipynb`, `tests/chapters/test_NN_name.py`, `tests/chapters/mutants/NN_name/` and
the package `tinyvllm/`. Nothing here reads more than file names.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


class CourseError(Exception):
    """Something a person can put right; its words are the whole message. Exit status 1."""

    exit_status = 1


class UsageError(CourseError):
    """A command that makes no sense: no number, a typo, a chapter that doesn't exist."""

    exit_status = 2


@dataclass(frozen=True)
class Chapter:
    """The files of chapter `number`, called `name` ("05_rope"), below the checkout `root`."""

    root: Path
    name: str

    @property
    def number(self) -> int:
        return int(self.name.split("_")[0])

    @property
    def source(self) -> Path:
        return self.root / "solutions" / f"{self.name}.md"

    @property
    def solution(self) -> Path:
        return self.root / "solutions" / f"{self.name}.ipynb"

    @property
    def notebook(self) -> Path:
        return self.root / "chapters" / f"{self.name}.ipynb"

    @property
    def tests(self) -> Path:
        return self.root / "tests" / "chapters" / f"test_{self.name}.py"

    @property
    def mutants(self) -> Path:
        return self.root / "tests" / "chapters" / "mutants" / self.name

    def shown(self, path: Path) -> str:
        """`path` as a person in the checkout would type it."""
        return path.relative_to(self.root).as_posix()


@dataclass(frozen=True)
class Project:
    """A checkout of the course at `root`."""

    root: Path

    @classmethod
    def here(cls) -> "Project":
        """The checkout that the imported package belongs to."""
        import tinyvllm

        root = Path(tinyvllm.__file__).resolve().parent.parent
        if not (root / "solutions").is_dir() and not (root / "chapters").is_dir():
            raise CourseError(
                f"tinyvllm is imported from {root}, where there are no chapters: clone the"
                " course's repository and install it from there with `pip install -e .`"
            )
        return cls(root)

    @property
    def package(self) -> Path:
        return self.root / "tinyvllm"

    @property
    def state(self) -> Path:
        """What the course tool remembers in this checkout (git ignores it)."""
        return self.root / ".tinyvllm"

    def chapters(self) -> list[Chapter]:
        """All chapters, in order; two with one number are an error."""
        names = {
            path.stem
            for path in (self.root / "solutions").glob("[0-9][0-9]_*")
            if re.fullmatch(r"\d\d_[a-z0-9_]+\.(md|ipynb)", path.name)
        }
        chapters = [Chapter(self.root, name) for name in sorted(names)]
        for one, two in pairwise(chapters):
            if one.number == two.number:
                raise CourseError(
                    f"two chapters have the number {one.number}: {one.name} and {two.name}"
                )
        return chapters

    def chapter(self, number: int) -> Chapter:
        for chapter in self.chapters():
            if chapter.number == number:
                return chapter
        have = ", ".join(str(chapter.number) for chapter in self.chapters()) or "none yet"
        raise UsageError(f"there is no chapter {number}; there are: {have}")

    def parse_numbers(self, words: list[str]) -> list[Chapter]:
        """The chapters that a person names: `3`, `03`, `3 4`, `3-5`, `all`."""
        if not words:
            raise UsageError("which chapter? Give a number, several, 3-5 or all")
        wanted: dict[int, Chapter] = {}
        for word in words:
            if word == "all":
                wanted |= {chapter.number: chapter for chapter in self.chapters()}
            elif match := re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", word):
                first, last = int(match[1]), int(match[2] or match[1])
                if first > last:
                    raise UsageError(f"{word!r} counts backwards: write {last}-{first}")
                wanted |= {number: self.chapter(number) for number in range(first, last + 1)}
            else:
                raise UsageError(f"{word!r} is no chapter: give a number, 3-5 or all")
        return list(wanted.values())
