"""A faulty kernel ends in a KernelError with the block, the thread and the line: never a hang,
never a crash."""

import ctypes
import mmap
import subprocess
import sys
import threading
from functools import cache

import numpy as np
import pytest
import torch

from tinyvllm.cuda import KernelError, RawModule

TEXT = """
__global__ void divergent(int* x) {
  if (threadIdx.x < 5)
    __syncthreads();  // line A
  else
    __syncthreads();  // line B
}
__global__ void never_comes(int* x) {
  if (threadIdx.x < 40) __syncthreads();  // line C
  else __syncwarp();                      // line D
}
__global__ void bad_mask(int* x) {
  x[threadIdx.x] = __shfl_sync(0x0000FFFF, 1, 0);  // line E
}
__global__ void two_functions(int* x) {
  if (threadIdx.x % 2) x[0] = __ballot_sync(0xFFFFFFFF, 1);  // line F
  else x[1] = __shfl_sync(0xFFFFFFFF, 1, 0);                 // line G
}
__global__ void bad_width(int* x) { x[0] = __shfl_sync(0xFFFFFFFF, 1, 0, 5); }  // line H
__global__ void far_away(float* x, int i) { x[i] = 1; }  // line I
__global__ void null_pointer(float* x) { x[threadIdx.x] = 1; }  // line J
__global__ void small_shared(float* x) {
  extern __shared__ float s[];
  s[threadIdx.x] = x[threadIdx.x];  // line K
  x[threadIdx.x] = s[threadIdx.x];
}
__device__ int fall(volatile int* x, int depth) {
  volatile int frame[64];
  frame[depth % 64] = x[0];
  return depth > 100000000 ? 0 : fall(x, depth + 1) + frame[1];  // line L
}
__global__ void overflow(int* x) { x[0] = fall(x, 0); }
__global__ void divide(int* x, int by) { x[0] = x[1] / by; }  // line M
__global__ void endless(volatile int* x) {
  while (x[0] == 0) {  // line N
  }
}
__global__ void waits_for_next_block(int* flags) {
  while (blockIdx.x + 1 < gridDim.x && atomicAdd(&flags[blockIdx.x + 1], 0) == 0) {  // line O
  }
  atomicExch(&flags[blockIdx.x], 1);
}
__global__ void trap() { __trap(); }  // line P
__global__ void fine(int* x) { x[threadIdx.x] = threadIdx.x; }
__global__ void second_block(float* x, int i) {
  if (blockIdx.y == 1 && threadIdx.y == 2) x[i] = 1;  // line Q
}
"""


def line_of(mark: str) -> int:
    return next(i for i, line in enumerate(TEXT.split("\n"), 1) if line.endswith(f"// line {mark}"))


@cache
def module() -> RawModule:
    return RawModule(TEXT, filename="faulty.cu")


def fault(name: str, *args, block=64, grid=1, **kwargs) -> KernelError:
    with pytest.raises(KernelError) as caught:
        module().get_function(name)(grid, block, args, **kwargs)
    assert caught.value.kernel == name and str(caught.value).startswith(f"{name}: block (")
    return caught.value


@pytest.fixture
def ints():
    return torch.zeros(64, dtype=torch.int32)


@pytest.fixture
def floats():
    return torch.zeros(64)


@pytest.fixture
def fenced():
    """64 floats; element 10,000,000 lies on a page that can't be touched."""
    memory = mmap.mmap(-1, 48_000_000)
    numbers = np.frombuffer(memory, dtype=np.float32)
    page = (numbers.ctypes.data + 40_000_000) // mmap.PAGESIZE * mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    yield numbers[:64]
    libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), 3)


def test_barriers_on_two_lines_are_divergent(ints):
    error = fault("divergent", ints)
    assert error.kind == "barrier"
    assert f"on line {line_of('A')}" in str(error) and f"on line {line_of('B')}" in str(error)


def test_a_deadlock_names_who_waits_where_and_for_whom(ints):
    error = fault("never_comes", ints)
    assert error.kind == "deadlock"
    assert f"threads 0-39 wait in __syncthreads (line {line_of('C')})" in str(error)
    assert f"threads 40-63 wait in __syncwarp (line {line_of('D')}) with mask 0xffffffff" in str(
        error
    )
    assert "lanes 0x000000ff of its warp never came" in str(error)


def test_a_mask_must_name_the_calling_lane(ints):
    error = fault("bad_mask", ints)
    assert (error.kind, error.line, error.thread) == ("warp", line_of("E"), (16, 0, 0))
    assert "the mask 0x0000ffff does not name the calling lane, 16" in str(error)


def test_lanes_of_one_mask_must_be_in_one_function(ints):
    error = fault("two_functions", ints)
    assert error.kind == "warp" and error.line in (line_of("F"), line_of("G"))
    assert "__ballot_sync" in str(error) and "__shfl_sync" in str(error)


def test_a_width_must_be_a_power_of_two(ints):
    error = fault("bad_width", ints)
    assert error.line == line_of("H") and "width is 5" in str(error)


def test_a_wild_index_is_an_error_with_the_arrays_name_and_element(fenced):
    error = fault("far_away", fenced, 10_000_000)
    assert (error.kind, error.line) == ("memory", line_of("I"))
    assert (error.array, error.index) == ("x", 10_000_000)
    assert "element 10000000 of 64" in str(error) and f"(faulty.cu:{line_of('I')})" in str(error)


def test_the_faulty_block_and_thread_are_named(fenced):
    error = fault("second_block", fenced, 10_000_000, grid=(1, 3), block=(4, 4))
    assert error.block == (0, 1, 0) and error.thread[1] == 2 and error.line == line_of("Q")


def test_a_null_pointer_is_an_error():
    error = fault("null_pointer", None)
    assert (error.kind, error.line) == ("memory", line_of("J")) and "null pointer" in str(error)


@pytest.mark.parametrize("given", [0, 128])
def test_too_little_dynamic_shared_memory_is_an_error(floats, given):
    error = fault("small_shared", floats, shared_mem=given)
    assert error.line == line_of("K") and error.thread == (given // 4, 0, 0)
    assert f"byte {given} of dynamic shared memory, which has {given}" in str(error)


def test_endless_recursion_is_an_error(ints):
    error = fault("overflow", ints, block=1)
    assert error.kind == "stack" and "endless recursion" in str(error)


@pytest.mark.skipif(
    "__import__('platform').machine() not in ('x86_64', 'AMD64')", reason="only x86 CPUs trap"
)
def test_dividing_by_zero_is_an_error(ints):
    error = fault("divide", ints, 0, block=1)
    assert (error.kind, error.line) == ("arithmetic", line_of("M"))


def test_an_endless_loop_ends_with_a_message(ints, monkeypatch):
    monkeypatch.setenv("TINYVLLM_EMULATOR_LIMIT", "0.3")
    error = fault("endless", ints)
    assert (error.kind, error.line) == ("interrupted", line_of("N"))
    assert "not one block ended within 0.3 seconds" in str(error)


def test_a_block_that_waits_for_a_later_one_ends_with_a_message(ints, monkeypatch):
    monkeypatch.setenv("TINYVLLM_EMULATOR_LIMIT", "0.3")
    monkeypatch.setenv("TINYVLLM_EMULATOR_WORKERS", "1")
    error = fault("waits_for_next_block", ints, grid=4, block=1)
    assert error.kind == "interrupted" and error.line == line_of("O")


def test_a_trap_is_an_error():
    assert fault("trap").kind == "trap"


def test_after_a_fault_the_next_launch_works(ints, fenced):
    fault("far_away", fenced, 10_000_000)
    module().get_function("fine")(1, 64, (ints,))
    assert ints.tolist() == list(range(64))


def test_launches_from_several_threads_do_not_disturb_each_other():
    kernel, wrong = module().get_function("fine"), []

    def work() -> None:
        for _ in range(10):
            x = torch.zeros(64, dtype=torch.int32)
            kernel(1, 64, (x,))
            if x.tolist() != list(range(64)):
                wrong.append(x)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def run_python(text: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300)


def test_a_crash_of_pythons_own_is_still_pythons(tmp_path):
    # The handlers are there during a launch only: afterwards faulthandler has its signal again.
    done = run_python(
        "import faulthandler; faulthandler.enable()\n"
        "from tinyvllm.cuda import RawModule, KernelError\n"
        "m = RawModule('__global__ void f(float* x) { x[0] = 1; }')\n"
        "try: m.get_function('f')(1, 1, (None,))\n"
        "except KernelError: print('caught', flush=True)\n"
        "import ctypes; ctypes.string_at(8)\n"
    )
    assert (
        "caught" in done.stdout and "Segmentation fault" in done.stderr and done.returncode == -11
    )


def test_ctrl_c_stops_a_kernel():
    done = run_python(
        "import signal, threading, os, torch\n"
        "from tinyvllm.cuda import RawModule\n"
        "m = RawModule('__global__ void f(volatile int* x) { x[1] = 1; while (x[0] == 0) {} }')\n"
        "x = torch.zeros(2, dtype=torch.int32)\n"
        "def interrupt():\n"
        "    while x[1] == 0: pass\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt).start()\n"
        "try: m.get_function('f')(1, 1, (x,))\n"
        "except KeyboardInterrupt: print('stopped')\n"
    )
    assert done.stdout == "stopped\n", done.stderr


def test_a_forked_process_can_launch():
    done = run_python(
        "import os, torch\n"
        "from tinyvllm.cuda import RawModule\n"
        "k = RawModule('__global__ void f(int* x) { __syncthreads(); x[threadIdx.x] = 5; "
        "}').get_function('f')\n"
        "x = torch.zeros(64, dtype=torch.int32)\n"
        "k(1, 64, (x,))\n"
        "x.zero_()\n"
        "child = os.fork()\n"
        "k(1, 64, (x,))\n"
        "assert x.tolist() == [5] * 64\n"
        "if child: print(os.waitpid(child, 0)[1])\n"
        "else: os._exit(0)\n"
    )
    assert done.stdout == "0\n", done.stderr
