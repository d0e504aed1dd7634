"""CUDA C++ for everyone."""

from .arguments import Parameter
from .errors import CompileError, CompilerNotFound, KernelError
from .module import Kernel, RawModule, load

__all__ = [
    "CompileError",
    "CompilerNotFound",
    "Kernel",
    "KernelError",
    "Parameter",
    "RawModule",
    "load",
]


def load_ipython_extension(shell: object) -> None:
    """What `%load_ext tinyvllm.cuda` calls: the cell magic `%%cuda` (notebook.py)."""
    from .notebook import load

    load(shell)
