"""Linear layers on a CPU, with weights that stay in bfloat16: what a checkpoint of today holds.

Computing is in float32, and a bfloat16 widens to a float32 exactly, so nothing is lost; but half
the bytes are kept, and half are read. With few tokens a kernel of ours reads the weights
(kernels/linear_bf16.cpp); with many, a matrix at a time is widened and multiplied by MKL.
"""

import ctypes
import logging
from pathlib import Path

import torch

from tinyvllm.ops.gemm import linear_reference

SOURCE = Path(__file__).parent.parent / "kernels" / "linear_bf16.cpp"
FEW_TOKENS = 64  # up to here our kernel is the faster one

logger = logging.getLogger("tinyvllm")


class Bf16Linear:
    """The `linear` of an ops table: x in float32, weight in bfloat16, y in float32."""

    def __init__(self, kernel):
        self._kernel = kernel
        self._wide = torch.empty(0)  # one matrix in float32, reused

    def __call__(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """x [T, in] float32, weight [out, in] bfloat16, bias [out] float32 -> [T, out] float32."""
        tokens, columns = x.shape
        if tokens > FEW_TOKENS:
            return linear_reference(x, self._widened(weight), bias)
        x = x.contiguous()
        y = torch.empty(tokens, weight.shape[0])
        self._kernel(
            weight.data_ptr(),
            x.data_ptr(),
            y.data_ptr(),
            weight.shape[0],
            columns,
            tokens,
            torch.get_num_threads(),
        )
        return y if bias is None else y.add_(bias)

    def _widened(self, weight: torch.Tensor) -> torch.Tensor:
        if self._wide.numel() < weight.numel():
            self._wide = torch.empty(weight.numel())
        return self._wide[: weight.numel()].view_as(weight).copy_(weight)


def bf16_linear() -> Bf16Linear | None:
    """The operation, or None (and one line that says why) where its kernel can't be built."""
    # Imported here: an engine on a GPU needs no C++ compiler.
    from tinyvllm.cuda.compiler import build_library, find_compiler
    from tinyvllm.cuda.errors import CompileError, CompilerNotFound

    try:
        if (kind := find_compiler().kind) != "gcc":
            # clang brings an OpenMP of its own; two thread pools on one CPU wait for each other.
            raise CompilerNotFound(f"its kernel needs g++, and the compiler found is {kind}")
        # -fopenmp is left out of the link: the threads are torch's own, found when loading.
        library = ctypes.CDLL(str(build_library(SOURCE, ("-march=native", "-fopenmp"))))
    except (CompileError, CompilerNotFound, OSError) as error:
        logger.warning(
            "Decoding on this CPU will take about twice as long as it could, because bfloat16 "
            "weights must be kept as float32: %s",
            str(error).split("\n")[0],
        )
        return None
    kernel = library.linear_bf16
    kernel.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 3 + [ctypes.c_int]
    kernel.restype = None
    return Bf16Linear(kernel)
