"""Tests an intrinsic of a few numbers: a kernel for each of a table's expressions, all in one
module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from tinyvllm.cuda import RawModule

DTYPES = {
    "int": torch.int32,
    "unsigned": torch.int32,
    "long long": torch.int64,
    "unsigned long long": torch.int64,
    "float": torch.float32,
    "double": torch.float64,
    "__half": torch.float16,
    "__nv_bfloat16": torch.bfloat16,
    "unsigned short": torch.int16,
    "bool": torch.bool,
}


@dataclass(frozen=True)
class Case:
    """`expression` of x (and y, z), its C++ types, the inputs, and the oracle."""

    expression: str
    result: str
    types: tuple[str, ...]
    inputs: tuple[tuple, ...]  # one tuple of values an argument
    oracle: Callable
    rtol: float = 0.0
    gpu_rtol: float | None = None  # where the GPU's fast version is less exact
    atol: float = 0.0


def text_of(cases: dict[str, Case]) -> str:
    kernels = []
    for name, case in cases.items():
        letters = "xyz"[: len(case.types)]
        parameters = ", ".join(f"const {t}* {v}_" for t, v in zip(case.types, letters))
        values = " ".join(f"{t} {v} = {v}_[i];" for t, v in zip(case.types, letters))
        kernels.append(
            f'extern "C" __global__ void k_{name}({parameters}, {case.result}* out, int n) {{\n'
            f"  int i = threadIdx.x; if (i < n) {{ {values} out[i] = {case.expression}; }}\n}}"
        )
    return "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n" + "\n".join(kernels)


def tensor(type_: str, values: tuple, device: str) -> torch.Tensor:
    dtype = DTYPES[type_]
    if dtype.is_floating_point or dtype == torch.bool:
        return torch.tensor(values, dtype=dtype, device=device)
    bits = {torch.int16: 16, torch.int32: 32, torch.int64: 64}[dtype]
    wrapped = [(int(v) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for v in values]
    return torch.tensor(wrapped, dtype=dtype, device=device)


def check(module: RawModule, cases: dict[str, Case], name: str, device: str) -> None:
    case = cases[name]
    arrays = [tensor(t, v, device) for t, v in zip(case.types, case.inputs)]
    n = len(case.inputs[0])
    out = torch.zeros(n, dtype=DTYPES[case.result], device=device)
    module.get_function(f"k_{name}")((1,), (64,), (*arrays, out, n))
    # The oracle gets what the kernel gets: numbers of the parameter's type.
    given = [a.tolist() if a.dtype.is_floating_point else v for a, v in zip(arrays, case.inputs)]
    expected = tensor(case.result, tuple(case.oracle(*v) for v in zip(*given)), "cpu")
    rtol = case.rtol if device == "cpu" or case.gpu_rtol is None else case.gpu_rtol
    torch.testing.assert_close(out.cpu(), expected, rtol=rtol, atol=case.atol, equal_nan=True)
