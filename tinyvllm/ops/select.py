"""Which ops table runs a model on a device, and in which dtype its matrices are kept."""

import importlib.util
import logging
from collections.abc import Collection
from dataclasses import replace

import torch

from tinyvllm.ops.cpu_linear import bf16_linear
from tinyvllm.ops.gemm import linear_split
from tinyvllm.ops.kernel_table import kernel_ops
from tinyvllm.ops.table import Ops, reference_ops

KERNELS = ("auto", "promoted", "emulated", "reference")

logger = logging.getLogger("tinyvllm")


def select_ops(
    device: torch.device, dtype: torch.dtype, stored: Collection[str], kernels: str = "auto"
) -> tuple[Ops, torch.dtype]:
    """(table, dtype of the matrices).

    dtype: of the computation. stored: the dtypes of the checkpoint's tensors, as its files name
    them; matrices are kept as bfloat16 only if they came as bfloat16.
    kernels: "auto", the fastest table that computes what `reference_ops` computes;
    "promoted", the package's CUDA kernels on a GPU and its plain torch on a CPU;
    "emulated", the CUDA kernels on a CPU, thread by thread; "reference", plain torch.

    Raises ValueError for another word, and for kernels that can't run on the device.
    """
    if kernels not in KERNELS:
        raise ValueError(f"kernels is one of {', '.join(KERNELS)}; it is {kernels!r}.")
    if kernels == "reference" or (kernels == "promoted" and device.type == "cpu"):
        return reference_ops, dtype
    if kernels == "emulated":
        if device.type != "cpu":
            raise ValueError("kernels='emulated' runs CUDA kernels on a CPU: add device='cpu'.")
        return kernel_ops, dtype
    if device.type == "cuda":
        return _on_gpu(kernels), dtype
    if dtype != torch.float32:
        return reference_ops, dtype
    if set(stored) == {"BF16"} and (linear := bf16_linear()):
        return replace(reference_ops, linear=linear), torch.bfloat16
    return replace(reference_ops, linear=linear_split), dtype


def _on_gpu(kernels: str) -> Ops:
    if importlib.util.find_spec("cupy"):
        return kernel_ops
    missing = "CUDA kernels need CuPy: `make setup EXTRAS=gpu` (CUDA 12) or EXTRAS=gpu13 (CUDA 13)"
    if kernels == "promoted":
        raise ValueError(f"{missing}.")
    logger.warning("%s. Until then torch's own operations run, one after another.", missing)
    return reference_ops
