"""The embedding kernels against torch's indexing: bit for bit, a copy has no tolerance."""

import pytest
import torch

from tinyvllm.cuda import load
from tinyvllm.ops import embedding as module
from tinyvllm.ops.embedding import embedding_kernel, embedding_reference

DTYPES = {"bf16": torch.bfloat16, "half": torch.float16, "float": torch.float32}
GUARD = 7.0


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here: run `make test-gpu` on a machine that has one")
    return request.param


def table(vocab_size: int, hidden_size: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(vocab_size, hidden_size, generator=generator).to(dtype)


def ids_of(num_tokens: int, vocab_size: int) -> torch.Tensor:
    """Random ids, the first and the last of the table among them."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(vocab_size, (num_tokens,), generator=generator)
    ids[:1], ids[1:2] = vocab_size - 1, 0
    return ids


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.cpu().view(torch.uint8)


@pytest.mark.parametrize("scalar_t", DTYPES)
@pytest.mark.parametrize(
    "num_tokens, hidden_size",
    [(1, 1), (3, 7), (2, 8), (5, 36), (4, 576), (33, 64), (2, 1025), (2, 2048), (2, 8192)],
)
def test_rows_are_copied_bit_for_bit(num_tokens, hidden_size, scalar_t, device):
    weight = table(23, hidden_size, DTYPES[scalar_t])
    weight[3, 0] = torch.nan  # a number like any other, here
    weight[22, -1] = -0.0
    ids = ids_of(num_tokens, 23)
    out = embedding_kernel(ids.to(device), weight.to(device))
    assert out.shape == (num_tokens, hidden_size)
    assert (out.dtype, out.device.type) == (weight.dtype, device)
    assert torch.equal(bits(out), bits(embedding_reference(ids, weight)))


def test_equal_to_the_reference_in_float64(device):
    weight = table(50, 100, torch.float32)
    ids = ids_of(70, 50)
    out = embedding_kernel(ids.to(device), weight.to(device))
    assert torch.equal(out.cpu().double(), embedding_reference(ids, weight.double()))


def test_many_tokens(device):
    weight = table(11, 16, torch.bfloat16)
    ids = ids_of(20_000, 11)
    assert torch.equal(embedding_kernel(ids.to(device), weight.to(device)).cpu(), weight[ids])


def test_no_token_gives_an_empty_result(device):
    ids = torch.empty(0, dtype=torch.int64, device=device)
    assert embedding_kernel(ids, table(3, 5, torch.float32).to(device)).shape == (0, 5)


def test_ids_need_not_lie_in_one_piece(device):
    weight, ids = table(9, 24, torch.float32), ids_of(20, 9)[::3]
    assert torch.equal(embedding_kernel(ids.to(device), weight.to(device)).cpu(), weight[ids])


@pytest.mark.parametrize("scalar_t", DTYPES)
def test_a_table_that_begins_between_two_pieces_of_16_bytes(scalar_t, device):
    rows, columns = 9, 32
    flat = table(1, rows * columns + 1, DTYPES[scalar_t])[0].to(device)
    weight = flat[1:].view(rows, columns)
    assert weight.data_ptr() % 16
    ids = ids_of(12, rows)
    out = embedding_kernel(ids.to(device), weight)
    assert torch.equal(out.cpu(), weight.cpu()[ids])


@pytest.mark.parametrize("hidden_size, expected", [(576, "embedding_wide"), (577, "embedding")])
def test_rows_of_whole_pieces_take_the_wide_kernel(hidden_size, expected, monkeypatch):
    names = []
    kernel = module._kernel

    def noting(name, dtype):
        names.append(name)
        return kernel(name, dtype)

    monkeypatch.setattr(module, "_kernel", noting)
    embedding_kernel(ids_of(2, 3), table(3, hidden_size, torch.bfloat16))
    assert names == [expected]


def test_an_id_outside_the_table_is_an_index_error_on_a_cpu():
    for wrong in (-1, 3, 2**32):
        with pytest.raises(IndexError, match=f"the table has the ids 0 to 2, not {wrong}"):
            embedding_kernel(torch.tensor([0, wrong, 1]), table(3, 8, torch.float32))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here: `make test-gpu`")
@pytest.mark.parametrize("hidden_size", [8, 7])
def test_an_id_outside_the_table_is_a_row_of_nan_on_a_gpu(hidden_size):
    for dtype in DTYPES.values():
        weight = table(3, hidden_size, dtype)
        ids = torch.tensor([2, -1, 3, 2**32 + 1, 0])
        out = embedding_kernel(ids.cuda(), weight.cuda()).cpu()
        assert out[1:4].isnan().all()
        assert torch.equal(out[[0, 4]], weight[[2, 0]])


@pytest.mark.parametrize("scalar_t", DTYPES)
@pytest.mark.parametrize("columns, threads", [(1, 32), (8, 32), (40, 32), (33, 64), (1100, 1024)])
def test_kernels_are_clean_in_check_mode_and_stay_in_their_array(columns, threads, scalar_t):
    """`out` lies in the middle of a buffer; unknown ids are among the ids."""
    dtype = DTYPES[scalar_t]
    ids = torch.tensor([2, -1, 0, 3, 2, 2**40])
    known = torch.tensor([0, 2, 4])
    for name, width in (("embedding", 1), ("embedding_wide", 16 // dtype.itemsize)):
        weight = table(3, columns * width, dtype)
        buffer = torch.full((len(ids) + 2, columns * width), GUARD, dtype=dtype)
        arguments = (buffer[1:-1], ids, weight, columns, len(weight))
        load("embedding.cu", name, scalar_t=scalar_t).check((len(ids),), (threads,), arguments)
        out = buffer[1:-1]
        assert torch.equal(out[known], weight[ids[known]])
        assert out[[1, 3, 5]].isnan().all()
        assert (buffer[[0, -1]] == GUARD).all()


def test_rows_beyond_two_to_the_31_elements(tmp_path):
    """A table of 4.3 GB that is a file of holes: only the pages that are touched exist."""
    rows, columns = 2**17 + 2, 2**14
    weight = torch.from_file(
        str(tmp_path / "table"), shared=True, size=rows * columns, dtype=torch.bfloat16
    ).view(rows, columns)
    weight[rows - 1] = 3.0
    weight[1, :4] = 2.0
    ids = torch.tensor([rows - 1, 1])
    out = embedding_kernel(ids, weight)
    assert (out[0] == 3.0).all() and out[1, :5].tolist() == [2.0, 2.0, 2.0, 2.0, 0.0]
    scalar = torch.zeros(2, columns, dtype=torch.bfloat16)
    kernel = load("embedding.cu", "embedding", scalar_t="bf16")
    kernel((2,), (256,), (scalar, ids, weight, columns, rows))
    assert torch.equal(scalar, out)


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"token_ids": torch.zeros(2, 2, dtype=torch.int64)}, ValueError, r"not \[2, 2\] and"),
        ({"weight": torch.zeros(4)}, ValueError, r"not \[2\] and \[4\]"),
        ({"token_ids": torch.zeros(2, dtype=torch.int32)}, TypeError, "int64.*not torch.int32"),
        ({"weight": torch.zeros(4, 4).double()}, TypeError, "bfloat16, float16 or float32, not"),
        ({"weight": torch.zeros(4, 4).T[:, :3]}, ValueError, "weight must lie in one piece"),
        ({"token_ids": torch.zeros(2, dtype=torch.int64, device="meta")}, ValueError, "on meta"),
    ],
)
def test_wrong_arguments_are_refused_in_words(change, error, words):
    arguments = {
        "token_ids": torch.zeros(2, dtype=torch.int64),
        "weight": torch.zeros(4, 4),
        **change,
    }
    with pytest.raises(error, match=words):
        embedding_kernel(**arguments)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here: `make test-gpu`")
def test_a_launch_is_captured_in_a_cuda_graph():
    weight = table(9, 64, torch.bfloat16).cuda()
    ids = ids_of(5, 9).cuda()
    embedding_kernel(ids, weight)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = embedding_kernel(ids, weight)
    ids.copy_(ids.flip(0))
    graph.replay()
    assert torch.equal(out, weight[ids])
