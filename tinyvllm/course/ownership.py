"""Who writes each file of the package: a chapter, or a person by hand.

A chapter owns the modules that its cells name with `#| promote`; that list is derived, never kept.
Everything else must be listed here, and a test holds both: each file has exactly one owner.
"""

from tinyvllm.course import notebooks
from tinyvllm.course.project import CourseError, Project

# Whole folders that no chapter promotes into. (Chapter 20 will own two files of bench/: then it
# moves from here to the lists below.)
HAND_WRITTEN_FOLDERS = ("bench/", "course/", "cuda/", "hub/")

# Files written by hand for good, and what they are.
HAND_WRITTEN = {
    "__init__.py": "the package's lazy exports",
    "__main__.py": "the command `tinyvllm`",
    "chat.py": "a conversation in the terminal",
    "cli.py": "the command's sub-commands",
    "config.py": "config.json as dataclasses",
    "doctor.py": "what this machine can run",
    "llm.py": "the public API",
    "machine.py": "what this machine has: GPUs, CuPy, a compiler",
    "outputs.py": "what a request returns",
    "sampling_params.py": "what a request asks for",
    "tokenizer.py": "the tokenizers library, and chat templates",
    "engine/__init__.py": "a package",
    "engine/llm_engine.py": "the loop that requests flow through",
    "engine/model_runner.py": "one step of the model",
    "engine/request.py": "a request on its way",
    "kernels/device.cuh": "the GPU's own instructions behind functions",
    "kernels/linear_bf16.cpp": "matrix products on a CPU, weights in bfloat16",
    "models/__init__.py": "a package",
    "models/attend.py": "the protocol between a model and its attention",
    "models/registry.py": "architecture names and their classes",
    "ops/__init__.py": "a package",
    "ops/cpu_linear.py": "matrix products on a CPU, weights in bfloat16",
    "ops/kernel_table.py": "the table of the CUDA kernels",
    "ops/select.py": "which path an operation takes",
    "ops/table.py": "the table of operations that a model holds",
    "weights/__init__.py": "a package",
    "weights/load.py": "from a folder of safetensors to a model",
}

# Files written by hand only until the chapter with this number owns them: the engine works before
# its chapters are finished.
HAND_WRITTEN_UNTIL = {
    "ops/gemm.py": 6,
    "ops/swiglu.py": 7,
    "ops/attention.py": 8,
    "models/llama.py": 10,
    "engine/sampler.py": 11,
    "engine/kv_cache.py": 12,
}


def is_hand_written_folder(path: str) -> bool:
    """True if `path` ("course/cells.py") lies in a folder that no chapter may promote into."""
    return path.startswith(HAND_WRITTEN_FOLDERS)


def problems(project: Project) -> list[str]:
    """Files of the package without an owner, or with two, and entries of the lists without a file.

    Every Python, CUDA and C++ file counts.
    """
    chapters = owners(project)
    source = (".py", ".cu", ".cuh", ".h", ".cpp")
    files = {
        path.relative_to(project.package).as_posix()
        for path in project.package.rglob("*")
        if path.suffix in source and "__pycache__" not in path.parts
    }
    found = []
    for path in sorted(files | chapters.keys() | HAND_WRITTEN.keys() | HAND_WRITTEN_UNTIL.keys()):
        named = [
            f"chapter {chapters[path]}" if path in chapters else "",
            "HAND_WRITTEN" if path in HAND_WRITTEN else "",
            f"HAND_WRITTEN_UNTIL {HAND_WRITTEN_UNTIL.get(path)}"
            if path in HAND_WRITTEN_UNTIL
            else "",
            "a hand-written folder" if is_hand_written_folder(path) else "",
        ]
        named = [name for name in named if name]
        if path not in files:
            found.append(f"tinyvllm/{path} does not exist, but {' and '.join(named)} names it")
        elif not named:
            found.append(
                f"tinyvllm/{path} has no owner: promote it from a chapter, or list it in"
                " tinyvllm/course/ownership.py"
            )
        elif len(named) > 1:
            found.append(f"tinyvllm/{path} has two owners: {' and '.join(named)}")
    return found


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
