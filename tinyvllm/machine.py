"""What this machine has: GPUs, CuPy, a compiler; and whether they work, by trying them.

Nothing here needs torch or CuPy, and nothing is judged: that is for `tinyvllm.doctor`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

HELLO_CPP = """\
#include <cstdio>
#include <thread>
int main() {
  int answer = 0;
  std::thread worker([&] { answer = 42; });
  worker.join();
  std::printf("%d\\n", answer);
}
"""

# With a header, since a CuPy that can't find CUDA's headers is the usual trouble.
KERNEL = r"""
#include <cuda_bf16.h>
extern "C" __global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * __bfloat162float(__float2bfloat16(x[i]));
}
"""


def nvidia_gpus() -> list[str]:
    """The names of this machine's NVIDIA GPUs, as its driver says, whatever torch can use."""
    try:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def torch_cuda_version() -> str | None:
    """The CUDA version that torch is built for, such as "13.0"; None: for the CPU, or no torch."""
    try:
        import torch
    except ImportError:
        return None
    return torch.version.cuda


def cupy_builds() -> dict[str, tuple[str, str]]:
    """Every CuPy that is installed: name -> (version, CUDA major version or "")."""
    builds = {}
    for distribution in metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower()
        if name == "cupy" or name.startswith("cupy-cuda"):
            major = name.removeprefix("cupy-cuda").removesuffix("x") if "cuda" in name else ""
            builds[name] = (distribution.version, major[:2])
    return builds


def compiler_command() -> list[str] | None:
    """The first C++ compiler of $CXX, c++, g++, clang++ and the package ziglang; None if none."""
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and shutil.which(name):
            return [name]
    return [sys.executable, "-m", "ziglang", "c++"] if find_spec("ziglang") else None


def try_compiler(command: list[str]) -> str:
    """Compile and run a small program with `command`; what went wrong, or "" if nothing did."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "hello.cpp"), Path(folder, "hello")
        source.write_text(HELLO_CPP)
        compile_it = [*command, "-std=c++17", "-pthread", "-o", str(program), str(source)]
        for what, step in (("compiling", compile_it), ("running", [str(program)])):
            try:
                done = subprocess.run(step, capture_output=True, text=True, timeout=600)
            except (OSError, subprocess.TimeoutExpired) as error:
                return f"{what} failed: {error}"
            if done.returncode:
                why = first_line(done.stderr) or f"exit status {done.returncode}"
                return f"{what} failed: {why}"
    return "" if done.stdout == "42\n" else f"the program printed {done.stdout!r} instead of 42"


def run_kernel_on_gpu() -> str:
    """Compile a kernel with CuPy and run it; raises what CuPy raises, and on wrong results."""
    import cupy

    n = 250  # integers below 256 are exact in bfloat16
    x = cupy.arange(n, dtype=cupy.float32)
    y = cupy.full(n, cupy.nan, dtype=cupy.float32)
    kernel = cupy.RawKernel(KERNEL, "twice", options=("-std=c++17",))
    kernel((2,), (128,), (x, y, cupy.int32(n)))
    if not bool((y == 2 * x).all()):
        raise RuntimeError("a kernel ran on the GPU, but its results are wrong")
    device = cupy.cuda.Device()
    return f"compiled for compute capability {device.compute_capability} and run on the GPU"


def compile_kernel_without_gpu() -> str:
    """Compile it with NVRTC alone, which needs no GPU; raises ImportError where there is none."""
    from cuda.bindings import nvrtc

    def call(function, *arguments):
        status, *result = function(*arguments)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(status.name)
        return result[0] if len(result) == 1 else result

    major, minor = call(nvrtc.nvrtcVersion)
    options = ["-std=c++17", "--gpu-architecture=sm_80", f"-I{_cuda_headers(major)}"]
    program = call(nvrtc.nvrtcCreateProgram, KERNEL.encode(), b"twice.cu", 0, [], [])
    call(nvrtc.nvrtcCompileProgram, program, len(options), [o.encode() for o in options])
    return f"compiled by NVRTC {major}.{minor} ({call(nvrtc.nvrtcGetCUBINSize, program)} bytes)"


def _cuda_headers(major: int) -> Path:
    """Where an nvidia-* package put the headers of CUDA 12 or 13."""
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        include = Path(folder) / ("cuda_runtime" if major == 12 else f"cu{major}") / "include"
        if (include / "cuda_bf16.h").is_file():
            return include
    raise FileNotFoundError(f"cuda_bf16.h of CUDA {major}: pip install nvidia-cuda-runtime")


def first_line(text: object) -> str:
    return next((line.strip() for line in str(text).splitlines() if line.strip()), "")
