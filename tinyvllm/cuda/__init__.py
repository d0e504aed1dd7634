"""CUDA C++ that runs anywhere: one text, through CuPy on an NVIDIA GPU, emulated on any CPU.

    from tinyvllm.cuda import RawModule, load

    module = RawModule(code=text)                                  # or path="my.cu"
    kernel = module.get_function("rms_norm")                       # "scale<float>" for a template
    kernel((rows,), (256,), (out, x, weight, hidden_size, 1e-6), shared_mem=0)
    load("rms_norm.cu", "rms_norm", scalar_t="bf16")               # a file of tinyvllm/kernels

The arguments decide the side. CUDA arrays: NVRTC compiles, the launch goes to torch's current
stream. CPU arrays: the system's C++ compiler compiles, and every CUDA thread is executed, to the
end. A wrong argument is a TypeError or ValueError that names the parameter, a wrong text a
CompileError with the text's own lines, and a kernel that goes wrong on the CPU (wild access,
deadlock, divergent barrier, endless loop) a KernelError with block, thread and line.

The language, the same on both sides
------------------------------------

C++17 without the C++ library. Headers: cuda_bf16.h, cuda_fp16.h, device.cuh (and your own .cuh
beside the file).

- Qualifiers: __global__, __device__, __constant__ and __device__ variables with constant initial
  values, __shared__ (no constructors, no initial values), `extern __shared__ T name[];` inside the
  kernel, __launch_bounds__, __forceinline__, __noinline__, __align__, __restrict__, templates,
  lambdas, recursion.
- Variables: threadIdx, blockIdx, blockDim, gridDim, warpSize. uint8_t ... int64_t, INFINITY, NAN,
  FLT_MAX, INT_MAX, M_PI.
- Barriers: __syncthreads, __syncthreads_count/_and/_or, __syncwarp, __threadfence,
  __threadfence_block, __nanosleep.
- Warps: __shfl_sync, __shfl_up_sync, __shfl_down_sync, __shfl_xor_sync (2, 4, 8 bytes), __any_sync,
  __all_sync, __ballot_sync, __match_any_sync, __match_all_sync; from sm_80 on
  __reduce_{add,min,max,and,or,xor}_sync.
- Atomics on int, unsigned, unsigned long long: atomicAdd (also float, double, __half, __half2,
  __nv_bfloat16, __nv_bfloat162), Sub, Min, Max, And, Or, Xor, Exch, CAS, Inc, Dec.
- Vector types char2 ... double4 with make_*; __ldg, __ldca, __ldcg, __ldcs, __ldcv, __ldlu, __stwb,
  __stcg, __stcs, __stwt.
- __half, __half2, __nv_bfloat16, __nv_bfloat162: conversions, operators, __hadd, __hfma, __hmax
  ..., hexp, hsqrt ...
- Bits: __popc, __clz, __ffs, __brev (and ...ll), __mulhi, __umulhi, __umul64hi, __funnelshift_l/_r,
  __byte_perm, __dp4a, __sad, __usad, __float_as_int and its kin, __float2int_rn/_rz/_rd/_ru and its
  kin.
- Math: C's functions for float and double (expf, exp, sqrtf, rsqrtf, fmaf, fminf, tanhf, erff, powf
  ...), min, max, abs, isnan, isinf, isfinite; __expf, __exp10f, __logf, __log2f, __log10f, __powf,
  __sinf, __cosf, __tanf, __sincosf, __fdividef, __saturatef, __fadd_rn ... __frsqrt_rn.
- printf, assert, __trap. device.cuh: mma_m16n8k16, load_matrix_x4, copy_async, load_streaming and
  store_streaming.

Outside, and refused in words: inline PTX, wmma, cooperative groups, clusters, textures,
__activemask, new and malloc, launches with <<<>>>, the C++ library. clock64 is the GPU's alone.

Where the sides differ, by nature: the order of blocks and of atomic additions; the last bits of
sums (a GPU fuses multiply and add, the emulator doesn't) and of the __fast functions (the
emulator's are exact). In the emulator shared memory holds NaN before it is written, a shuffle from
a lane that isn't there gives NaN, and a block that waits for another block may wait for ever (there
is a time limit). The emulator says nothing about speed.

Environment: CXX (compiler), TINYVLLM_CACHE (where objects are kept), TINYVLLM_EMULATOR_WORKERS (OS
threads), TINYVLLM_EMULATOR_LIMIT (seconds in which at least one block must end, 60).
"""

from .arguments import Parameter
from .errors import CompileError, CompilerNotFound, KernelError
from .module import Kernel, RawModule, load

__all__ = [
    "CompileError",
    "CompilerNotFound",
    "Kernel",
    "KernelError",
    "Parameter",
    "RawModule",
    "load",
]


def load_ipython_extension(shell: object) -> None:
    """What `%load_ext tinyvllm.cuda` calls: the cell magic `%%cuda` (notebook.py)."""
    from .notebook import load

    load(shell)
