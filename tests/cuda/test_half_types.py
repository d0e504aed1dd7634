"""bfloat16 and fp16: all their values, their roundings and their functions, against torch."""

import math
from functools import cache

import pytest
import torch
from elementwise import DTYPES, Case, check, text_of

from tinyvllm.cuda import RawModule

TYPES = {"bf16": ("__nv_bfloat16", "bfloat16"), "fp16": ("__half", "half")}
A = (-3.5, -1.0, -0.25, 0.0, 0.3, 1.0, 2.5, 100.0)
B = (0.7, 3.0, -0.125, 1.0, 5.0, -1.0, 2.5, 0.01)
POSITIVE = (0.01, 0.5, 1.0, 2.0, 3.7, 10.0, 123.0)


def rounded(t: str):
    """What a number becomes in the type."""
    return lambda v: torch.tensor(v, dtype=torch.float64).to(DTYPES[t]).item()


def cases_of(short: str) -> dict[str, Case]:
    t, c = TYPES[short]
    pair = "bfloat162" if short == "bf16" else "half2"
    r = rounded(t)
    a, b = tuple(map(r, A)), tuple(map(r, B))
    p = tuple(map(r, POSITIVE))
    one_ulp = 2**-7 if short == "bf16" else 2**-10

    def binary(expression, oracle, result=t):
        return Case(expression, result, (t, t), (a, b), oracle)

    def unary(expression, oracle, inputs=p, rtol=one_ulp):
        return Case(expression, t, (t,), (inputs,), oracle, rtol)

    cases = {
        "add": binary("x + y", lambda x, y: x + y),
        "sub": binary("x - y", lambda x, y: x - y),
        "mul": binary("x * y", lambda x, y: x * y),
        "div": Case("x / y", t, (t, t), (a, b), lambda x, y: x / y, one_ulp),
        "negate": unary("-x", lambda x: -x, a, 0.0),
        "hadd": binary("__hadd(x, y)", lambda x, y: x + y),
        "hsub": binary("__hsub(x, y)", lambda x, y: x - y),
        "hmul": binary("__hmul(x, y)", lambda x, y: x * y),
        "hfma": Case("__hfma(x, y, x)", t, (t, t), (a, b), lambda x, y: x * y + x),
        "hmax": binary("__hmax(x, y)", max),
        "hmin": binary("__hmin(x, y)", min),
        "habs": unary("__habs(x)", abs, a, 0.0),
        "hneg": unary("__hneg(x)", lambda x: -x, a, 0.0),
        "less": binary("x < y", lambda x, y: x < y, "bool"),
        "equal": binary("x == y", lambda x, y: x == y, "bool"),
        "heq": binary("__heq(x, y)", lambda x, y: x == y, "bool"),
        "hgt": binary("__hgt(x, y)", lambda x, y: x > y, "bool"),
        "hle": binary("__hle(x, y)", lambda x, y: x <= y, "bool"),
        "hisnan": Case("__hisnan(x)", "bool", (t,), ((math.nan, math.inf, 1.0),), math.isnan),
        "hexp": unary("hexp(x)", math.exp, a),
        "hlog": Case("hlog(x)", t, (t,), (p,), math.log, one_ulp, atol=1e-3),
        "hsqrt": unary("hsqrt(x)", math.sqrt),
        "hrsqrt": unary("hrsqrt(x)", lambda x: 1 / math.sqrt(x)),
        "hrcp": unary("hrcp(x)", lambda x: 1 / x),
        "hfloor": unary("hfloor(x)", math.floor, a, 0.0),
        "htrunc": unary("htrunc(x)", math.trunc, a, 0.0),
        "from_int": Case(f"__int2{c}_rn(x)", t, ("int",), ((0, 3, -257, 1025),), lambda x: x),
        "to_int_rn": Case(f"__{c}2int_rn(x)", "int", (t,), (a,), round),
        "to_int_rz": Case(f"__{c}2int_rz(x)", "int", (t,), (a,), math.trunc),
        "explicit_from_float": Case(f"{t}(x)", t, ("float",), (A,), lambda x: x),
        "explicit_to_float": Case("float(x)", "float", (t,), (a,), lambda x: x),
        "as_ushort": Case(
            f"__{c}_as_ushort(x)",
            "unsigned short",
            (t,),
            (a,),
            lambda x: torch.tensor(x, dtype=DTYPES[t]).view(torch.int16).item(),
        ),
        "ushort_as": Case(f"__ushort_as_{c}(__{c}_as_ushort(x))", t, (t,), (a,), lambda x: x),
        "hadd2_low": binary(
            f"__low2{c}(__hadd2(__halves2{pair}(x, y), __halves2{pair}(y, y)))", lambda x, y: x + y
        ),
        "hmul2_high": binary(
            f"__high2{c}(__hmul2(__halves2{pair}(x, y), __halves2{pair}(x, x)))", lambda x, y: x * y
        ),
        "hfma2": binary(
            f"__hfma2(__halves2{pair}(x, x), __halves2{pair}(y, y), __halves2{pair}(x, x)).y",
            lambda x, y: x * y + x,
        ),
        "pair_of_floats": Case(
            f"__floats2{pair}_rn(x, 2 * x).y", t, ("float",), (A,), lambda x: 2 * x
        ),
        "pair_to_floats": Case(
            f"__{pair}2float2(__{c}2{pair}(x)).y"
            if short == "fp16"
            else "__bfloat1622float2(__bfloat162bfloat162(x)).y",
            "float",
            (t,),
            (a,),
            lambda x: x,
        ),
    }
    return {f"{short}_{name}": case for name, case in cases.items()}


CASES = cases_of("bf16") | cases_of("fp16")
ROUNDING = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <class T> __global__ void to_float(const T* x, float* out) {
  int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = float(x[i]);
}
template <class T> __global__ void from_float(const float* x, T* out) {
  int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = T(x[i]);
}
template <class T> __global__ void from_double(const double* x, T* out) {
  int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = T(x[i]);
}
"""
NAMES = [f"{k}<{t}>" for k in ("to_float", "from_float", "from_double") for t, _ in TYPES.values()]


@cache
def module() -> RawModule:
    return RawModule(text_of(CASES))


@cache
def rounding() -> RawModule:
    return RawModule(ROUNDING, name_expressions=NAMES)


@pytest.mark.parametrize("name", CASES)
def test_a_function_of_a_16_bit_type_equals_python_rounded_once(name, device):
    check(module(), CASES, name, device)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(((a == b) & (a.signbit() == b.signbit()) | a.isnan() & b.isnan()).all())


@pytest.mark.parametrize("short", TYPES)
def test_each_of_the_65536_values_becomes_its_float(short, device):
    t = TYPES[short][0]
    x = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(DTYPES[t]).to(device)
    out = torch.zeros(65536, device=device)
    rounding().get_function(f"to_float<{t}>")((256,), (256,), (x, out))
    assert same(out.cpu(), x.cpu().float())


def hard_floats(dtype: torch.dtype) -> torch.Tensor:
    """Around each value of the type: itself, the halfway point above it, and their neighbours in
    float."""
    values = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype).float()
    step = torch.tensor(1, dtype=torch.int32)
    above = (torch.arange(65536, dtype=torch.int32) + 1).to(torch.int16).view(dtype).float()
    halfway = (values.double() + above.double()).div(2).float()
    near = [halfway, (halfway.view(torch.int32) + step).view(torch.float32)]
    near.append((halfway.view(torch.int32) - step).view(torch.float32))
    return torch.cat([values, *near])


@pytest.mark.parametrize("short", TYPES)
def test_floats_round_to_the_nearest_and_ties_to_even(short, device):
    t = TYPES[short][0]
    x = hard_floats(DTYPES[t]).to(device)
    out = torch.zeros(x.shape, dtype=DTYPES[t], device=device)
    rounding().get_function(f"from_float<{t}>")((len(x) // 256,), (256,), (x, out))
    assert same(out.cpu(), x.cpu().to(DTYPES[t]))


@pytest.mark.parametrize("short", TYPES)
def test_doubles_are_rounded_once_not_by_way_of_float(short, device):
    t = TYPES[short][0]
    dtype = DTYPES[t]
    ulp = 2**-7 if short == "bf16" else 2**-10
    # Just above and just below a tie, by less than float can tell: the tie of 1 would go down, that
    # of 1 + ulp up.
    x = torch.tensor(
        [1 + ulp / 2 + 2**-40, 1 + ulp / 2 - 2**-40, 1 + 1.5 * ulp - 2**-40] * 256,
        dtype=torch.float64,
    )
    out = torch.zeros(x.shape, dtype=dtype, device=device)
    rounding().get_function(f"from_double<{t}>")((3,), (256,), (x.to(device), out))
    assert out.cpu()[:3].tolist() == [1 + ulp, 1.0, 1 + ulp]
