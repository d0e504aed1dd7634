"""Float functions against Python's math in double precision (CUDA Math API, "Single Precision
...").

In the emulator the fast versions (__expf ...) are as exact as the others; the GPU's tolerances are
its own documented error bounds, rounded up.
"""

import math
import struct
from functools import cache

import pytest
from elementwise import Case, check, text_of

from tinyvllm.cuda import RawModule

ULP = 2**-23
POSITIVE = (1e-3, 0.5, 1.0, 2.0, 3.7, 10.0, 123.456, 7.5)
ANY = (-3.5, -1.0, -0.25, 0.0, 0.3, 1.0, 2.5, 4.0)
UNIT = (-0.9, -0.5, -0.1, 0.0, 0.1, 0.5, 0.9, 1.0)
HALVES = (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3e9, -3e9)
NAN, INF = math.nan, math.inf


def one(expression, inputs, oracle, rtol=4 * ULP, gpu_rtol=None, atol=0.0):
    return Case(expression, "float", ("float",), (inputs,), oracle, rtol, gpu_rtol, atol)


def two(expression, xs, ys, oracle, rtol=4 * ULP, gpu_rtol=None):
    return Case(expression, "float", ("float", "float"), (xs, ys), oracle, rtol, gpu_rtol)


def half_even(x: float) -> int:
    return round(x)


def saturating(x: float, low: int, high: int, rounding) -> int:
    return 0 if math.isnan(x) else max(low, min(high, rounding(x) if math.isfinite(x) else x))


def bits(x: float) -> int:
    return struct.unpack("<i", struct.pack("<f", x))[0]


EXTREME = (*HALVES[:6], NAN, INF, -INF, 3e9, -3e9, 7.9)
I32 = (-(2**31), 2**31 - 1)
U32 = (0, 2**32 - 1)
CASES = {
    "expf": one("expf(x)", ANY, math.exp),
    "exp_overload": one("exp(x)", ANY, math.exp),
    "exp2f": one("exp2f(x)", ANY, lambda x: 2.0**x),
    "exp10f": one("exp10f(x)", ANY, lambda x: 10.0**x, 16 * ULP),
    "expm1f": one("expm1f(x)", ANY, math.expm1),
    "logf": one("logf(x)", POSITIVE, math.log, atol=1e-7),
    "log2f": one("log2f(x)", POSITIVE, math.log2, atol=1e-7),
    "log10f": one("log10f(x)", POSITIVE, math.log10, atol=1e-7),
    "log1pf": one("log1pf(x)", POSITIVE, math.log1p),
    "sqrtf": one("sqrtf(x)", POSITIVE, math.sqrt, ULP),
    "rsqrtf": one("rsqrtf(x)", POSITIVE, lambda x: 1 / math.sqrt(x)),
    "cbrtf": one("cbrtf(x)", POSITIVE, lambda x: x ** (1 / 3)),
    "sinf": one("sinf(x)", ANY, math.sin, atol=1e-7),
    "cosf": one("cosf(x)", ANY, math.cos, atol=1e-7),
    "tanf": one("tanf(x)", ANY, math.tan, 8 * ULP),
    "tanhf": one("tanhf(x)", ANY, math.tanh),
    "asinf": one("asinf(x)", UNIT, math.asin),
    "acosf": one("acosf(x)", UNIT, math.acos, 8 * ULP, atol=1e-7),
    "atanf": one("atanf(x)", ANY, math.atan),
    "erff": one("erff(x)", ANY, math.erf),
    "powf": two("powf(x, y)", POSITIVE, ANY, lambda x, y: x**y, 16 * ULP),
    "fmodf": two("fmodf(x, y)", ANY, POSITIVE, math.fmod, 0.0),
    "atan2f": two("atan2f(x, y)", ANY, POSITIVE, math.atan2),
    "hypotf": two("hypotf(x, y)", ANY, POSITIVE, math.hypot),
    "copysignf": two("copysignf(x, y)", POSITIVE, ANY, math.copysign, 0.0),
    "fmaxf_nan": two(
        "fmaxf(x, y)",
        (NAN, 1.0, 2.0),
        (5.0, NAN, 3.0),
        lambda x, y: max(v for v in (x, y) if v == v),
        0.0,
    ),
    "fminf_nan": two(
        "fminf(x, y)",
        (NAN, 1.0, 2.0),
        (5.0, NAN, 3.0),
        lambda x, y: min(v for v in (x, y) if v == v),
        0.0,
    ),
    "max_float": two("max(x, y)", ANY, UNIT, max, 0.0),
    "min_float": two("min(x, y)", ANY, UNIT, min, 0.0),
    "fabsf": one("fabsf(x)", ANY, abs, 0.0),
    "abs_float": one("abs(x)", ANY, abs, 0.0),
    "floorf": one("floorf(x)", HALVES, math.floor, 0.0),
    "ceilf": one("ceilf(x)", HALVES, math.ceil, 0.0),
    "truncf": one("truncf(x)", HALVES, math.trunc, 0.0),
    "rintf": one("rintf(x)", HALVES, half_even, 0.0),
    "roundf": one("roundf(x)", HALVES, lambda x: math.copysign(math.floor(abs(x) + 0.5), x), 0.0),
    # One rounding: 1 + 2^-23 squared minus 1 keeps its last bit.
    "fmaf": Case(
        "fmaf(x, y, z)",
        "float",
        ("float",) * 3,
        ((1 + ULP, 3.0), (1 + ULP, 2.0), (-1.0, 1.0)),
        lambda x, y, z: x * y + z,
    ),
    "isnan": Case("isnan(x)", "bool", ("float",), ((NAN, INF, 1.0),), math.isnan),
    "isinf": Case("isinf(x)", "bool", ("float",), ((NAN, INF, -INF, 1.0),), math.isinf),
    "isfinite": Case("isfinite(x)", "bool", ("float",), ((NAN, INF, -INF, 1.0),), math.isfinite),
    "infinity": one("x * INFINITY", (1.0, -1.0), lambda x: x * INF),
    "flt_max": one("x * FLT_MAX", (1.0, -1.0), lambda x: x * 3.4028234663852886e38, 0.0),
    "fast_exp": one("__expf(x)", ANY, math.exp, gpu_rtol=1e-5),
    "fast_exp10": one("__exp10f(x)", ANY, lambda x: 10.0**x, 16 * ULP, 1e-5),
    "fast_log": one("__logf(x)", POSITIVE, math.log, gpu_rtol=1e-5, atol=1e-6),
    "fast_log2": one("__log2f(x)", POSITIVE, math.log2, gpu_rtol=1e-5, atol=1e-6),
    "fast_log10": one("__log10f(x)", POSITIVE, math.log10, gpu_rtol=1e-5, atol=1e-6),
    "fast_pow": two("__powf(x, y)", POSITIVE, ANY, lambda x, y: x**y, 16 * ULP, 1e-4),
    "fast_sin": one("__sinf(x)", UNIT, math.sin, gpu_rtol=1e-5, atol=1e-6),
    "fast_cos": one("__cosf(x)", UNIT, math.cos, gpu_rtol=1e-5, atol=1e-6),
    "fast_tan": one("__tanf(x)", UNIT, math.tan, gpu_rtol=1e-5, atol=1e-6),
    "fast_divide": two("__fdividef(x, y)", ANY, POSITIVE, lambda x, y: x / y),
    "saturate": one(
        "__saturatef(x)", (-1.0, 0.0, 0.25, 1.0, 7.0), lambda x: min(1.0, max(0.0, x)), 0.0
    ),
    "add_rn": two("__fadd_rn(x, y)", ANY, POSITIVE, lambda x, y: x + y, ULP),
    "mul_rn": two("__fmul_rn(x, y)", ANY, POSITIVE, lambda x, y: x * y, ULP),
    "div_rn": two("__fdiv_rn(x, y)", ANY, POSITIVE, lambda x, y: x / y, ULP),
    "rcp_rn": one("__frcp_rn(x)", POSITIVE, lambda x: 1 / x, ULP),
    "sqrt_rn": one("__fsqrt_rn(x)", POSITIVE, math.sqrt, ULP),
    "rsqrt_rn": one("__frsqrt_rn(x)", POSITIVE, lambda x: 1 / math.sqrt(x), ULP),
    "float2int_rn": Case(
        "__float2int_rn(x)", "int", ("float",), (EXTREME,), lambda x: saturating(x, *I32, half_even)
    ),
    "float2int_rz": Case(
        "__float2int_rz(x)",
        "int",
        ("float",),
        (EXTREME,),
        lambda x: saturating(x, *I32, math.trunc),
    ),
    "float2int_rd": Case(
        "__float2int_rd(x)",
        "int",
        ("float",),
        (EXTREME,),
        lambda x: saturating(x, *I32, math.floor),
    ),
    "float2int_ru": Case(
        "__float2int_ru(x)", "int", ("float",), (EXTREME,), lambda x: saturating(x, *I32, math.ceil)
    ),
    "float2uint_rn": Case(
        "__float2uint_rn(x)",
        "unsigned",
        ("float",),
        (EXTREME,),
        lambda x: saturating(x, *U32, half_even),
    ),
    "float2uint_rz": Case(
        "__float2uint_rz(x)",
        "unsigned",
        ("float",),
        (EXTREME,),
        lambda x: saturating(x, *U32, math.trunc),
    ),
    "int2float_rn": Case(
        "__int2float_rn(x)", "float", ("int",), ((1, -7, 2**24 + 1, 2**31 - 1),), float
    ),
    "float_as_int": Case("__float_as_int(x)", "int", ("float",), (ANY,), bits),
    "int_as_float": Case(
        "__int_as_float(__float_as_int(x))", "float", ("float",), (ANY,), lambda x: x
    ),
    "uint_as_float": Case(
        "__uint_as_float(__float_as_uint(x))", "float", ("float",), (ANY,), lambda x: x
    ),
    "double_bits": Case(
        "__longlong_as_double(__double_as_longlong(x))", "double", ("double",), (ANY,), lambda x: x
    ),
    "rsqrt_double": Case(
        "rsqrt(x)", "double", ("double",), (POSITIVE,), lambda x: 1 / math.sqrt(x), 1e-15
    ),
}


@cache
def module() -> RawModule:
    return RawModule(text_of(CASES))


@pytest.mark.parametrize("name", CASES)
def test_a_function_equals_python_in_double_precision(name, device):
    check(module(), CASES, name, device)
