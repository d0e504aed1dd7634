"""What stands behind `%%cuda` in the first line of a cell: names to bind, and options."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass

from .cell_errors import CellError

SCALARS = ("bf16", "half", "float")
_USAGE = "write `%%cuda name ...`, `--scalar bf16`, `--fast`, or nothing to bind every kernel"


@dataclass(frozen=True)
class MagicLine:
    """`names` are (Python name, name expression), none: every kernel of the cell."""

    names: tuple[tuple[str, str], ...] = ()
    fast: bool = False
    scalar_t: str | None = None


def read_line(line: str) -> MagicLine:
    """The line taken apart. Raises CellError in words."""
    names: dict[str, str] = {}
    fast, scalar = False, None
    words = _words(line)
    while words:
        word = words.pop(0)
        option, equals, value = word.partition("=")
        if option == "--scalar":
            scalar = value if equals else (words.pop(0) if words else "")
            if scalar not in SCALARS:
                raise CellError(f"--scalar takes bf16, half or float, not {scalar!r}")
        elif word == "--fast":
            fast = True
        elif word.startswith("-"):
            raise CellError(f"%%cuda has no option {word}: {_USAGE}")
        else:
            name, expression = _name(word)
            if name in names:
                raise CellError(
                    f"two kernels would be bound as `{name}`: give them names,"
                    f" for example `%%cuda {name}_a={names[name]} {name}_b={expression}`"
                )
            names[name] = expression
    return MagicLine(tuple(names.items()), fast, scalar)


def _words(line: str) -> list[str]:
    """Split at white space and commas outside of brackets: `scale<float, 4>` is one word."""
    words, depth = [""], 0
    for c in line:
        depth += (c in "<(") - (c in ">)")
        if depth == 0 and (c.isspace() or c == ","):
            words.append("")
        else:
            words[-1] += c
    if depth:
        raise CellError(f"the brackets in `%%cuda {line.strip()}` don't match")
    return [word for word in words if word]


def _name(word: str) -> tuple[str, str]:
    """(Python name, expression) of `name`, `ns::name<float>` or `mine=name<float>`."""
    renamed = re.fullmatch(r"(\w+)=([^=].*)", word)
    name, expression = renamed.groups() if renamed else (None, word)
    kernel = expression.split("<")[0].split("::")[-1]
    if not re.fullmatch(r"(?:\w+::)*[A-Za-z_]\w*(?:<.*>)?", expression):
        raise CellError(f"`{word}` is no name of a kernel: {_USAGE}")
    name = name or kernel
    if not name.isidentifier() or keyword.iskeyword(name):
        raise CellError(f"Python can't bind the name `{name}`")
    return name, expression
