"""Every kernel compiles with NVRTC for the GPUs that people have. No GPU is needed; the wheels of
`test` bring NVRTC."""

import struct
from pathlib import Path

import pytest
from elementwise import text_of
from test_atomics import module as atomics
from test_bit_intrinsics import CASES as BITS
from test_blocks import module as blocks
from test_half_types import CASES as HALVES
from test_half_types import rounding
from test_kernel_arguments import TEXT as ARGUMENTS
from test_math_functions import CASES as MATH
from test_warp_functions import module as warps

from tinyvllm.cuda import CompileError, RawModule, nvrtc
from tinyvllm.cuda.binary import Binary
from tinyvllm.cuda.compiler import KERNELS

# Turing has no bfloat16 arithmetic: there kernels run with fp16.
ARCHITECTURES = {"sm_75": "fp16", "sm_80": "bf16", "sm_90": "bf16", "sm_120": "bf16"}
FILES = sorted(KERNELS.glob("*.cu")) + sorted((Path(__file__).parent / "kernels").glob("*.cu"))
TEXTS = {
    "bits": lambda: RawModule(text_of(BITS)),
    "math": lambda: RawModule(text_of(MATH)),
    "halves": lambda: RawModule(text_of(HALVES)),
    "roundings": rounding,
    "atomics": atomics,
    "blocks": blocks,
    "warps": warps,
    "warp reductions": lambda: warps("warp_reduce.cu"),
    "arguments": lambda: RawModule(ARGUMENTS),
}

pytestmark = pytest.mark.skipif(
    not nvrtc.is_available(),
    reason="NVRTC is not installed: "
    "pip install nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12 'cuda-bindings==12.9.*'",
)


def compiled(module: RawModule, arch: str) -> tuple[bytes, dict[str, str]]:
    return nvrtc.compile_cubin(module.source, module.names, arch, module.options, module.prologue)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_a_kernel_file_compiles_for_a_gpu(file, arch):
    cubin, names = compiled(RawModule(path=file, scalar_t=ARCHITECTURES[arch]), arch)
    assert cubin[:4] == b"\x7fELF" and "" not in names.values()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("text", TEXTS)
def test_the_whole_language_subset_compiles_for_a_gpu(text, arch):
    assert compiled(TEXTS[text](), arch)[0][:4] == b"\x7fELF"


def device_table(cubin: bytes, symbol: str, tmp_path: Path) -> tuple[int, ...]:
    """The numbers of a variable of a cubin, read from its ELF file."""
    path = tmp_path / "a.cubin"
    path.write_bytes(cubin)
    binary = Binary(path)
    _, value, size = binary.symbols[symbol]
    _, offset, _ = binary.sections[".nv.global.init"]
    return struct.unpack_from(f"<{size // 4}i", cubin, offset + value)


def test_the_gpus_compiler_and_the_cpus_agree_on_the_types_of_parameters(tmp_path):
    module = RawModule(ARGUMENTS)
    cubin, _ = compiled(module, "sm_90")
    for i, name in enumerate(module.names):
        parameters = module.get_function(name).parameters
        count, *table = device_table(cubin, f"tinyvllm_signature_{i}", tmp_path)
        rows = [tuple(table[5 * j : 5 * j + 5]) for j in range(count)]
        assert rows == [(p.pointer, p.const, p.code, p.bytes, p.alignment) for p in parameters]


def test_what_host_compilers_know_is_known_on_the_gpu_too():
    text = """__global__ void f(float* x, uint8_t a, int64_t b, uintptr_t c) {
      x[0] = INFINITY + NAN + FLT_MAX + FLT_EPSILON + INT_MAX + (float)M_PI + a + b + c + UINT_MAX;
      static_assert(sizeof(int64_t) == 8 && sizeof(uint32_t) == 4, "");
      assert(a < 3); printf("%d", a);
    }"""
    assert compiled(RawModule(text), "sm_90")[0]


def test_an_error_has_the_texts_own_line_and_name():
    module = RawModule(
        "__global__ void f(float* x) {\n  x[0] = y;\n}", filename="cell 3", first_line=10
    )
    with pytest.raises(CompileError, match='cell 3:11:1: identifier "y" is undefined') as caught:
        compiled(module, "sm_90")
    assert caught.value.diagnostics[0].line == 11


def test_wmma_is_refused_here_too():
    with pytest.raises(CompileError, match="wmma is outside"):
        compiled(RawModule("#include <mma.h>\n__global__ void f() {}"), "sm_90")
