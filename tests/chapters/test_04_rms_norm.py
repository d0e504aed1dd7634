"""The checks of chapter 04, RMSNorm: reductions, warps, shared memory.

The oracle is torch in float64. A kernel runs in check mode, which judges every access (bounds,
races, barriers), and its profile is held to what the text asks for. The package is imported inside
the checks: there it is the student's code.
"""

import torch

from tinyvllm.course import expect

EPS = 1e-5
NAMES = {torch.bfloat16: "bf16", torch.float16: "half", torch.float32: "float"}


# -- helpers -------------------------------------------------------------------------------------


def rows(num_tokens: int, hidden_size: int, dtype=torch.float32, seed: int = 0):
    """x [num_tokens, hidden_size] with rows of different sizes, and weight [hidden_size]."""
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(num_tokens, hidden_size, generator=rng)
    x *= torch.logspace(-1, 1, num_tokens)[:, None] if num_tokens > 1 else 1
    weight = 1 + 0.3 * torch.randn(hidden_size, generator=rng)
    return x.to(dtype), weight.to(dtype)


def oracle(x: torch.Tensor, weight: torch.Tensor, eps: float = EPS) -> torch.Tensor:
    """RMSNorm in float64, rounded where the reference rounds."""
    wide = x.double()
    normed = wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()
    return (normed.to(x.dtype).double() * weight.double()).to(x.dtype)


def in_one_check(kernel, grid, threads, args) -> None:
    """Run in check mode; a fault becomes the words that the student reads."""
    from tinyvllm.cuda import KernelError

    try:
        kernel.check(grid, (threads,), args)
    except KernelError as error:
        raise AssertionError(f"{kernel.name}, checked with {threads} threads:\n  {error}") from None


def expect_norm(kernel, x, weight, threads: int, hint: str, eps: float = EPS) -> None:
    """Demand that the kernel (a block a row) computes RMSNorm, without a fault."""
    num_tokens, hidden_size = x.shape
    out = torch.full_like(x, torch.nan)
    in_one_check(kernel, (num_tokens,), threads, (out, x.clone(), weight, hidden_size, eps))
    what = f"{kernel.name} of x {list(x.shape)} {NAMES[x.dtype]} with {threads} threads"
    expect.close(out, oracle(x, weight, eps), what, hint=hint)


def profiled(kernel, x, weight, threads: int):
    """The kernel's report on RMSNorm of x, a block a row; first in check mode, which a wild access
    doesn't survive."""
    num_tokens, hidden_size = x.shape
    args = (torch.empty_like(x), x, weight, hidden_size, EPS)
    in_one_check(kernel, (num_tokens,), threads, args)
    return kernel.profile((num_tokens,), (threads,), args)


def expect_at_most(count: int, limit: int, what: str, hint: str) -> None:
    if count > limit:
        raise AssertionError(f"{what}:\n  got {count}, expected at most {limit}\n  hint: {hint}")


# -- 4.1 the reference ---------------------------------------------------------------------------


def reference(x, weight, eps):
    from tinyvllm.ops.rms_norm import rms_norm_reference

    return rms_norm_reference(x, weight, eps)


def test_4_1_by_hand():
    expect.close(
        reference(torch.tensor([[3.0, 4.0, 0.0, 0.0]]), torch.ones(4), 0.0),
        torch.tensor([[1.2, 1.6, 0.0, 0.0]]),
        "rms_norm_reference of (3, 4, 0, 0) with weights 1",
        hint="squares 9 and 16, mean 25 / 4, root 2.5: the mean of all squares, not the sum, and"
        " nothing is subtracted",
    )


def test_4_1_eps_stands_under_the_root():
    for row in ([0.3, 0.4], [0.0, 0.0]):
        x = torch.tensor([row])
        expect.close(
            reference(x, torch.ones(2), 0.01),
            oracle(x, torch.ones(2), 0.01),
            f"rms_norm_reference of {row} with eps 0.01",
            hint="eps is added to the mean of the squares, before the root; it keeps a row of zeros"
            " at zero",
        )


def test_4_1_each_row_by_itself_and_each_column_its_weight():
    x, weight = rows(3, 10)
    expect.close(
        reference(x, weight, EPS),
        oracle(x, weight),
        "rms_norm_reference of x [3, 10]",
        hint="the mean goes over the last dimension (keepdim=True), the weight has one number for"
        " each element of a row",
    )


def test_4_1_any_leading_dimensions():
    x, weight = rows(6, 8)
    expect.close(
        reference(x.view(2, 3, 8), weight, EPS),
        oracle(x, weight).view(2, 3, 8),
        "rms_norm_reference of x [2, 3, 8]",
        hint="over the last dimension, dim=-1, however many there are before it",
    )


def test_4_1_the_sum_is_float32():
    x = torch.ones(1, 4096, dtype=torch.bfloat16)
    expect.equal(
        reference(x, torch.ones(4096, dtype=torch.bfloat16), 0.0),
        x,
        "rms_norm_reference of 4,096 ones in bfloat16",
        "x.float() first: squares and their mean belong in float32, and the result in x's dtype",
    )
    big = torch.full((1, 8), 300.0, dtype=torch.float16)
    expect.equal(
        reference(big, torch.ones(8, dtype=torch.float16), 0.0),
        torch.ones(1, 8, dtype=torch.float16),
        "rms_norm_reference of 300 in float16",
        "the square of 300 is beyond float16's largest number: x.float() first, then the square",
    )


def test_4_1_rounds_before_the_weight():
    x = torch.tensor([[3.0, 4.0, 0.0, 0.0]], dtype=torch.bfloat16)
    weight = torch.full((4,), 1.5, dtype=torch.bfloat16)
    expect.equal(
        reference(x, weight, 0.0),
        torch.tensor([[1.8046875, 2.40625, 0.0, 0.0]], dtype=torch.bfloat16),
        "rms_norm_reference of (3, 4, 0, 0) in bfloat16 with weights 1.5",
        "1.2 becomes 1.203125 in bfloat16, and *then* it is multiplied with 1.5 and rounded again",
    )


def test_4_1_without_the_library_call():
    from tinyvllm.ops.rms_norm import rms_norm_reference

    names = {"functional", "rms_norm", "RMSNorm", "layer_norm", "normalize"}
    used = names & {*rms_norm_reference.__code__.co_names}
    if used:
        raise AssertionError(
            f"rms_norm_reference uses {', '.join(sorted(used))}:\n"
            "  hint: that call would do the exercise for you; write it with plain operations"
        )


# -- 4.2 predict ---------------------------------------------------------------------------------

# The loops of the two kernels, each alone, and the step with stride 4 of one warp.
TREES = """
__global__ void by_modulo(float* x) {
    __shared__ float scratch[256];
    int t = threadIdx.x;
    scratch[t] = x[t];
    __syncthreads();
    for (int stride = 1; stride < 256; stride *= 2) {
        if (t % (2 * stride) == 0)
            scratch[t] += scratch[t + stride];
        __syncthreads();
    }
    x[t] = scratch[0];
}
__global__ void packed(float* x) {
    __shared__ float scratch[256];
    int t = threadIdx.x;
    scratch[t] = x[t];
    __syncthreads();
    for (int stride = 1; stride < 256; stride *= 2) {
        int i = 2 * stride * t;
        if (i < 256)
            scratch[i] += scratch[i + stride];
        __syncthreads();
    }
    x[t] = scratch[0];
}
__global__ void read_modulo(float* x) {
    __shared__ float scratch[256];
    for (int i = threadIdx.x; i < 256; i += 32) scratch[i] = x[i];
    __syncthreads();
    if (threadIdx.x % 8 == 0) x[threadIdx.x] = scratch[threadIdx.x];
}
__global__ void read_packed(float* x) {
    __shared__ float scratch[256];
    for (int i = threadIdx.x; i < 256; i += 32) scratch[i] = x[i];
    __syncthreads();
    x[threadIdx.x] = scratch[8 * threadIdx.x];
}
"""


def test_4_2_predictions(exercises):
    from tinyvllm.cuda import RawModule

    module = RawModule(TREES)

    def total(name: str, threads: int):
        return module.get_function(name).profile((1,), (threads,), (torch.ones(256),)).total

    modulo, packed = total("by_modulo", 256), total("packed", 256)
    results = {
        "additions": 255,  # 256 numbers become one, and each addition makes one less
        "modulo_divergent": modulo.divergent_branches,
        "packed_divergent": packed.divergent_branches,
        "modulo_wavefronts": total("read_modulo", 32).shared_load.wavefronts,
        "packed_wavefronts": total("read_packed", 32).shared_load.wavefronts,
    }
    hints = {
        "additions": "how many numbers are there at first, how many at the end, and what does one"
        " addition do to their number?",
        "modulo_divergent": "strides 1 to 16: every warp has lanes of both kinds. From stride 32"
        " on at most one lane of a warp goes in, and fewer warps from step to step",
        "packed_divergent": "the threads that go in are 0, 1, 2, ...: 128 of them are four whole"
        " warps. When do they stop being whole warps?",
        "modulo_wavefronts": "lanes 0, 8, 16 and 24 read elements 0, 8, 16 and 24: which banks?",
        "packed_wavefronts": "lane t reads element 8t, in bank 8t % 32: only four different banks,"
        " for 32 addresses",
    }
    predictions = exercises.predict()
    missing = [name for name in results if name not in predictions]
    expect.equal(missing, [], "the counts without a prediction", "one number for each name")
    for name, result in results.items():
        expect.equal(
            int(predictions[name]),
            result,
            f"your prediction {name!r} against the profile",
            hints[name],
        )


# -- 4.3 the tree --------------------------------------------------------------------------------


def tree():
    from tinyvllm.cuda import load

    return load("rms_norm_steps.cu", "rms_norm_tree", scalar_t="bf16")


def test_4_3_a_block_of_two_threads():
    x, weight = rows(1, 4, torch.bfloat16)
    expect_norm(
        tree(),
        x,
        weight,
        2,
        "one step: thread 0 adds scratch[1] to scratch[0]. Does the loop begin with half of the"
        " block and go down to 1?",
    )


def test_4_3_every_power_of_two():
    for threads in (1, 8, 32, 64, 256, 1024):
        x, weight = rows(2, 576, torch.bfloat16)
        expect_norm(
            tree(),
            x,
            weight,
            threads,
            "scratch[0] must hold all of the block's partial sums: half = blockDim.x / 2, then half"
            " of that, and 1 is the last one that adds",
        )


def test_4_3_rows_shorter_than_the_block():
    x, weight = rows(3, 5, torch.bfloat16)
    expect_norm(
        tree(), x, weight, 64, "threads without an element bring the sum 0; they add all the same"
    )


def test_4_3_neighbours_work_on_neighbours():
    x, weight = rows(1, 256, torch.bfloat16)
    total = profiled(tree(), x, weight, 256).total
    conflicts = total.shared_load.bank_conflicts + total.shared_store.bank_conflicts
    hint = "thread t, if t < half, adds scratch[t + half] to scratch[t]"
    expect_at_most(conflicts, 0, "bank conflicts of rms_norm_tree with 256 threads", hint)
    expect_at_most(
        total.divergent_branches, 5, "divergent branches of rms_norm_tree with 256 threads", hint
    )
    passes = total.shared_load.wavefronts
    hint = "half as many threads add in each step: 255 additions, and one read of the result"
    expect_at_most(passes, 8 + 2 * 12, "passes of rms_norm_tree through shared memory", hint)


# -- 4.4 the sum of a block ----------------------------------------------------------------------


SUMS = """#include "rms_norm.cu"
__global__ void warp_sums(float* out, const float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = warp_sum(x[i]);
}
__global__ void block_sums(float* out, const float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = block_sum(x[i]);
}
"""


def summing(name: str):
    """A kernel around a function of rms_norm.cu: out [blocks * threads] from x."""
    from tinyvllm.cuda import RawModule

    module = RawModule(SUMS, scalar_t="float", filename="the kernel that calls your functions")
    return module.get_function(f"{name}s")


def expect_sums(kernel, name: str, blocks: int, threads: int, group: int, hint: str) -> None:
    """Demand that each thread gets the sum over its group of neighbours."""
    x = torch.arange(1.0, blocks * threads + 1)  # whole numbers: sums are exact
    out = torch.full_like(x, torch.nan)
    in_one_check(kernel, (blocks,), threads, (out, x))
    expected = x.view(-1, group).sum(1, keepdim=True).expand(-1, group).reshape(-1)
    expect.equal(out, expected, f"{name} in each of {threads} threads", hint)


def test_4_4_warp_sum_in_every_lane():
    hint = (
        "distances 16, 8, 4, 2 and 1, with __shfl_xor_sync; then every lane has the sum. (With"
        " __shfl_down_sync only lane 0 has it)"
    )
    expect_sums(summing("warp_sum"), "warp_sum", 1, 32, 32, hint)


def test_4_4_warp_sum_of_each_warp():
    hint = "a warp adds up its own 32 lanes, whatever the other warps do"
    expect_sums(summing("warp_sum"), "warp_sum", 2, 96, 32, hint)


def test_4_4_block_sum_of_one_warp():
    hint = "with one warp the total is the sum of that warp; other lanes take 0 in the last step"
    expect_sums(summing("block_sum"), "block_sum", 1, 32, 32, hint)


def test_4_4_block_sum_in_every_thread():
    for threads in (64, 96, 256, 1024):
        hint = (
            f"{threads // 32} warps, so {threads // 32} sums in shared memory. Every warp reads all"
            " of them, one a lane (0 in the other lanes), and adds them up"
        )
        expect_sums(summing("block_sum"), "block_sum", 2, threads, threads, hint)


def test_4_4_one_barrier_and_no_tree():
    args = (torch.empty(1024), torch.ones(1024))
    kernel = summing("block_sum")
    in_one_check(kernel, (1,), 1024, args)
    total = kernel.profile((1,), (1024,), args).total
    expect_at_most(
        total.barriers,
        1,
        "barriers of block_sum",
        "one, between writing the sums of the warps and reading them",
    )
    expect_at_most(
        total.shared_load.wavefronts + total.shared_store.wavefronts,
        64,
        "passes of block_sum through shared memory with 32 warps",
        "each warp writes one number and reads 32 in one pass; the rest goes by shuffles",
    )


# -- 4.5 the whole kernel ------------------------------------------------------------------------


def wide(dtype=torch.bfloat16):
    from tinyvllm.cuda import load

    return load("rms_norm.cu", "rms_norm_wide", scalar_t=NAMES[dtype])


def test_4_5_one_vector_a_thread():
    x, weight = rows(3, 512, torch.bfloat16)
    expect_norm(
        wide(),
        x,
        weight,
        64,
        "512 elements are 64 vectors; the mean is over hidden_size elements, row blockIdx.x begins"
        " blockIdx.x * n vectors on, and the weights are the same for all rows",
    )


def test_4_5_threads_without_a_vector():
    for hidden_size, threads in ((576, 96), (8, 32), (72, 256)):
        x, weight = rows(2, hidden_size, torch.bfloat16)
        expect_norm(
            wide(),
            x,
            weight,
            threads,
            f"only threads below {hidden_size // 8} have a vector, but all must call block_sum,"
            " with 0 if they have nothing",
        )


def test_4_5_rows_longer_than_one_vector_a_thread():
    for hidden_size, threads in ((1024, 32), (2056, 64)):
        x, weight = rows(2, hidden_size, torch.bfloat16)
        expect_norm(
            wide(),
            x,
            weight,
            threads,
            "the vectors t + blockDim.x, t + 2 blockDim.x, ... belong to thread t, too: in the sum"
            " and in the result",
        )


def test_4_5_sums_in_float_and_rounds_before_the_weight():
    x = torch.ones(1, 16384, dtype=torch.bfloat16)
    x[:, : 32 * 8 : 8] = 64  # each thread begins with 4,096; one of its other vectors adds 8
    hint = "add up in float, not in scalar_t: 4,096 + 8 is 4,096 in bfloat16"
    expect_norm(wide(), x, torch.ones_like(x[0]), 32, hint)
    x = torch.tensor([[3.0, 4.0] + 6 * [0.0]], dtype=torch.bfloat16) * 2**0.5
    weight = torch.full((8,), 1.5, dtype=torch.bfloat16)
    out = torch.empty_like(x)
    in_one_check(wide(), (1,), 32, (out, x, weight, 8, 0.0))
    expect.equal(
        out,
        oracle(x, weight, 0.0),
        "rms_norm_wide of one row of 8 in bfloat16 with weights 1.5",
        "round x * scale to scalar_t, and then multiply with the weight, as the reference does",
    )


def test_4_5_eps_and_zeros():
    x = torch.zeros(2, 64, dtype=torch.bfloat16)
    x[1] = 0.25
    weight = torch.ones(64, dtype=torch.bfloat16)
    expect_norm(
        wide(),
        x,
        weight,
        32,
        "eps is added to the mean, under the root: rsqrtf(sum / hidden_size + eps)",
        eps=0.1,
    )


def test_4_5_float():
    x, weight = rows(2, 132)
    hint = "write it on scalar_t and PER_LOAD: a vector holds 8 bfloat16, but 4 floats"
    expect_norm(wide(torch.float32), x, weight, 64, hint)


def test_4_5_sixteen_bytes_a_load_and_x_read_once():
    x, weight = rows(2, 2048, torch.bfloat16)
    total = profiled(wide(), x, weight, 256).total
    expect_at_most(
        total.global_store.requests,
        2 * 8,
        "store requests of rms_norm_wide, 2 rows of 2,048",
        "8 warps a row, each stores once: 16 bytes a lane, as one Vector",
    )
    expect_at_most(
        total.global_load.requests,
        2 * 8 * 2,
        "load requests of rms_norm_wide, 2 rows of 2,048",
        "8 warps a row, each loads x once and the weight once, 16 bytes a lane. Copy a whole Vector"
        " into a variable, and take its elements from there; and keep it until the total is known",
    )


# -- 4.6 the fault -------------------------------------------------------------------------------


def expect_layer_norm(kernel, x: torch.Tensor, threads: int, hint: str) -> None:
    hidden_size = x.shape[1]
    out = torch.full_like(x, torch.nan)
    in_one_check(kernel, (x.shape[0],), threads, (out, x.clone(), hidden_size, EPS))
    wide = x.double()
    expected = (wide - wide.mean(-1, keepdim=True)) / (
        wide.var(-1, keepdim=True, unbiased=False) + EPS
    ).sqrt()
    what = f"layer_norm of x {list(x.shape)} with {threads} threads"
    expect.close(out, expected.to(x.dtype), what, hint=hint)


def test_4_6_no_race_at_any_block_size(exercises):
    kernel = exercises.layer_norm
    for threads in (256, 32, 64, 1024):
        x = rows(2, 300, torch.bfloat16)[0] + 0.5
        expect_layer_norm(
            kernel,
            x.bfloat16(),
            threads,
            "no line of the two functions needs to change: one is missing",
        )


def test_4_6_the_mean_is_subtracted_before_the_square(exercises):
    x = torch.full((2, 4096), 1024.0).bfloat16()
    x[:, 7] += 8  # mean(x²) - mean² would be the difference of two numbers with equal digits
    x[1] *= 16
    expect_layer_norm(
        exercises.layer_norm,
        x,
        128,
        "the variance is the mean of (x - mean)²; keep the two sums",
    )


def test_4_6_one_barrier_more_for_each_sum(exercises):
    x = rows(1, 256, torch.bfloat16)[0]
    args = (torch.empty_like(x), x, 256, EPS)
    in_one_check(exercises.layer_norm, (1,), 256, args)
    total = exercises.layer_norm.profile((1,), (256,), args).total
    expect_at_most(
        total.barriers,
        4,
        "barriers of layer_norm",
        "two sums, and one barrier more for each of them, is enough",
    )
