"""Our Llama gives transformers' logits: whole prompts, and prompt then token by token.

Five faults that engines really shipped are planted at the end; each must make the check fail.
"""

import json

import pytest
import torch
from engine.tiny import (
    LLAMA3_SCALING,
    oracle_logits,
    random_llama,
    random_token_ids,
    save,
)
from tolerances import LOGITS

from tinyvllm.config import ModelConfig
from tinyvllm.engine.kv_cache import ContiguousAttend, ContiguousKVCache
from tinyvllm.models.attend import CausalAttend
from tinyvllm.models.registry import model_class
from tinyvllm.ops.rms_norm import rms_norm_reference
from tinyvllm.ops.rope import rope_reference
from tinyvllm.ops.table import compose, reference_ops
from tinyvllm.weights.load import load_weights

LENGTH, PREFILL, CHUNK = 120, 60, 20
TOLERANCE = LOGITS[torch.float32]

CONFIGS = {
    "GQA": {},
    "MHA": {"num_key_value_heads": 6},
    "MQA": {"num_key_value_heads": 1},
    "tied embeddings": {"tie_word_embeddings": True},
    "llama3 scaling": {"rope_parameters": LLAMA3_SCALING},
    "head_dim is not hidden/heads": {"head_dim": 16},
    "another theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 100000.0}},
    "attention bias": {"attention_bias": True},
    "mlp bias": {"mlp_bias": True},
    "another eps": {"rms_norm_eps": 0.5},
}


def ours(oracle, tmp_path, ops=reference_ops):
    return load(save(oracle, tmp_path / "model"), ops)


def load(folder, ops=reference_ops):
    config = ModelConfig.from_folder(folder)
    model = model_class(config.architecture)(
        config, ops=ops, dtype=torch.float32, device="cpu", max_model_len=256
    )
    load_weights(folder, model.named_weights(), progress=False)
    return model


@torch.inference_mode()
def whole_prompt_logits(model, token_ids):
    hidden = model.forward(token_ids, torch.arange(len(token_ids)), CausalAttend(model.ops))
    return model.compute_logits(hidden)


@torch.inference_mode()
def cached_logits(model, token_ids):
    """A prefill, a second chunk, then one token at a time, through the contiguous cache."""
    cache = ContiguousKVCache(model.config, dtype=model.dtype, device=model.device)
    cache.reserve(len(token_ids))
    ends = [PREFILL, PREFILL + CHUNK, *range(PREFILL + CHUNK + 1, len(token_ids) + 1)]
    rows, start = [], 0
    for end in ends:
        positions = torch.arange(start, end)
        hidden = model.forward(
            token_ids[start:end], positions, ContiguousAttend(model.ops, cache, positions, end)
        )
        rows.append(model.compute_logits(hidden))
        start = end
    return torch.cat(rows)


def check(oracle, model):
    token_ids = random_token_ids(oracle, LENGTH)
    expected = oracle_logits(oracle, token_ids)
    torch.testing.assert_close(
        whole_prompt_logits(model, token_ids), expected, atol=TOLERANCE, rtol=0
    )
    torch.testing.assert_close(cached_logits(model, token_ids), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS.keys())
def test_logits_equal_transformers(changes, tmp_path):
    oracle = random_llama(**changes)
    check(oracle, ours(oracle, tmp_path))


def test_prefill_of_n_plus_1_is_prefill_of_n_and_a_decode(tmp_path):
    oracle = random_llama()
    model, token_ids = ours(oracle, tmp_path), random_token_ids(oracle, LENGTH)
    whole, stepwise = whole_prompt_logits(model, token_ids), cached_logits(model, token_ids)
    torch.testing.assert_close(stepwise, whole, atol=TOLERANCE, rtol=0)


def adjacent_pairs(positions, q, k, cos_sin):
    """The paper's pairs (2i, 2i+1) on a checkpoint made for (i, i + head_dim/2)."""

    def to_halves(x):
        return torch.cat((x[..., 0::2], x[..., 1::2]), dim=-1)

    def to_pairs(x):
        half = x.shape[-1] // 2
        return torch.stack((x[..., :half], x[..., half:]), dim=-1).flatten(-2)

    q, k = rope_reference(positions, to_halves(q), to_halves(k), cos_sin)
    return to_pairs(q), to_pairs(k)


def unscaled_scores(q, k, v):
    """q grown by sqrt(head_dim): what forgetting to divide the scores comes to."""
    return reference_ops.attention(q * q.shape[-1] ** 0.5, k, v)


def wrong_kv_head(x, weight, bias=None):
    """Query heads dealt out to key/value heads in turn, as if heads 0, 2, 4 shared one."""
    y = reference_ops.linear(x, weight, bias)
    q_size, kv_size, head_dim, heads = 48, 16, 8, 6
    if weight.shape[0] != q_size + 2 * kv_size:
        return y
    q = y[:, :q_size].view(-1, heads // 2, 2, head_dim).transpose(1, 2).reshape(-1, q_size)
    return torch.cat((q, y[:, q_size:]), dim=-1)


def norm_weight_ignored(x, weight, eps):
    return rms_norm_reference(x, torch.ones_like(weight), eps)


def decode_one_position_late(model):
    """A uniform shift would change nothing: RoPE sees distances. The decode's alone does."""
    forward = model.forward

    def late(token_ids, positions, attend):
        return forward(token_ids, positions + (len(token_ids) == 1), attend)

    model.forward = late


FAULTS = {
    "adjacent-pair RoPE": {"rope": adjacent_pairs},
    "missing 1/sqrt(head_dim)": {"attention": unscaled_scores},
    "wrong kv head": {"linear": wrong_kv_head},
    "norm weight ignored": {"rms_norm": norm_weight_ignored},
}


@pytest.mark.parametrize("pieces", FAULTS.values(), ids=FAULTS.keys())
def test_a_planted_fault_is_found(pieces, tmp_path):
    oracle = random_llama()
    with pytest.raises(AssertionError):
        check(oracle, ours(oracle, tmp_path, compose(**pieces)))


def test_a_decode_position_off_by_one_is_found(tmp_path):
    oracle = random_llama()
    model = ours(oracle, tmp_path)
    decode_one_position_late(model)
    with pytest.raises(AssertionError):
        check(oracle, model)


def test_theta_and_scaling_of_an_old_config_file_give_the_same_logits(tmp_path):
    oracle = random_llama(rope_parameters=LLAMA3_SCALING)
    folder = save(oracle, tmp_path / "old")
    config = json.loads((folder / "config.json").read_text())
    scaling = config.pop("rope_parameters")
    config |= {"rope_theta": scaling.pop("rope_theta"), "rope_scaling": scaling}
    (folder / "config.json").write_text(json.dumps(config))
    check(oracle, load(folder))


@pytest.mark.gpu
@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS.keys())
def test_logits_equal_transformers_on_the_gpu(changes, tmp_path):
    torch.backends.cuda.matmul.allow_tf32 = False
    oracle = random_llama(**changes)
    folder = save(oracle, tmp_path / "model")
    config = ModelConfig.from_folder(folder)
    model = model_class(config.architecture)(
        config, ops=reference_ops, dtype=torch.float32, device="cuda", max_model_len=256
    )
    load_weights(folder, model.named_weights(), progress=False)
    token_ids = random_token_ids(oracle, LENGTH)
    with torch.inference_mode():
        positions = torch.arange(LENGTH, device="cuda")
        logits = model.compute_logits(model.forward(token_ids.cuda(), positions, CausalAttend()))
    expected = oracle_logits(oracle, token_ids)
    torch.testing.assert_close(logits.cpu(), expected, atol=TOLERANCE, rtol=0)
