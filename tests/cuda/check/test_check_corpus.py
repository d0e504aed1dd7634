"""Every faulty kernel of the corpus is found, with its kind, line and name; no correct one is."""

from functools import cache

import numpy as np
import pytest
import torch
from check_corpus import ALL, CORRECT, FAULTY, KERNELS, Array, Case, as_float

from tinyvllm.cuda import KernelError, RawModule


@cache
def module(file: str) -> RawModule:
    return RawModule(path=KERNELS / file)


def arguments(case: Case) -> list:
    """Fresh arrays: torch tensors for bfloat16, numpy arrays else."""
    made = []
    for a in case.args:
        if isinstance(a, Array) and a.dtype == "bf16":
            made.append(torch.from_numpy(a.values.astype("i2")).view(torch.bfloat16))
        else:
            made.append(a.values.copy() if isinstance(a, Array) else a)
    return made


def check(case: Case) -> list:
    args = arguments(case)
    kernel = module(case.file).get_function(case.kernel)
    kernel.check(case.grid, case.block, tuple(args), shared_mem=case.shared_mem)
    return args


@pytest.mark.parametrize("case", FAULTY, ids=lambda c: c.kernel)
def test_a_fault_is_found_with_its_kind_its_line_and_its_name(case, monkeypatch):
    if case.hangs:
        monkeypatch.setenv("TINYVLLM_EMULATOR_LIMIT", "0.3")
    with pytest.raises(KernelError) as caught:
        check(case)
    error = caught.value
    found = (error.kind, error.array, error.file, error.line in case.lines())
    assert found == (case.kind, case.name, case.file, True), str(error)
    if case.index is not None:
        assert error.index == case.index, str(error)
    assert str(error).startswith(f"{case.kernel}: block (")


@pytest.mark.parametrize("case", CORRECT, ids=lambda c: c.kernel)
def test_a_correct_kernel_is_left_alone_and_its_result_is_right(case):
    given = [a.values if isinstance(a, Array) else a for a in case.args]
    result = check(case)[0]
    if isinstance(result, torch.Tensor):
        result = as_float(result.view(torch.int16).numpy().view("u2"))
        expected = as_float(case.expected(*given))
    else:
        expected = case.expected(*given)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_the_corpus_is_large_enough_and_every_kernel_in_the_files_is_launched():
    assert len(FAULTY) >= 30 and len(CORRECT) >= 20
    launched = {(c.file, c.kernel) for c in ALL}
    written = {
        (f.name, k)
        for f in KERNELS.glob("*t*.cu")
        if f.name != "order.cu"
        for k in RawModule(path=f).source.kernels
    }
    assert launched == written
