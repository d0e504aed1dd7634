"""What is wrong with a text is said with the text's own lines; what is outside the subset, in
words."""

import re

import pytest
import torch

from tinyvllm.cuda import CompileError, RawModule

BODY = "__global__ void f(float* x, int n) {\n%s\n}\n"
OUTSIDE = {
    "inline PTX": (BODY % 'asm volatile("nop;");', "inline PTX is outside"),
    "wmma": ("#include <mma.h>\n" + BODY % "", "wmma is outside"),
    "wmma names": (BODY % "wmma::fill_fragment(x, 0.0f);", "wmma is outside"),
    "cooperative groups": (
        "#include <cooperative_groups.h>\n" + BODY % "",
        "cooperative groups are outside",
    ),
    "cuda_pipeline": ("#include <cuda_pipeline.h>\n" + BODY % "", "copy_async"),
    "textures": (BODY % "x[0] = tex2D<float>(n, 1, 2);", "textures and surfaces are outside"),
    "C++ library header": ("#include <vector>\n" + BODY % "", "C\\+\\+ library"),
    "C++ library name": (BODY % "x[0] = std::max(1, n);", "C\\+\\+ library is outside"),
    "new": (
        BODY % "int* p = new int[n]; p[0] = n; x[0] = p[threadIdx.x];",
        "memory can't be allocated",
    ),
    "malloc": (BODY % "x[0] = *(float*)malloc(4);", "memory can't be allocated"),
    "active mask": (BODY % "x[0] = __activemask();", "__activemask is outside"),
    "shuffle without mask": (BODY % "x[0] = __shfl_xor(n, 1);", "warp functions need their mask"),
    "vote without mask": (BODY % "x[0] = __any(n);", "warp functions need their mask"),
    "launch": (BODY % "f<<<1, 1>>>(x, n);", "launched from Python"),
    "host code": (BODY % "cudaMalloc(&x, n);", "host code"),
    "shared initialiser": (BODY % "__shared__ int s = 3; x[0] = s;", "can't have an initialiser"),
    "shared constructor": (
        "struct P { int a; __device__ P() : a(1) {} };\n"
        + BODY % "__shared__ P p[2]; x[0] = p[0].a;",
        "can't have a constructor",
    ),
    "device constructor": (
        "struct P { int a; __device__ P() : a(*(volatile int*)&a + 1) {} };\n__device__ P p;\n"
        + BODY % "x[0] = p.a;",
        "has a constructor or an initial value",
    ),
    "shared outside": (
        "extern __shared__ float s[];\n" + BODY % "x[0] = s[0];",
        "inside the kernel",
    ),
    "too much shared": (
        BODY % "__shared__ float s[20000]; s[n] = 1; x[0] = s[0];",
        "80000 bytes, .* at most 49152",
    ),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_what_is_outside_the_subset_is_refused_in_words(case):
    text, words = OUTSIDE[case]
    with pytest.raises(CompileError, match=words):
        RawModule(text, filename="mine.cu").program()


def test_an_error_has_the_texts_own_line_and_name():
    text = BODY % "  x[0] = y;\n  x[1] = 1"
    with pytest.raises(CompileError) as caught:
        RawModule(text, filename="mine.cu").program()
    lines = [(d.file, d.line) for d in caught.value.diagnostics]
    assert lines[0] == ("mine.cu", 2) and ("mine.cu", 3) in lines
    assert re.match(r"mine\.cu:2:\d+: .*y.* was not declared", str(caught.value)) or "y" in str(
        caught.value
    )


def test_the_first_line_can_be_another_one_as_in_a_cell():
    with pytest.raises(CompileError) as caught:
        RawModule(BODY % "x[0] = y;", filename="cell 7", first_line=11).program()
    assert caught.value.diagnostics[0].line == 12


def test_lines_stay_right_behind_what_is_rewritten():
    text = (
        "#include <stdio.h>\n/* a\nb */\n"
        + BODY % "extern __shared__\n float\n s[];\n__shared__ int t[3],\n u;\nx[0] = y;"
    )
    with pytest.raises(CompileError) as caught:
        RawModule(text).program()
    wanted = next(i for i, line in enumerate(text.split("\n"), 1) if line == "x[0] = y;")
    assert [d.line for d in caught.value.diagnostics] == [wanted]


def test_a_missing_equals_sign_is_not_hidden_by_a_macro():
    with pytest.raises(CompileError) as caught:
        RawModule(BODY % "float inv rsqrtf(x[0]); x[0] = inv;").program()
    assert caught.value.diagnostics[0].line == 2 and "emu" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        "struct S { char a[3]; } s; x[0] = __shfl_sync(~0u, s, 0).a[0];",
        "atomicAdd(x, 1, 2, 3, 4, 5);",
        "x[0] = __expf(x, x);",
        "x[0] = x[0] +;",
    ],
)
def test_an_error_inside_the_emulators_headers_is_told_at_the_texts_line(wrong):
    with pytest.raises(CompileError) as caught:
        RawModule(BODY % wrong, filename="mine.cu").program()
    first = caught.value.diagnostics[0]
    assert (first.file, first.line) == ("mine.cu", 2) and "emu_" not in str(caught.value)


def test_habitual_headers_are_no_error():
    text = (
        "#include <cuda_runtime.h>\n#include <cmath>\n#include <cstdint>\n#include <stdio.h>\n"
        + BODY % "x[0] = n;"
    )
    x = torch.zeros(1)
    RawModule(text).get_function("f")(1, 1, (x, 5))
    assert x.item() == 5


def test_options_define_macros():
    x = torch.zeros(1)
    RawModule(BODY % "x[0] = WIDTH;", options=("-DWIDTH=17",)).get_function("f")(1, 1, (x, 5))
    assert x.item() == 17


def test_scalar_t_must_be_one_of_three():
    with pytest.raises(ValueError, match='scalar_t must be "bf16", "fp16" or "fp32"'):
        RawModule(BODY % "", scalar_t="int8")


@pytest.mark.parametrize(
    "scalar_t, size", [("bf16", 2), ("fp16", 2), (torch.float32, 4), ("half", 2)]
)
def test_scalar_t_stands_for_a_type(scalar_t, size):
    x = torch.zeros(1)
    RawModule(BODY % "x[0] = sizeof(scalar_t);", scalar_t=scalar_t).get_function("f")(1, 1, (x, 0))
    assert x.item() == size
