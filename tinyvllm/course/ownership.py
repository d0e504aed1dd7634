"""Who writes each file of the package: a chapter, or a person by hand.

A chapter owns the modules that its cells name with `#| promote`; that list is derived, never kept.
Everything else must be listed here, and a test holds both: each file has exactly one owner.
"""

from tinyvllm.course import notebooks
from tinyvllm.course.project import CourseError, Project

# Whole folders that no chapter promotes into.
HAND_WRITTEN_FOLDERS = ("course/", "cuda/", "hub/")

# Files written by hand for good, and why they are not the student's to write.
HAND_WRITTEN = {
    "__init__.py": "the package's lazy exports",
    "__main__.py": "the command `tinyvllm`",
    "cli.py": "the command's sub-commands",
    "config.py": "config.json as dataclasses",
    "doctor.py": "what this machine can run",
    "llm.py": "the public API",
    "outputs.py": "what a request returns",
    "sampling_params.py": "what a request asks for",
    "tokenizer.py": "the tokenizers library, and chat templates",
    "weights/load.py": "from a folder of safetensors to a model",
    "kernels/device.cuh": "the GPU's own instructions behind functions",
}

# Files written by hand only until the chapter with this number owns them: the engine works before
# its chapters are finished.
HAND_WRITTEN_UNTIL: dict[str, int] = {}


def is_hand_written_folder(path: str) -> bool:
    """True if `path` ("course/cells.py") lies in a folder that no chapter may promote into."""
    return path.startswith(HAND_WRITTEN_FOLDERS)


def owners(project: Project) -> dict[str, int]:
    """Module -> number of the chapter that promotes it, from the notebooks in solutions/."""
    found: dict[str, int] = {}
    for chapter in project.chapters():
        if not chapter.solution.exists():
            continue
        for cell in notebooks.cells_of(notebooks.read(chapter.solution)):
            path = cell.promote
            if path and found.setdefault(path, chapter.number) != chapter.number:
                raise CourseError(
                    f"{path} is promoted by chapter {found[path]} and by chapter"
                    f" {chapter.number}: a module belongs to one chapter"
                )
    return found
