"""Warp functions mean what the CUDA C++ programming guide says, sections "Warp Vote" to "Warp
Shuffle Functions"."""

from functools import cache
from pathlib import Path

import pytest
import torch

from tinyvllm.cuda import RawModule

LANES = range(32)
EXPECTED = {
    "shfl": [100 + (i + 5) % 32 for i in LANES],
    "shfl_wraps": [100 + (i + 40) % 32 for i in LANES],
    "shfl_width": [100 + i // 8 * 8 + 3 for i in LANES],
    "shfl_up": [100 + (i - 3 if i >= 3 else i) for i in LANES],
    "shfl_up_width": [100 + (i - 3 if i % 8 >= 3 else i) for i in LANES],
    "shfl_down": [100 + (i + 3 if i < 29 else i) for i in LANES],
    "shfl_down_width": [100 + (i + 3 if i % 16 < 13 else i) for i in LANES],
    "shfl_xor": [100 + (i ^ 5) for i in LANES],
    # Out of the own group of 8: earlier groups can be read, later ones give the own value.
    "shfl_xor_width": [100 + ((i ^ 9) if (i ^ 9) // 8 <= i // 8 else i) for i in LANES],
    "shfl_long": [7] * 32,
    "shfl_double": [i ^ 1 for i in LANES],
    "any_one": [1] * 32,
    "vote_any_none": [0] * 32,
    "all_of_them": [1] * 32,
    "vote_all_but_one": [0] * 32,
    "ballot_of_thirds": [sum(1 << i for i in LANES if i % 3 == 0)] * 32,
    "match_any": [sum(1 << j for j in LANES if j // 10 == i // 10) for i in LANES],
    "match_all": [0xFFFFFFFF] * 32,
    "reduce_add": [sum(LANES)] * 32,
    "reduce_min": [5 - 31] * 32,
    "reduce_max": [31] * 32,
    "reduce_and": [0xF0] * 32,
    "reduce_or": [0xF] * 32,
    "reduce_xor": [0] * 32,
    "two_halves": [0xAAAA] * 16 + [i ^ 1 for i in range(16, 32)],
    "early_return": [8] * 8 + [-1] * 24,
    "through_shared": [2 * (31 - (i + 1) % 32) + 1 for i in LANES],
}
for i in LANES:
    EXPECTED["reduce_xor"][0] ^= 3 * i
EXPECTED["reduce_xor"] = EXPECTED["reduce_xor"][:1] * 32


@cache
def module(file: str = "warp.cu") -> RawModule:
    names = [n for n in EXPECTED if n.startswith("reduce_") == (file == "warp_reduce.cu")]
    return RawModule(path=Path(__file__).parent / "kernels" / file, name_expressions=names)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_warp_function_gives_each_lane_its_value(name, device):
    out = torch.full((32,), -1, dtype=torch.int32, device=device)
    file = "warp_reduce.cu" if name.startswith("reduce_") else "warp.cu"
    module(file).get_function(name)((1,), (32,), (out,))
    expected = torch.tensor(EXPECTED[name], dtype=torch.int64).to(torch.int32)
    assert out.cpu().tolist() == expected.tolist()


def test_a_shuffle_from_a_lane_that_is_not_there_is_no_plausible_number():
    text = (
        'extern "C" __global__ void f(float* out) {\n'
        "  out[threadIdx.x] = __shfl_down_sync(0xFFFFFFFF, 1.0f, 16);\n}"
    )
    out = torch.zeros(20)
    RawModule(text).get_function("f")((1,), (20,), (out,))
    assert out.isnan().tolist() == [False] * 4 + [True] * 12 + [False] * 4
