"""What check mode says, and what it leaves as it was."""

from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from check_corpus import FAULTY, KERNELS, Array
from kernel_references import paged_attention, rms_norm

from tinyvllm.cuda import CompileError, KernelError, RawModule

check = import_module("tinyvllm.cuda.check")

COURSE = Path(__file__).parents[1] / "kernels"
HINTS = {
    "no_guard": "That is one too far: is there a `<=` that should be `<`, or is `if (i < n)` "
    "missing?",
    "less_or_equal": "should `<=` be `<`?",
    "left_neighbour": "The index is negative",
    "null_pointer": "Was None passed",
    "misaligned_vector": "must lie at a multiple of its size",
    "dynamic_too_small": "shared_mem= counts bytes",
    "dynamic_forgotten": "pass shared_mem=, in bytes",
    "no_barrier": "Is a __syncthreads() missing between line 7 (write) and line 8 (read)?",
    "no_second_barrier": "is one missing at the end of the loop?",
    "no_syncwarp": "__syncwarp()",
    "histogram_without_atomics": "use an atomic",
    "all_write_one": "Several threads write one element",
    "atomic_and_read": "all must, or a barrier",
    "async_without_wait": "copy_async_wait<0>()",
    "unset_sum": "begins with arbitrary values",
    "last_block_without_fence": "needs __threadfence() before that atomic",
    "stencil_in_place": "A block can't wait for another one",
    "barrier_in_if": "move it out of the `if`",
    "full_mask_in_branch": "All lanes that the mask names",
    "mask_without_caller": "0xFFFFFFFF for a full warp",
    "endless_wait": "Does the loop's condition change?",
}


@cache
def module(file: str) -> RawModule:
    return RawModule(path=KERNELS / file)


def fault_of(name: str) -> KernelError:
    case = next(c for c in FAULTY if c.kernel == name)
    args = tuple(a.values.copy() if isinstance(a, Array) else a for a in case.args)
    with pytest.raises(KernelError) as caught:
        module(case.file).get_function(name).check(
            case.grid, case.block, args, shared_mem=case.shared_mem
        )
    return caught.value


@pytest.mark.parametrize("name", HINTS)
def test_the_usual_cause_is_named(name, monkeypatch):
    monkeypatch.setenv("TINYVLLM_EMULATOR_LIMIT", "0.3")
    assert HINTS[name] in str(fault_of(name))


def test_the_message_of_a_race_says_who_what_and_where():
    # The first warp has run to its end when the second one, thread by thread, writes what it read.
    assert str(fault_of("half_warps")) == (
        "half_warps: block (0,0,0) thread (16,0,0): data race: write of row[16], which thread "
        "(15,0,0) read on line "
        "133 with nothing that orders the two (both are in one warp) (faulty_races.cu:131)\n"
        "Is a __syncwarp() or __syncthreads() missing between line 131 (write) and line 133 (read)?"
    )


def test_an_index_out_of_bounds_is_told_with_the_size():
    assert str(fault_of("less_or_equal")).startswith(
        "less_or_equal: block (1,0,0) thread (36,0,0): out of bounds: write of out[100], but out "
        "has 100 elements "
        "(faulty_bounds.cu:12)\n"
    )


def test_the_same_fault_is_told_each_time():
    assert str(fault_of("histogram_without_atomics")) == str(fault_of("histogram_without_atomics"))


def test_lines_are_those_of_the_notebook_s_cell():
    text = 'extern "C" __global__ void f(float* out, int n) {\n  out[n] = 1.0f;\n}'
    kernel = RawModule(text, filename="cell 7", first_line=31).get_function("f")
    with pytest.raises(KernelError, match=r"write of out\[4\].*\(cell 7:32\)") as caught:
        kernel.check((1,), (1,), (np.zeros(4, np.float32), 4))
    assert (caught.value.line, caught.value.array, caught.value.index) == (32, "out", 4)


@cache
def shift() -> RawModule:
    return RawModule(
        'extern "C" __global__ void shift(float* out, const float* x, int by) {\n'
        "  out[threadIdx.x] = x[threadIdx.x + by];\n}"
    )


def test_an_overrun_into_a_neighbouring_view_of_the_same_tensor_is_found():
    qkv = torch.arange(12.0)
    with pytest.raises(KernelError, match=r"read of x\[4\], but x has 4 elements"):
        shift().get_function("shift").check((1,), (4,), (qkv[8:], qkv[:4], 1))


def test_arrays_that_overlap_still_do():
    x = torch.arange(8.0)
    with pytest.raises(KernelError, match="race"):  # thread 0 writes what thread 1 reads
        shift().get_function("shift").check((1,), (4,), (x[1:], x, 0))
    x = torch.arange(8.0)
    shift().get_function("shift").check((1,), (4,), (x, x[:4], 0))
    assert x.tolist() == list(range(8))


def test_what_was_written_before_the_fault_is_there_and_what_was_printed_too(capsys):
    text = (
        'extern "C" __global__ void f(int* out, int n) {\n  for (int i = 0; i <= n; i++) {\n'
        '    if (i == 1) printf("one\\n");\n    out[i] = i + 1;\n  }\n}'
    )
    out = torch.zeros(3, dtype=torch.int32)
    with pytest.raises(KernelError):
        RawModule(text).get_function("f").check((1,), (1,), (out, 3))
    assert out.tolist() == [1, 2, 3]
    assert capsys.readouterr().out == "one\n"


def test_a_template_s_shared_array_and_a_pointer_past_its_end_have_its_name():
    text = (
        "template <class T, int n>\n__global__ void f(T* out, int i) "
        "{\n  __shared__ T tile[n][n + 1];\n"
        "  T* p = &tile[0][0];\n  p[i] = 1;\n  __syncthreads();\n  out[0] = p[i];\n}"
    )
    kernel = RawModule(text, name_expressions=["f<float, 4>"]).get_function("f<float, 4>")
    out = torch.zeros(1)
    kernel.check((1,), (1,), (out, 19))
    with pytest.raises(KernelError) as caught:
        kernel.check((1,), (1,), (out, 23))
    error = caught.value
    assert (error.kind, error.array, error.index, error.line) == ("bounds", "tile", 23, 5)
    assert "tile[4][3]" in str(error) and "tile[4][5]" in str(error)


def test_dynamic_shared_memory_is_counted_in_its_own_elements():
    text = (
        'extern "C" __global__ void f(int i) {\n  extern __shared__ scalar_t row[];\n'
        "  row[i] = scalar_t(1.0f);\n}"
    )
    kernel = RawModule(text, scalar_t="bf16").get_function("f")
    kernel.check((1,), (1,), (7,), shared_mem=16)
    with pytest.raises(KernelError, match=r"write of row\[8\], but .* 16 bytes") as caught:
        kernel.check((1,), (1,), (8,), shared_mem=16)
    assert (caught.value.array, caught.value.index) == ("row", 8)


def test_the_course_s_kernels_pass_and_compute_what_a_launch_does():
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(3, 96, generator=generator), torch.rand(96, generator=generator)
    out = torch.empty_like(x)
    norm = RawModule(path=COURSE / "rms_norm.cu", scalar_t="fp32").get_function("rms_norm")
    norm.check((3,), (64,), (out, x, weight, 96, 1e-6))
    torch.testing.assert_close(out.double(), rms_norm(x, weight, 1e-6), rtol=1e-5, atol=1e-6)

    q, lens = torch.randn(2, 4, 64, generator=generator), torch.tensor([9, 5], dtype=torch.int32)
    k, v = torch.randn(2, 6, 4, 2, 64, generator=generator)
    tables = torch.tensor([[3, 1, 5], [0, 2, 4]], dtype=torch.int32)
    out = torch.empty_like(q)
    attention = RawModule(path=COURSE / "paged_attention.cu", scalar_t="fp32").get_function(
        "paged_attention"
    )
    attention.check(
        (4, 2), (64,), (out, q, k, v, tables, lens, 2, 4, 3, 0.125), shared_mem=2 * 66 * 4
    )
    expected = paged_attention(q, k, v, tables, lens, 0.125)
    torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-5)


def test_a_compiler_that_instruments_nothing_is_no_silent_success(monkeypatch):
    bare = replace(check.check_mode(), flags=("-O1",))
    monkeypatch.setattr(check, "check_mode", lambda: bare)
    text = 'extern "C" __global__ void f(int* out) {\n  out[0] = 1;\n}'
    with pytest.raises(CompileError, match="did not instrument the kernel"):
        RawModule(text).get_function("f").check((1,), (1,), (np.zeros(1, np.int32),))
