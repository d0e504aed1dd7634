"""Reading the source of a chapter, `solutions/NN_name.md`: jupytext's Markdown format.

Prose is Markdown, a code cell is a fence named python, the title and the minutes stand in the
front matter (https://jupytext.readthedocs.io/en/latest/formats-markdown.html). Only `build` comes
here: jupytext is not needed to take the course. What jupytext would mangle is refused.
"""

import re
from dataclasses import dataclass
from typing import Any

from tinyvllm.course.cells import Cell
from tinyvllm.course.project import Chapter, CourseError

_KEYS = {"title": str, "minutes": int, "needs": str}
_FENCE = re.compile(r"^(`{3,})(.*)$")


class SourceError(CourseError):
    """A chapter source that build refuses, with every reason that was found."""

    def __init__(self, chapter: Chapter, problems: list[str]):
        where = chapter.shown(chapter.source)
        super().__init__("\n".join(f"{where}: {problem}" for problem in problems))


@dataclass(frozen=True)
class Content:
    """A chapter as its author wrote it: title, minutes, needs and cells with their solutions."""

    chapter: Chapter
    title: str
    minutes: int
    needs: str
    cells: tuple[Cell, ...]


def parse(chapter: Chapter) -> Content:
    """The content of `solutions/NN_name.md`; SourceError lists all that is wrong with it."""
    try:
        import jupytext
    except ImportError:
        raise CourseError("build needs jupytext: pip install -e '.[test]'") from None
    try:
        text = chapter.source.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CourseError(f"{chapter.shown(chapter.source)} is missing") from None
    except UnicodeDecodeError:
        raise SourceError(chapter, ["it isn't UTF-8 text"]) from None
    try:
        notebook = jupytext.reads(text, fmt="md")
    except Exception as error:  # whatever a parser of YAML or nbformat's schema says
        reason = str(error).strip().split("\n")[0]
        raise SourceError(chapter, [f"jupytext can't read it: {reason}"]) from None
    problems = _front_matter_problems(notebook.metadata.get("tinyvllm"))
    cells = []
    for raw in notebook.cells:
        line = _line_of(text, raw.source)
        cells.append(Cell(raw.cell_type, raw.source, None, _tags(raw.metadata)))
        problems += [f"{line}{problem}" for problem in _cell_problems(raw)]
    if sum(1 for line in text.splitlines() if line.startswith("```")) % 2:
        problems.append("a fence (```) is not closed: it swallows what follows")
    again = jupytext.reads(jupytext.writes(notebook, fmt="md"), fmt="md")
    if [(c.cell_type, c.source) for c in again.cells] != [(c.kind, c.text) for c in cells]:
        problems.append("jupytext does not give the same cells back after a round trip")
    if problems:
        raise SourceError(chapter, problems)
    course = notebook.metadata["tinyvllm"]
    return Content(
        chapter, course["title"], course["minutes"], course.get("needs", ""), tuple(cells)
    )


def _front_matter_problems(course: Any) -> list[str]:
    if not isinstance(course, dict):
        return ["the front matter needs `jupyter:`, `tinyvllm:` and below it title and minutes"]
    problems = [
        f"`{key}` in the front matter must be {kind.__name__}, not {course[key]!r}"
        for key, kind in _KEYS.items()
        if key in course and type(course[key]) is not kind
    ]
    problems += [f"the front matter has no `{key}`" for key in ("title", "minutes")
                 if key not in course]  # fmt: skip
    problems += [f"the front matter has an unknown key `{key}`" for key in course.keys() - _KEYS]
    return problems


def _tags(metadata: Any) -> tuple[str, ...]:
    tags = metadata.get("tags", [])
    return tuple(tags) if isinstance(tags, list) and all(isinstance(t, str) for t in tags) else ()


def _cell_problems(raw: Any) -> list[str]:
    lines = raw.source.split("\n")
    metadata = dict(raw.metadata)
    problems = []
    tags = metadata.pop("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        problems.append('tags must be a list of texts, such as tags=["nbval-skip"]')
    metadata.pop("jupyter", None)
    metadata.pop("lines_to_next_cell", None)  # jupytext's own, about blank lines
    if metadata:
        problems.append(f"a cell may have tags and no other metadata, not {sorted(metadata)}")
    if not raw.source.strip():
        problems.append(f"an empty {raw.cell_type} cell")
    if raw.cell_type == "code":
        if any(line.startswith("```") for line in lines):
            problems.append("a line of code begins with ```: is the fence above it not closed?")
        if re.match(r"%%(bash|sh|c\+\+|javascript|html|perl|ruby|R|julia)(\s|$)", raw.source):
            problems.append("a fence that is not named python becomes a cell: name it ```text")
    else:
        problems += _prose_problems(lines)
    return problems


def _prose_problems(lines: list[str]) -> list[str]:
    """Fences in Markdown that were meant as cells, or that swallow the cells after them."""
    problems = []
    fences = [match for line in lines if (match := _FENCE.match(line))]
    if any(len(match[1]) > 3 for match in fences):
        problems.append("a fence of four backticks swallows the cells after it: use three")
    elif len(fences) % 2:
        problems.append("a fence in the prose is not closed")
    for match in fences:
        words = match[2].split()
        name = words[0].lower() if words else ""
        if name.startswith("python") and "noeval" not in match[2]:
            problems.append("a python fence stayed prose: is the fence above it not closed?")
        elif name in ("cuda", "cu", "cpp", "c++", "c") and "prose" not in words:
            problems.append(
                f"```{name} is prose, not a cell: write ```python with %%cuda name in its first"
                f" line; if it is meant to be prose, write ```{name} prose"
            )
    return problems


def _line_of(text: str, source: str) -> str:
    """ "line 12: " if the cell can be found in the file."""
    body = re.sub(r"^%%\S+\n", "", source)  # a fence that is not named python gets a magic
    at = text.find(body) if body.strip() else -1
    return f"line {text[:at].count(chr(10)) + 1}: " if at >= 0 else ""
