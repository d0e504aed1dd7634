"""The course tool: one source a chapter, checks that teach, live promotion into the package.

`%load_ext tinyvllm.course` brings `%check 5.2` and `%promote 5` into a notebook; the same as
commands: `python -m tinyvllm course --help`.
"""

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext tinyvllm.course` calls."""
    from tinyvllm.course.magics import load

    load(shell)
