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
