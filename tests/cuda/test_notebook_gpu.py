"""Cells of `%%cuda` on an NVIDIA GPU."""

import pytest
import torch

from tinyvllm.cuda import CompileError, KernelError
from tinyvllm.cuda.notebook import CellKernel, CudaCell, compile_cell

pytestmark = pytest.mark.gpu
HELLO = """%%cuda hello
__global__ void hello(float* x) {
    x[threadIdx.x] += 1;
    printf("thread %d\\n", threadIdx.x);
}
"""


@pytest.fixture(autouse=True)
def needs_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here: run `make test-gpu` on a machine that has one")


def bound(text: str, *earlier: str) -> dict[str, CellKernel]:
    return compile_cell(CudaCell.read(text), [CudaCell.read(each) for each in earlier])


def test_cuda_tensors_go_to_the_gpu_and_printf_to_stdout(capsys: pytest.CaptureFixture[str]):
    kernel = bound(HELLO)["hello"]
    x = torch.zeros(2, device="cuda")
    kernel(1, 2, (x,))
    assert sorted(capsys.readouterr().out.splitlines()) == ["thread 0", "thread 1"]
    assert x.tolist() == [1, 1]
    assert kernel.module._gpu is not None


def test_cpu_tensors_are_still_checked():
    kernel = bound(HELLO)["hello"]
    with pytest.raises(KernelError, match="line 3 of the cell of hello"):
        kernel(1, 3, (torch.zeros(2),))


def test_a_kernel_of_a_cell_can_be_captured_in_a_graph():
    kernel = bound(HELLO)["hello"]
    x = torch.zeros(2, device="cuda")
    kernel(1, 2, (x,))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(1, 2, (x,))
    graph.replay()
    torch.cuda.synchronize()
    assert x.tolist() == [2, 2]


def test_nvrtcs_errors_have_the_cells_lines():
    with pytest.raises(CompileError) as caught:
        bound(HELLO.replace("+= 1", "+= one"))
    lines = str(caught.value).splitlines()
    assert lines[2].startswith("line 3: ") and "one" in lines[2]
    assert lines[3] == "   3 |     x[threadIdx.x] += one;"


def test_earlier_cells_of_the_module_are_compiled_too():
    helper = "%%cuda\n#include <stdio.h>\n__device__ float halved(float x) { return x / 2; }"
    uses = "%%cuda h\n__global__ void h(float* x) { x[0] = halved(x[0]); }"
    x = torch.ones(1, device="cuda")
    bound(uses, helper)["h"](1, 1, (x,))
    assert x.item() == 0.5
