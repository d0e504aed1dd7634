"""The checks of chapter 03, GPU memory and a first kernel: embedding lookup.

The oracle is torch's indexing on the CPU. Kernels run in check mode, which judges every access, and
in profile mode where the way to the memory matters. The package is imported inside the checks:
there it is the student's code.
"""

import functools

import numpy as np
import torch

from tinyvllm.course import expect

POISON = -12345.0  # what an output holds before the launch: no kernel here writes it


# -- helpers -------------------------------------------------------------------------------------


def blocks_for(n: int, threads: int) -> int:
    return -(-n // threads)


def random_table(vocab_size: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(vocab_size, columns, generator=torch.Generator().manual_seed(0)).to(dtype)


def expect_element(actual: torch.Tensor, expected: torch.Tensor, what: str, hint: str) -> None:
    """Like expect.equal, but an element that nobody wrote is called so."""
    wrong = (actual != expected) & ~(actual.isnan() & expected.isnan())
    if wrong.any():
        index = tuple(wrong.nonzero()[0].tolist())
        if actual[index] == torch.tensor(POISON, dtype=actual.dtype):
            place = index if len(index) > 1 else index[0]
            raise AssertionError(
                f"{what}:\n"
                f"  the element at index {place} was never written (and {int(wrong.sum()) - 1} more"
                f" of {wrong.numel()} are wrong)\n"
                f"  hint: {hint}"
            )
    expect.equal(actual, expected, what, hint)


def expect_traffic(kernel: str, what: str, actual: int, most: int, hint: str) -> None:
    if actual > most:
        raise AssertionError(
            f"{kernel} is right, but it asks too much of the memory:\n"
            f"  {what}: {actual:,}, where {most:,} are enough\n"
            f"  hint: {hint}"
        )


# -- 3.1 scale -----------------------------------------------------------------------------------


def run_scale(exercises, n: int, grid: int, threads: int, what: str, hint: str) -> None:
    x = torch.arange(1, n + 1, dtype=torch.float32)
    exercises.scale.check((grid,), (threads,), (x, 3.0, n))
    expect_element(x, torch.arange(1, n + 1) * 3.0, what, hint)


def test_3_1_one_block(exercises):
    run_scale(
        exercises, 8, 1, 8, "x = 1 … 8 after scale by 3, one block of 8 threads",
        "thread i multiplies x[i] by factor; in place: x[i] *= factor",
    )  # fmt: skip


def test_3_1_several_blocks(exercises):
    run_scale(
        exercises, 12, 3, 4, "x = 1 … 12 after scale by 3, three blocks of 4 threads",
        "threadIdx.x counts from 0 in every block: which number does a thread have in the grid?",
    )  # fmt: skip


def test_3_1_more_threads_than_elements(exercises):
    for n, threads in ((10, 4), (1, 32), (1000, 256), (5, 1024)):
        run_scale(
            exercises, n, blocks_for(n, threads), threads,
            f"{n} elements after scale, blocks of {threads} threads",
            "threads whose number is n or more have nothing to do",
        )  # fmt: skip


def test_3_1_more_blocks_than_needed(exercises):
    run_scale(
        exercises, 10, 9, 4, "10 elements after scale, nine blocks of 4 threads",
        "whole blocks may have nothing to do",
    )  # fmt: skip


def test_3_1_each_element_once(exercises):
    x = torch.ones(6)
    for _ in range(2):
        exercises.scale.check((2,), (4,), (x, 2.0, 6))
    expect_element(
        x, torch.full((6,), 4.0), "ones after scale by 2, twice", "each launch multiplies once"
    )


# -- 3.2 source_of -------------------------------------------------------------------------------


def test_3_2_by_hand(exercises):
    ids = np.array([2, 0, 2])
    expect.equal(
        exercises.source_of(np.arange(9), ids, 3),
        np.array([6, 7, 8, 0, 1, 2, 6, 7, 8]),
        "source_of(0 … 8) for the ids 2, 0, 2 and rows of 3",
        "place i of the output is in row i // hidden_size, and there in column i % hidden_size",
    )


def test_3_2_as_an_index_of_the_flat_table(exercises):
    rng = np.random.default_rng(0)
    for num_tokens, vocab_size, hidden_size in ((1, 1, 1), (7, 5, 4), (4, 50, 33), (40, 9, 1)):
        table = rng.standard_normal((vocab_size, hidden_size))
        ids = rng.integers(0, vocab_size, num_tokens)
        places = exercises.source_of(np.arange(num_tokens * hidden_size), ids, hidden_size)
        what = (
            f"the places of the rows of {num_tokens} ids in a table [{vocab_size}, {hidden_size}]"
        )
        if np.min(places) < 0 or np.max(places) >= table.size:
            raise AssertionError(
                f"{what}:\n  got places from {np.min(places)} to {np.max(places)}, but the table"
                f" has 0 to {table.size - 1}\n"
                "  hint: row r begins at place r * hidden_size of the flat table"
            )
        expect.equal(
            table.ravel()[places].reshape(num_tokens, hidden_size),
            table[ids],
            f"the rows of {num_tokens} ids in a table [{vocab_size}, {hidden_size}]",
            "row r begins at place r * hidden_size of the flat table",
        )


def test_3_2_any_places_in_any_order(exercises):
    expect.equal(
        exercises.source_of(np.array([5, 0, 5]), np.array([9, 4]), 4),
        np.array([17, 36, 17]),
        "source_of([5, 0, 5]) for the ids 9, 4 and rows of 4",
        "the places needn't be all of the output, nor in order",
    )


def test_3_2_beyond_2_to_the_31(exercises):
    expect.equal(
        exercises.source_of(np.array([3], np.int32), np.array([262_143]), 16_384),
        np.array([262_143 * 16_384 + 3]),
        "the place of row 262,143 in rows of 16,384",
        "4,294,950,915 has no room in 32 bits: compute in int64",
    )


# -- 3.3 embedding -------------------------------------------------------------------------------


@functools.cache
def kernel(name: str, scalar_t: str):
    from tinyvllm.cuda import load

    return load("embedding.cu", name, scalar_t=scalar_t)


def profiled(name: str, scalar_t: str, arguments: tuple):
    """The profile of two blocks of 64 threads; checked first, since a profile stops no overrun."""
    kernel(name, scalar_t).check((2,), (64,), arguments)
    return kernel(name, scalar_t).profile((2,), (64,), arguments)


def look_up(ids, vocab_size, hidden_size, threads):
    """(what the kernel gives, the table), in bfloat16: out is poisoned before the launch."""
    weight = random_table(vocab_size, hidden_size, torch.bfloat16)
    token_ids = torch.tensor(ids)
    out = torch.full((len(ids), hidden_size), POISON, dtype=weight.dtype)
    arguments = (out, token_ids, weight, hidden_size, vocab_size)
    kernel("embedding", "bf16").check((len(ids),), (threads,), arguments)
    return out, weight


def test_3_3_a_thread_for_each_number():
    out, weight = look_up([2, 0, 3, 2], 4, 8, threads=8)
    expect_element(
        out, weight[[2, 0, 3, 2]], "embedding of the ids 2, 0, 3, 2 with 8 threads for rows of 8",
        "block t writes row t of out: element j is weight[row * hidden_size + j], where row is"
        " token_ids[t]",
    )  # fmt: skip


def test_3_3_any_number_of_threads():
    for hidden_size, threads in ((10, 4), (3, 32), (1, 1), (100, 32), (33, 33)):
        out, weight = look_up([1, 4, 0], 5, hidden_size, threads)
        expect_element(
            out, weight[[1, 4, 0]], f"embedding, rows of {hidden_size}, {threads} threads a block",
            "a thread begins at threadIdx.x and goes on by blockDim.x, as long as it is below"
            " hidden_size",
        )  # fmt: skip


def test_3_3_rows_longer_than_1024():
    out, weight = look_up([1, 2, 1], 3, 2500, threads=1024)
    expect_element(
        out, weight[[1, 2, 1]], "embedding, rows of 2,500, 1,024 threads a block",
        "more than two steps are needed: a loop, not two lines",
    )  # fmt: skip


def test_3_3_every_row_of_the_table():
    ids = [*range(40), *range(39, -1, -1)]
    out, weight = look_up(ids, 40, 5, threads=32)
    expect_element(
        out, weight[ids], "embedding of all 40 ids, forwards and backwards",
        "the first and the last row belong to the table",
    )  # fmt: skip


def test_3_3_unknown_ids_give_nan():
    ids = [0, -1, 4, 5, 3, 2**32 + 1, -(2**32), 2**40]
    out, weight = look_up(ids, 4, 6, threads=4)
    expected = torch.full_like(out, torch.nan)
    for t in (0, 4):  # the table has these two
        expected[t] = weight[ids[t]]
    for t, id_ in enumerate(ids):
        expect_element(
            out[t], expected[t], f"the row of id {id_} in a table of 4 rows",
            "a row that the table has is copied; any other is NaN. An id has 64 bits: keep it in a"
            " long long",
        )  # fmt: skip


def test_3_3_neighbouring_threads_take_neighbours():
    ids, hidden_size = torch.tensor([1, 0]), 512
    weight = torch.zeros(2, hidden_size, dtype=torch.bfloat16)
    out = torch.zeros_like(weight)
    report = profiled("embedding", "bf16", (out, ids, weight, hidden_size, 2))
    needed = 2 * hidden_size * 2 // 32
    expect_traffic(
        "embedding", "sectors written for two rows of 512 bfloat16",
        report.total.global_store.sectors, needed,
        "in each step the threads of a warp write side by side: thread 0 element 0, thread 1"
        " element 1. And no element is written twice",
    )  # fmt: skip


# -- 3.4 predict ---------------------------------------------------------------------------------

ACCESS = """
#include <cuda_bf16.h>
__global__ void neighbours(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void every_second(const float* x, float* y) { y[threadIdx.x] = x[2 * threadIdx.x]; }
__global__ void every_32nd(const float* x, float* y) { y[threadIdx.x] = x[32 * threadIdx.x]; }
__global__ void one_further(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x + 1]; }
__global__ void backwards(const float* x, float* y) { y[threadIdx.x] = x[31 - threadIdx.x]; }
__global__ void all_the_same(const float* x, float* y) { y[threadIdx.x] = x[5]; }
__global__ void bf16_neighbours(const __nv_bfloat16* x, __nv_bfloat16* y) {
    y[threadIdx.x] = x[threadIdx.x];
}
__global__ void wide_neighbours(const float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }
"""

ACCESS_HINTS = {
    "neighbours": "32 floats side by side are 128 bytes",
    "every_second": "it is in the text: 32 floats spread over 256 bytes",
    "every_32nd": "the addresses are 128 bytes apart: no two of them share a sector of 32",
    "one_further": "128 bytes that begin 4 bytes into a sector: count the sectors that they touch",
    "backwards": "which sectors are touched? The order of the threads within the warp is no matter",
    "all_the_same": "one address, however many threads want it",
    "bf16_neighbours": "a bfloat16 has 2 bytes",
    "wide_neighbours": "32 threads, 16 bytes each, side by side",
}


def test_3_4_predictions(exercises):
    from tinyvllm.cuda import RawModule

    module = RawModule(ACCESS)
    predictions = exercises.predict()
    missing = [name for name in ACCESS_HINTS if name not in predictions]
    expect.equal(missing, [], "the kernels without a prediction", "one number for each kernel")
    for name, hint in ACCESS_HINTS.items():
        dtype = torch.bfloat16 if name.startswith("bf16") else torch.float32
        x = torch.zeros(4096, dtype=dtype)
        report = module.get_function(name).profile((1,), (32,), (x, torch.zeros_like(x)))
        expect.equal(
            predictions[name],
            report.total.global_load.sectors,
            f"your prediction for {name!r} against the profile",
            hint,
        )


# -- 3.5 embedding_wide --------------------------------------------------------------------------


def look_up_wide(ids, vocab_size, pieces, threads, dtype=torch.float32):
    """(what the kernel gives, the table), rows of `pieces` times 16 bytes."""
    columns = pieces * 16 // dtype.itemsize
    weight = random_table(vocab_size, columns, dtype)
    out = torch.full((len(ids), columns), POISON, dtype=dtype)
    arguments = (out, torch.tensor(ids), weight, pieces, vocab_size)
    kernel("embedding_wide", "float").check((len(ids),), (threads,), arguments)
    return out, weight


def test_3_5_a_thread_for_each_piece():
    out, weight = look_up_wide([2, 0, 3, 2], 4, 8, threads=8)
    expect_element(
        out, weight[[2, 0, 3, 2]], "embedding_wide of the ids 2, 0, 3, 2: rows of 8 pieces",
        "count in pieces: row r of the table begins at piece r * row_pieces",
    )  # fmt: skip


def test_3_5_any_number_of_threads():
    for pieces, threads in ((10, 4), (3, 32), (1, 1), (72, 32), (1500, 1024)):
        out, weight = look_up_wide([1, 4, 0], 5, pieces, threads)
        expect_element(
            out, weight[[1, 4, 0]], f"embedding_wide, rows of {pieces} pieces, {threads} threads",
            "the block-stride loop again, over the pieces of a row",
        )  # fmt: skip


def test_3_5_unknown_ids_give_nan_in_every_format():
    ids = [0, -1, 4, 3, 2**32 + 1]
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        out, weight = look_up_wide(ids, 4, 3, 32, dtype)
        expected = torch.full_like(out, torch.nan)
        expected[[0, 3]] = weight[[0, 3]]
        for t, id_ in enumerate(ids):
            expect_element(
                out[t], expected[t], f"the row of id {id_} in a table of 4 rows, as {dtype}",
                "bits of ones, make_uint4(~0u, ~0u, ~0u, ~0u), are NaN in all three formats",
            )  # fmt: skip


def test_3_5_sixteen_bytes_at_a_time():
    ids, pieces = torch.tensor([1, 0]), 128
    weight, out = torch.zeros(2, pieces * 4), torch.zeros(2, pieces * 4)
    report = profiled("embedding_wide", "float", (out, ids, weight, pieces, 2))
    stores = report.total.global_store
    expect_traffic(
        "embedding_wide", "requests to write two rows of 128 pieces", stores.requests, 8,
        "assign a whole uint4: out[...] = weight[...], not its four parts, and each piece once",
    )  # fmt: skip
    expect_traffic(
        "embedding_wide", "sectors written for two rows of 128 pieces", stores.sectors,
        2 * pieces * 16 // 32, "neighbouring threads take neighbouring pieces",
    )  # fmt: skip


# -- 3.6 upload ----------------------------------------------------------------------------------


class Queue:
    """A stream that only works when it is waited for, and counts how far the host ran ahead."""

    def __init__(self):
        self.work, self.done, self.sources = [], 0, []

    def launch(self, function, *arguments):
        self.work.append((function, arguments))

    def copy(self, target, source):
        self.sources.append(source)
        self.launch(target.copy_, source)

    def record(self):
        return Mark(self, len(self.work))

    def synchronize(self):
        self.record().synchronize()

    @property
    def under_way(self) -> int:
        return len(self.work) - self.done


class Mark:
    def __init__(self, queue, end):
        self.queue, self.end = queue, end

    def synchronize(self):
        while self.queue.done < self.end:
            function, arguments = self.queue.work[self.queue.done]
            self.queue.done += 1
            function(*arguments)


def upload(exercises, num_buffers: int, sizes: list[int]):
    """(queue, batches, targets, buffers) after an upload, while the last copies are under way."""
    queue = Queue()
    batches = [torch.arange(n) + 100 * i for i, n in enumerate(sizes)]
    targets = [torch.full((n,), -1) for n in sizes]
    buffers = [torch.full((max(sizes, default=1),), -7) for _ in range(num_buffers)]
    exercises.upload(queue, batches, buffers, targets)
    return queue, batches, targets, buffers


def test_3_6_every_batch_arrives(exercises):
    for num_buffers in (1, 2, 3):
        queue, batches, targets, _ = upload(exercises, num_buffers, [4, 4, 4, 4, 4, 4, 4])
        queue.synchronize()
        for i, (batch, target) in enumerate(zip(batches, targets)):
            expect.equal(
                target, batch, f"target {i} after uploading 7 batches with {num_buffers} buffer(s)",
                "a copy reads its buffer when its turn comes. Before you write into a buffer, wait"
                " for the event behind the copy that last read it",
            )  # fmt: skip


def test_3_6_batches_of_other_lengths(exercises):
    queue, batches, targets, _ = upload(exercises, 2, [3, 1, 5, 0, 2])
    queue.synchronize()
    for i, (batch, target) in enumerate(zip(batches, targets)):
        expect.equal(
            target, batch, f"target {i}, batches of 3, 1, 5, 0 and 2", "copy what is there"
        )


def test_3_6_the_host_runs_ahead(exercises):
    for num_buffers in (1, 2, 3):
        queue, *_ = upload(exercises, num_buffers, [4] * 7)
        expect.equal(
            queue.under_way,
            num_buffers,
            f"copies under way when upload returns, with {num_buffers} buffer(s)",
            "fewer: it waited for more than it must, perhaps for the whole stream. Wait for the"
            " event of this one buffer only, and not before the buffer is needed again",
        )


def test_3_6_through_the_given_buffers(exercises):
    queue, _, _, buffers = upload(exercises, 2, [4] * 5)
    places = [buffer.data_ptr() for buffer in buffers]
    used = [
        places.index(s.data_ptr()) if s.data_ptr() in places else "another one"
        for s in queue.sources
    ]
    expect.equal(
        used, [0, 1, 0, 1, 0], "the buffers that the copies of 5 batches read",
        "stage batch i in buffers[i % len(buffers)]; memory of your own isn't pinned",
    )  # fmt: skip


# -- 3.7 find the fault --------------------------------------------------------------------------


def right(out, token_ids, weight):
    torch.index_select(weight, 0, token_ids, out=out)


def stale_above_1024(out, token_ids, weight):
    if weight.shape[1] <= 1024:
        right(out, token_ids, weight)


def refuses_above_1024(out, token_ids, weight):
    if weight.shape[1] > 1024:
        raise ValueError("block.x must be 1 to 1024")
    right(out, token_ids, weight)


def first_1024_columns(out, token_ids, weight):
    out[:, :1024] = weight[token_ids][:, :1024]


def two_elements_a_thread(out, token_ids, weight):
    out[:, :2048] = weight[token_ids][:, :2048]


def whole_warps_only(out, token_ids, weight):
    columns = weight.shape[1] // 32 * 32
    out[:, :columns] = weight[token_ids][:, :columns]


def multiples_of_4_only(out, token_ids, weight):
    columns = weight.shape[1] // 4 * 4
    out[:, :columns] = weight[token_ids][:, :columns]


def last_token_missing(out, token_ids, weight):
    out[:-1] = weight[token_ids[:-1]]


def one_warp_of_tokens(out, token_ids, weight):
    out[:32] = weight[token_ids[:32]]


def adds(out, token_ids, weight):
    """Right for an output of zeros."""
    out += weight[token_ids]


def last_row_unknown(out, token_ids, weight):
    out[:] = weight[token_ids.clamp(max=len(weight) - 2)]


def rows_in_order(out, token_ids, weight):
    out[:] = weight[: len(token_ids)] if len(token_ids) <= len(weight) else weight[token_ids]


def equal_ids_once(out, token_ids, weight):
    for t, id_ in enumerate(token_ids.tolist()):
        if id_ not in token_ids[:t].tolist():
            out[t] = weight[id_]


def one_row_too_many(out, token_ids, weight):
    right(out, token_ids, weight)
    behind = out.storage_offset() + out.numel()
    if out.untyped_storage().nbytes() // 4 >= behind + weight.shape[1]:
        torch.as_strided(out, (weight.shape[1],), (1,), behind).copy_(weight[token_ids[-1]])


def one_row_too_early(out, token_ids, weight):
    right(out, token_ids, weight)
    before = out.storage_offset() - weight.shape[1]
    if before >= 0:
        torch.as_strided(out, (weight.shape[1],), (1,), before).copy_(weight[token_ids[0]])


def through_bfloat16(out, token_ids, weight):
    out.copy_(weight[token_ids].bfloat16())


FAULTS = {
    stale_above_1024: "does nothing for rows of more than 1,024: fill out with a number that the"
    " table doesn't have",
    refuses_above_1024: "raises for rows of more than 1,024: an exception is a fault, too",
    first_1024_columns: "writes the first 1,024 columns only: try 1,025 and more",
    two_elements_a_thread: "writes the first 2,048 columns only: try more than twice the limit",
    whole_warps_only: "leaves out what is beyond a whole warp: try hidden sizes of 31 and 33",
    multiples_of_4_only: "leaves out the last columns if hidden_size isn't a multiple of 4: try 33",
    last_token_missing: "leaves out the last token: compare all of out",
    one_warp_of_tokens: "handles the first 32 tokens only: try T of 33 and more",
    adds: "adds to what out held before: don't hand it zeros",
    last_row_unknown: "doesn't know the last row of the table: try its id",
    rows_in_order: "takes row t instead of row token_ids[t]: try ids in no order",
    equal_ids_once: "writes a row only the first time that its id comes: try one id twice",
    one_row_too_many: "writes a row behind out: guard it with a row of a buffer",
    one_row_too_early: "writes a row in front of out: guard it with a row of a buffer",
    through_bfloat16: "rounds the numbers: compare exactly, with random numbers in the table",
}


def test_3_7_no_false_alarm(exercises):
    expect.equal(
        exercises.find_fault(right),
        None,
        "find_fault of a launch without fault",
        "compare out with weight[token_ids]; the ids must lie in the table, and out must be [T,"
        " hidden_size] float32, in one piece",
    )


def is_wrong(launch, num_tokens: int, hidden_size: int) -> bool:
    """Whether a launch goes wrong for some ids of these sizes."""
    weight = random_table(50, hidden_size, torch.float32)
    drawn = torch.randint(50, (num_tokens,), generator=torch.Generator().manual_seed(1))
    for ids in (drawn, torch.full((num_tokens,), 49), torch.full((num_tokens,), 3)):
        expected = torch.full((num_tokens + 2, hidden_size), POISON)
        buffer = expected.clone()
        expected[1:-1] = weight[ids]
        try:
            launch(buffer[1:-1], ids, weight)
        except ValueError:
            return True
        if not torch.equal(buffer, expected):
            return True
    return False


def test_3_7_finds_every_fault(exercises):
    for launch, fault in FAULTS.items():
        case = exercises.find_fault(launch)
        what = f"find_fault of a launch that {fault.split(':')[0]}"
        if case is None:
            raise AssertionError(f"{what}:\n  got None: it wasn't found\n  hint: it {fault}")
        if not (
            isinstance(case, tuple) and len(case) == 2 and all(isinstance(n, int) for n in case)
        ):
            raise AssertionError(
                f"{what}:\n  got {case!r}\n  hint: return (T, hidden_size), two numbers, or None"
            )
        if not is_wrong(launch, *case):
            raise AssertionError(
                f"{what}:\n  got {case}, but that case is right\n"
                "  hint: return the sizes of the case that went wrong, T first"
            )
