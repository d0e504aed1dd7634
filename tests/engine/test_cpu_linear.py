"""The CPU's linear layer on bfloat16 weights, against float64 and against the plain engine."""

import logging

import pytest
import torch
from engine.tiny import oracle_logits, random_llama, random_token_ids, save
from tolerances import LOGITS
from transformers import LlamaForCausalLM

from tinyvllm import LLM, SamplingParams
from tinyvllm.cuda import compiler
from tinyvllm.cuda.errors import CompilerNotFound
from tinyvllm.ops import cpu_linear
from tinyvllm.ops.cpu_linear import FEW_TOKENS, Bf16Linear, bf16_linear
from tinyvllm.ops.gemm import linear_split


@pytest.fixture(scope="module")
def linear():
    made = bf16_linear()
    assert made is not None, "g++ is part of the set-up"
    return made


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 5, 7, 8, 31, FEW_TOKENS, FEW_TOKENS + 1, 100])
@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (37, 579), (1, 5), (3, 16), (576, 1536)])
def test_it_is_x_times_w_transposed(linear, tokens, rows, columns):
    generator = torch.Generator().manual_seed(tokens * rows)
    x = torch.randn(tokens, columns, generator=generator)
    weight = torch.randn(rows, columns, generator=generator).bfloat16()
    bias = torch.randn(rows, generator=generator)
    expected = x.double() @ weight.double().T
    # Rounding errors of a float32 sum, by its number of terms and the size of their sum.
    bound = 1e-6 * (x.abs().double() @ weight.abs().double().T)
    assert ((linear(x, weight) - expected).abs() <= bound).all()
    assert ((linear(x, weight, bias) - (expected + bias)).abs() <= bound + 1e-6).all()


def test_small_integers_are_exact(linear):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-8, 9, (3, 100), generator=generator).float()
    weight = torch.randint(-8, 9, (50, 100), generator=generator).bfloat16()
    assert torch.equal(linear(x, weight), x @ weight.float().T)


def test_a_view_with_gaps_is_read_right(linear):
    x = torch.randn(4, 128, generator=torch.Generator().manual_seed(0))[:, ::2]
    weight = torch.eye(64).bfloat16()
    assert torch.equal(linear(x, weight), x)


@pytest.mark.parametrize("tokens", [1, 2])
@pytest.mark.parametrize("rows", [960, 100])
def test_linear_in_bands_is_linear(tokens, rows):
    generator = torch.Generator().manual_seed(rows)
    x, weight = torch.randn(tokens, 48, generator=generator), torch.randn(rows, 48)
    for bias in (None, torch.randn(rows)):
        torch.testing.assert_close(
            linear_split(x, weight, bias), torch.nn.functional.linear(x, weight, bias)
        )


@pytest.fixture
def bf16_folder(tmp_path):
    """(folder, oracle): a checkpoint in bfloat16, and transformers computing it in float32."""
    model = random_llama(vocab_size=49152, tie_word_embeddings=True).bfloat16()
    folder = save(model, tmp_path / "model")
    return folder, LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def load(folder, default_model_dir):
    (folder / "tokenizer.json").write_bytes((default_model_dir / "tokenizer.json").read_bytes())
    return LLM(folder, device="cpu", use_tqdm_on_load=False)


def test_a_bf16_checkpoint_computes_in_float32(bf16_folder, default_model_dir):
    folder, oracle = bf16_folder
    llm = load(folder, default_model_dir)
    model = llm.llm_engine._runner.model
    assert isinstance(model.ops.linear, Bf16Linear)
    assert model.embed_tokens.dtype == torch.bfloat16 and model.norm.dtype == torch.float32
    ids = random_token_ids(oracle, 40)
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
    (output,) = llm.generate(ids.tolist(), params, use_tqdm=False)
    whole = torch.cat((ids, torch.tensor(output.outputs[0].token_ids)))
    logits = oracle_logits(oracle, whole)
    for i, token in enumerate(output.outputs[0].token_ids):
        row = logits[39 + i]
        assert row.max() - row[token] <= LOGITS[torch.float32]


def test_without_a_compiler_the_engine_says_so_and_gives_the_same_tokens(
    bf16_folder, default_model_dir, monkeypatch, caplog
):
    folder, _ = bf16_folder
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
    with_kernel = load(folder, default_model_dir).generate([5, 6, 7], params, use_tqdm=False)

    def nothing():
        raise CompilerNotFound("no compiler here")

    monkeypatch.setattr(compiler, "find_compiler", nothing)
    with caplog.at_level(logging.WARNING, logger="tinyvllm"):
        llm = load(folder, default_model_dir)
    assert "no compiler here" in caplog.text and len(caplog.records) == 1
    assert llm.llm_engine._runner.model.embed_tokens.dtype == torch.float32
    without = llm.generate([5, 6, 7], params, use_tqdm=False)
    assert without[0].outputs == with_kernel[0].outputs


def test_other_checkpoints_keep_their_precision(tmp_path, default_model_dir):
    folder = save(random_llama(vocab_size=49152), tmp_path / "model")  # float32
    model = load(folder, default_model_dir).llm_engine._runner.model
    assert model.embed_tokens.dtype == torch.float32
    assert model.ops.linear is linear_split


def test_the_kernel_is_built_once(tmp_path, monkeypatch):
    monkeypatch.setenv("TINYVLLM_CACHE", str(tmp_path))
    first = compiler.build_library(cpu_linear.SOURCE, ("-march=native", "-fopenmp"))
    changed = first.stat().st_mtime_ns
    again = compiler.build_library(cpu_linear.SOURCE, ("-march=native", "-fopenmp"))
    assert first == again and again.stat().st_mtime_ns == changed
