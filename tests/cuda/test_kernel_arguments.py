"""Every wrong argument is an error that names the parameter, and nothing is launched."""

import numpy as np
import pytest
import torch

from tinyvllm.cuda import RawModule

TEXT = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
struct Pair { int a; float b; };
__global__ void scale(float* out, const float* x, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = factor * x[i];
}
__global__ void kinds(const __nv_bfloat16* bf16, const __half* fp16, const long long* i64,
                      const bool* flags, const unsigned char* bytes, const float4* quads,
                      const void* any, const uint4* raw, int* out) {
  float sum = (bf16 ? float(bf16[0]) : 0) + (fp16 ? float(fp16[0]) : 0) + (i64 ? i64[0] : 0);
  sum += (flags ? flags[0] : 0) + (bytes ? bytes[0] : 0) + (quads ? quads[0].x : 0);
  out[0] = sum + (any != nullptr) + (raw ? (int)raw[0].x : 0);
}
__global__ void numbers(double* out, bool b, signed char c, unsigned u, long long l, __half h,
                        __nv_bfloat16 g, Pair p) {
  out[0] = b; out[1] = c; out[2] = u; out[3] = l;
  out[4] = float(h); out[5] = float(g); out[6] = p.a; out[7] = p.b;
}
"""


@pytest.fixture(scope="module")
def module():
    return RawModule(TEXT)


@pytest.fixture
def x(device):
    return torch.arange(8.0, device=device)


def launch(module, *args, name="scale", grid=(1,), block=(32,), **kwargs):
    module.get_function(name)(grid, block, args, **kwargs)


def test_the_kernel_gets_what_it_is_given(module, x):
    out = torch.zeros_like(x)
    launch(module, out, x, 8, 2)  # an int for a float parameter is converted
    assert out.tolist() == (2 * x).tolist()


@pytest.mark.parametrize("factor", [2, 2.0, np.float64(2), np.float32(2), np.int64(2), True])
def test_any_number_becomes_the_float_that_the_kernel_declares(module, x, factor):
    out = torch.zeros_like(x)
    launch(module, out, x, np.int64(8), factor)
    assert out.tolist() == (float(factor) * x).tolist()


def test_numpy_arrays_go_where_torch_cpu_tensors_go(module):
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, dtype=np.float32)
    launch(module, out, torch.from_numpy(x), 8, 3.0)
    assert out.tolist() == (3 * x).tolist()


def test_all_kinds_of_pointers(module, device):
    out = torch.zeros(1, dtype=torch.int32, device=device)

    def of(value, dtype):
        return torch.full((16,), value, dtype=dtype, device=device)

    launch(
        module,
        of(1, torch.bfloat16),
        of(20, torch.float16),
        of(300, torch.int64),
        of(True, torch.bool),
        of(2, torch.uint8),
        of(4000.0, torch.float32),
        of(0, torch.int8),
        of(50000, torch.int32),
        out,
        name="kinds",
    )
    assert out.item() == 1 + 20 + 300 + 1 + 2 + 4000 + 1 + 50000


def test_none_is_a_null_pointer(module, device):
    out = torch.zeros(1, dtype=torch.int32, device=device)
    launch(module, *[None] * 8, out, name="kinds")
    assert out.item() == 0


def test_numpy_bits_pass_for_bfloat16(module):
    out = torch.zeros(1, dtype=torch.int32)
    bits = np.full(1, 0x4040, dtype=np.uint16)  # 3.0
    launch(module, bits, *[None] * 7, out, name="kinds")
    assert out.item() == 3


def test_all_kinds_of_numbers_and_a_struct(module, device):
    out = torch.zeros(8, dtype=torch.float64, device=device)
    pair = np.array((5, 0.5), dtype=[("a", np.int32), ("b", np.float32)])[()]
    launch(module, out, True, -3, 2**32 - 1, -(2**62), 1.5, 1.00390625, pair, name="numbers")
    # 1.00390625 lies halfway between two bfloat16 numbers and goes to the even one.
    assert out.tolist() == [1, -3, 2**32 - 1, -(2**62), 1.5, 1.0, 5, 0.5]


WRONG = {
    "too few": (
        lambda x: (x, x),
        TypeError,
        r"scale takes 4 arguments \(float\* out, const float\* x, int n, .* got 2",
    ),
    "too many": (lambda x: (x, x, 1, 1.0, 1), TypeError, "scale takes 4 arguments .* got 5"),
    "dtype": (
        lambda x: (x, x.double(), 1, 1.0),
        TypeError,
        "argument 2, `x`, is const float.* needs float32; .* is float64",
    ),
    "address": (
        lambda x: (x, x.data_ptr(), 1, 1.0),
        TypeError,
        "argument 2, `x`, .* got int .*data_ptr",
    ),
    "list": (lambda x: (x, [1.0], 1, 1.0), TypeError, "argument 2, `x`, .* got list"),
    "transposed": (
        lambda x: (x.view(2, 4).t(), x, 1, 1.0),
        ValueError,
        r"argument 1, `out`, is not contiguous.*out.contiguous",
    ),
    "strided": (lambda x: (x, x[::2], 1, 1.0), ValueError, "argument 2, `x`, is not contiguous"),
    "float for int": (
        lambda x: (x, x, 8.0, 1.0),
        TypeError,
        "argument 3, `n`, is int and needs a whole number; got float",
    ),
    "text": (
        lambda x: (x, x, 8, "2"),
        TypeError,
        "argument 4, `factor`, is float and needs a number; got str",
    ),
    "tensor for number": (
        lambda x: (x, x, x[0], 1.0),
        TypeError,
        r"argument 3, `n`, is int, a number; got an array .*\.item\(\)",
    ),
    "too large": (
        lambda x: (x, x, 2**31, 1.0),
        ValueError,
        "argument 3, `n`, is int, which holds -2147483648 to 2147483647; got 2147483648",
    ),
    "none for a number": (
        lambda x: (x, x, None, 1.0),
        TypeError,
        "argument 3, `n`, .* got NoneType",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_named(module, x, case):
    make, error, message = WRONG[case]
    before = x.clone()
    with pytest.raises(error, match=message):
        launch(module, *make(x))
    assert torch.equal(x, before)


@pytest.mark.parametrize(
    "grid, block, shared_mem, error, message",
    [
        ((0,), (32,), 0, ValueError, "grid.x is 0, it must be 1 to 2147483647"),
        ((1, 65536), (32,), 0, ValueError, "grid.y is 65536, it must be 1 to 65535"),
        ((1,), (0,), 0, ValueError, "block.x is 0, it must be 1 to 1024"),
        ((1,), (1, 1, 65), 0, ValueError, "block.z is 65, it must be 1 to 64"),
        (
            (1,),
            (32, 33),
            0,
            ValueError,
            r"block \(32, 33\) has 1056 threads; a block has at most 1024",
        ),
        ((1.0,), (32,), 0, TypeError, "grid.x must be a whole number, got 1.0"),
        ("1", (32,), 0, TypeError, "grid must be a tuple of one to three whole numbers"),
        ((1,), (1, 1, 1, 1), 0, TypeError, "block must be a tuple of one to three whole numbers"),
        ((1,), (32,), -1, ValueError, "shared_mem is -1 bytes"),
        ((1,), (32,), 300_000, ValueError, "shared_mem is 300000 bytes"),
        ((1,), (32,), 1.5, TypeError, "shared_mem must be a number of bytes, got 1.5"),
    ],
)
def test_a_wrong_geometry_is_named(module, x, grid, block, shared_mem, error, message):
    with pytest.raises(error, match=message):
        launch(module, x, x, 8, 1.0, grid=grid, block=block, shared_mem=shared_mem)


def test_arguments_must_be_a_tuple(module, x):
    with pytest.raises(TypeError, match=r"the arguments must be a tuple"):
        module.get_function("scale")((1,), (32,), x)


def test_a_read_only_array_can_be_read_but_not_written(module):
    x, out = np.ones(8, dtype=np.float32), np.zeros(8, dtype=np.float32)
    x.flags.writeable = False
    launch(module, out, x, 8, 2.0)
    assert out.tolist() == [2.0] * 8
    with pytest.raises(
        ValueError, match=r"argument 1, `out`, is written by the kernel .* read-only"
    ):
        launch(module, x, out, 8, 2.0)


def test_an_array_that_begins_off_its_alignment_is_refused(module, device):
    quads = torch.zeros(17, device=device)[1:]
    out = torch.zeros(1, dtype=torch.int32, device=device)
    with pytest.raises(ValueError, match=r"argument 6, `quads`, .* not aligned to 16 bytes"):
        launch(module, *[None] * 5, quads, None, None, out, name="kinds")


@pytest.mark.gpu
def test_arrays_on_two_devices_are_refused(module):
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here")
    x = torch.zeros(8)
    for args in ((x.cuda(), x, 8, 1.0), (x, x.cuda(), 8, 1.0)):
        with pytest.raises(TypeError, match=r"argument 2, `x`, is on .*, but `out` is on"):
            launch(module, *args)


def test_a_tensor_on_a_device_that_runs_no_kernels_is_refused(module):
    x = torch.zeros(8, device="meta")
    with pytest.raises(TypeError, match=r"argument 1, `out`, is on meta"):
        launch(module, x, x, 8, 1.0)


def test_an_unknown_kernel_is_answered_with_the_known_ones(module):
    with pytest.raises(
        ValueError, match=r"no kernel called 'scales'; it has: scale, kinds, numbers"
    ):
        module.get_function("scales")


def test_a_template_needs_its_arguments():
    text = "template <class T> __global__ void fill(T* x) { x[threadIdx.x] = T(1); }"
    module = RawModule(text)
    with pytest.raises(
        ValueError, match=r"fill is a template: say which one, for example fill<float>"
    ):
        module.get_function("fill")
    x = torch.zeros(4, dtype=torch.int64)
    module.get_function("fill<long long>")(1, 4, (x,))
    y = torch.zeros(4)
    module.get_function("fill<float>")(1, 4, (y,))
    assert x.tolist() == y.tolist() == [1] * 4
