"""Reading and writing notebooks with nothing but `json`.

The format is https://nbformat.readthedocs.io (version 4). Importing nbformat takes seconds where
JupyterLab is installed, and a student's commands must not wait for it.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tinyvllm.course.cells import Cell
from tinyvllm.course.project import CourseError


class NotebookError(CourseError):
    """A notebook file that is missing, cut off or no notebook."""


def read(path: Path) -> dict[str, Any]:
    """The notebook at `path` as the dict that it is in JSON."""
    where = f"{path.parent.name}/{path.name}"
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotebookError(f"{where} is missing") from None
    except UnicodeDecodeError:
        raise NotebookError(f"{where} is no notebook: it isn't UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise NotebookError(
            f"{where} is no whole notebook: its JSON breaks off or is damaged at line"
            f" {error.lineno} ({error.msg})"
        ) from None
    except RecursionError:
        raise NotebookError(f"{where} is no notebook: its JSON is nested too deeply") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise NotebookError(f"{where} is JSON, but no notebook: it has no list of cells")
    if notebook.get("nbformat") != 4:
        raise NotebookError(
            f"{where} has notebook format {notebook.get('nbformat')!r}, and this course needs 4:"
            " open it in JupyterLab and save it"
        )
    for number, cell in enumerate(notebook["cells"], 1):
        source = cell.get("source") if isinstance(cell, dict) else None
        whole = isinstance(source, str) or (
            isinstance(source, list) and all(isinstance(line, str) for line in source)
        )
        if not whole or cell.get("cell_type") not in ("code", "markdown", "raw"):
            raise NotebookError(f"{where}: item {number} of its cells is no cell")
    return notebook


def cells_of(notebook: dict[str, Any]) -> list[Cell]:
    """The cells of a notebook that `read` returned."""
    cells = []
    for cell in notebook["cells"]:
        source = cell["source"]
        text = source if isinstance(source, str) else "".join(source)
        metadata = cell.get("metadata")
        tags = metadata.get("tags", []) if isinstance(metadata, dict) else []
        identity = cell.get("id")
        cells.append(
            Cell(
                cell["cell_type"],
                text.replace("\r\n", "\n"),
                identity if isinstance(identity, str) else None,
                tuple(tag for tag in tags if isinstance(tag, str)),
            )
        )
    return cells


def course_metadata(notebook: dict[str, Any]) -> dict[str, Any]:
    """What build stored about the chapter: chapter, title, minutes, hashes. {} if foreign."""
    metadata = notebook.get("metadata")
    course = metadata.get("tinyvllm") if isinstance(metadata, dict) else None
    return course if isinstance(course, dict) else {}


def content_sha256(cells: Iterable[Cell]) -> str:
    """A hash of what a person wrote: kinds and texts of the cells, not outputs or metadata."""
    content = json.dumps([[cell.kind, cell.text] for cell in cells])
    return hashlib.sha256(content.encode()).hexdigest()


def dumps(notebook: dict[str, Any]) -> str:
    """The notebook's file: sorted keys and one-space indent, as JupyterLab writes it."""
    return json.dumps(notebook, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def code_cell(cell: Cell, identity: str, metadata: dict[str, Any]) -> dict[str, Any]:
    """A code cell of the file, not run."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": identity,
        "metadata": metadata,
        "outputs": [],
        "source": cell.text.splitlines(keepends=True),
    }


def text_cell(cell: Cell, identity: str) -> dict[str, Any]:
    """A Markdown or raw cell of the file."""
    return {
        "cell_type": cell.kind,
        "id": identity,
        "metadata": {},
        "source": cell.text.splitlines(keepends=True),
    }
