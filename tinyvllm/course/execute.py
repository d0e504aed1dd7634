"""Running a solution notebook for its stored outputs: no GPU, nothing of this machine in them.

It runs in a temporary checkout whose package holds the chapter's own modules, so that a chapter
that fails leaves everything as it was.
"""

import re
from typing import Any

from tinyvllm.course import notebooks, sandbox
from tinyvllm.course.project import Chapter, CourseError, Project

CELL_SECONDS = 600


def executed(
    project: Project,
    chapter: Chapter,
    notebook: dict[str, Any],
    student: dict[str, Any],
    modules: dict[str, str],
) -> dict[str, Any]:
    """`notebook` with the outputs of a run from top to bottom; cells tagged nbval-skip don't run.

    Raises CourseError with the words of the cell that failed.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    files = {
        chapter.solution: notebooks.dumps(notebook),
        chapter.notebook: notebooks.dumps(student),
    }
    with sandbox.checkout(project, chapter, modules, files) as copy:
        run = nbformat.reads(notebooks.dumps(notebook), as_version=4)  # joins lists of lines
        client = NotebookClient(
            run,
            timeout=CELL_SECONDS,
            kernel_name="python3",
            record_timing=False,
            skip_cells_with_tag="nbval-skip",
            resources={"metadata": {"path": str(copy.root / "solutions")}},
        )
        try:
            client.execute(env=_environment(copy))
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            words = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
            raise CourseError(f"{chapter.name} does not run: {words}") from None
        result = {**notebook, "cells": _cells(notebook, run)}
        _refuse_machine_traces(chapter, result, str(copy.root))
    return result


def transplant(notebook: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """`notebook` with the outputs that `old` stores for the same code cells, in order."""
    stored = [cell for cell in old["cells"] if cell["cell_type"] == "code"]
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            kept = stored.pop(0)
            cell = cell | {name: kept[name] for name in ("outputs", "execution_count")}
        cells.append(cell)
    return {**notebook, "cells": cells}


def _environment(copy: Project) -> dict[str, str]:
    env = sandbox.environment(copy.root, gpu=False)
    # Colours and progress bars of a terminal have no place in a stored output.
    env |= {"PYTHONHASHSEED": "0", "NO_COLOR": "1", "COLUMNS": "100"}
    env.pop("TINYVLLM_CELLS", None)
    return env


def _cells(notebook: dict[str, Any], run: Any) -> list[dict[str, Any]]:
    """The original cells with outputs of the run, normalised: counts 1..n, no metadata of it."""
    cells, count = [], 0
    for cell, ran in zip(notebook["cells"], run["cells"]):
        if cell["cell_type"] == "code" and ran.get("execution_count"):
            count += 1
            outputs = [_normalised(output, count) for output in ran["outputs"]]
            cell = cell | {"outputs": _joined(outputs), "execution_count": count}
        cells.append(cell)
    return cells


def _normalised(output: Any, count: int) -> dict[str, Any]:
    """One output as plain data: text as a list of lines, addresses of objects blanked."""
    output = dict(output)
    if "execution_count" in output:
        output["execution_count"] = count
    if "text" in output:
        output["text"] = _lines(output["text"])
    if "data" in output:
        output["data"] = {
            kind: _lines(value) if isinstance(value, str) and "image" not in kind else value
            for kind, value in output["data"].items()
        }
    if "metadata" in output:
        output["metadata"] = dict(output["metadata"])
    return output


def _lines(text: str) -> list[str]:
    return re.sub(r"\b0x[0-9a-f]{8,}\b", "0xADDRESS", text).splitlines(keepends=True)


def _joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbouring pieces of one stream as one: where a kernel cuts them is chance."""
    joined: list[dict[str, Any]] = []
    for output in outputs:
        same = joined and output["output_type"] == joined[-1]["output_type"] == "stream"
        if same and output["name"] == joined[-1]["name"]:
            text = "".join(joined[-1]["text"]) + "".join(output["text"])
            joined[-1] = joined[-1] | {"text": text.splitlines(keepends=True)}
        else:
            joined.append(output)
    return joined


def _refuse_machine_traces(chapter: Chapter, notebook: dict[str, Any], root: str) -> None:
    """Refuse warnings and paths in outputs: they differ on every machine, and nbval compares."""
    for cell in notebook["cells"]:
        first = "".join(cell["source"]).strip().split("\n")[0][:60]
        for output in cell.get("outputs", []):
            text = str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", ""))
            if output.get("name") == "stderr":
                tail = "".join(output["text"]).strip()[-300:]
                raise CourseError(
                    f"{chapter.name}: the cell {first!r} writes to stderr, which a stored output"
                    f" must not hold:\n{tail}"
                )
            if root in text or "/tmp/" in text:
                raise CourseError(
                    f"{chapter.name}: the cell {first!r} prints a path of this machine"
                )
