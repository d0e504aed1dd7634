"""Reading a `.cu` as text: kernels, parameter names, what is a comment."""

import pytest

from tinyvllm.cuda.source import Source, blank


def parameters(code: str, name: str = "f") -> tuple[str, ...]:
    return Source(code, "a.cu").kernels[name].parameters


@pytest.mark.parametrize(
    "signature, names",
    [
        ("float* x, int n", ("x", "n")),
        ("const float *__restrict__ x, float const* y", ("x", "y")),
        ("", ()),
        ("void", ()),
        ("unsigned long long n, const int (*table)[4]", ("n", "arg1")),
        ("Pair<int, float> p, int n", ("p", "n")),
        ("float x[], int shape[3]", ("x", "shape")),
        ("float* /* the output */ out,  // [n]\n  int n /* , int m */", ("out", "n")),
        ("int, float* y", ("arg0", "y")),
        ("const __grid_constant__ Big b", ("b",)),
    ],
)
def test_parameter_names(signature, names):
    assert parameters(f"__global__ void f({signature}) {{}}") == names


@pytest.mark.parametrize(
    "head",
    [
        "__global__ void f(int n)",
        'extern "C" __global__ void f(int n)',
        "static __global__ void __launch_bounds__(128, 2) f(int n)",
        "__launch_bounds__(128)\n__global__\nvoid\nf(int n)",
        "template <class T, int N = (1 > 0)> __global__ void f(int n)",
        "void __global__ f(int n)",
    ],
)
def test_a_kernel_is_found_however_it_is_written(head):
    kernel = Source(head + " {}", "a.cu").kernels["f"]
    assert kernel.parameters == ("n",) and kernel.is_template == head.startswith("template")


def test_kernels_in_comments_strings_and_macros_are_none():
    code = (
        "// __global__ void a(int n)\n/* __global__ void b() */\n"
        'const char* s = "__global__ void c()";\n'
        "#define K(x) __global__ \\\n  void x(int n)\n__global__ void d();"
    )
    assert list(Source(code, "a.cu").kernels) == ["d"]


def test_a_kernel_of_a_namespace_has_to_be_asked_for():
    kernels = Source("namespace n { __global__ void f(); }\n__global__ void g();", "a.cu").kernels
    assert not kernels["f"].at_top and kernels["g"].at_top


def test_blanking_keeps_every_position_and_newline():
    code = 'a /* b\nc */ d // e\n"f\\"/*" 1\'000 \'"\' g'
    blanked = blank(code)
    assert len(blanked) == len(code) and blanked.count("\n") == code.count("\n")
    assert blanked.split() == ["a", "d", '"', '"', "1'000", "g"]


def test_dynamic_shared_memory_becomes_a_pointer_in_its_own_line():
    code = (
        "__global__ void f() {\n  extern __shared__ __align__(16) float s[];\n"
        "  extern __shared__ volatile int t[];\n}"
    )
    text = Source(code, "a.cu").for_host()
    assert "float* s = emu::dynamic_shared<float>();" in text.split("\n")[1]
    assert "volatile int* t = emu::dynamic_shared<int>();" in text.split("\n")[2]
