"""Weights: shards, ties, and checkpoints that don't fit."""

import json

import pytest
import torch
from engine.tiny import oracle_logits, random_llama, random_token_ids, save
from safetensors.torch import load_file, save_file
from tolerances import LOGITS

from tinyvllm.config import ModelConfig
from tinyvllm.models.attend import CausalAttend
from tinyvllm.models.registry import model_class
from tinyvllm.ops.table import reference_ops
from tinyvllm.weights.load import CheckpointError, load_weights
from tinyvllm.weights.safetensors import SafetensorsError

Q_PROJ = "model.layers.1.self_attn.q_proj.weight"


@pytest.fixture
def folder(tmp_path):
    return save(random_llama(), tmp_path / "model")


def load(folder, ignore=()):
    config = ModelConfig.from_folder(folder)
    model = model_class(config.architecture)(
        config, ops=reference_ops, dtype=torch.float32, device="cpu", max_model_len=64
    )
    load_weights(folder, model.named_weights(), ignore=ignore, progress=False)
    return model


def rewrite(folder, change):
    """Rewrites the only shard after `change(tensors)`."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file({n: t.contiguous() for n, t in tensors.items()}, folder / "model.safetensors")


def test_every_parameter_arrives_where_it_belongs(folder):
    tensors = load_file(folder / "model.safetensors")
    for name, view in load(folder).named_weights().items():
        assert torch.equal(view, tensors.pop(name)), name
    assert not tensors


def test_a_sharded_checkpoint_gives_the_same_logits(tmp_path):
    oracle = random_llama()
    folder = save(oracle, tmp_path / "sharded", max_shard_size="40KB")
    assert len(list(folder.glob("*.safetensors"))) > 3
    token_ids = random_token_ids(oracle, 20)
    model = load(folder)
    with torch.inference_mode():
        logits = model.compute_logits(model.forward(token_ids, torch.arange(20), CausalAttend()))
    torch.testing.assert_close(
        logits, oracle_logits(oracle, token_ids), atol=LOGITS[torch.float32], rtol=0
    )


def test_a_tied_checkpoint_needs_no_head_and_may_carry_one(tmp_path):
    oracle = random_llama(tie_word_embeddings=True)
    folder = save(oracle, tmp_path / "tied")
    assert load(folder).lm_head is not None
    rewrite(folder, lambda t: t.update({"lm_head.weight": torch.zeros(97, 48)}))
    with pytest.raises(CheckpointError, match=r"lm_head\.weight"):
        load(folder)
    model = load(folder, ignore=(r"lm_head\.weight",))
    assert model.lm_head is model.embed_tokens


def test_a_missing_tensor_is_named(folder):
    rewrite(folder, lambda t: t.pop(Q_PROJ))
    with pytest.raises(CheckpointError, match=f"lacks the tensor {Q_PROJ}"):
        load(folder)


def test_an_unexpected_tensor_is_named(folder):
    rewrite(folder, lambda t: t.update({"model.layers.9.extra": torch.zeros(2)}))
    with pytest.raises(CheckpointError, match=r"model\.layers\.9\.extra"):
        load(folder)


def test_a_misshapen_tensor_is_named_with_both_shapes(folder):
    rewrite(folder, lambda t: t.update({Q_PROJ: torch.zeros(48, 47)}))
    with pytest.raises(CheckpointError, match=r"q_proj.weight has shape \[48, 47\], expected \[48"):
        load(folder)


def test_integers_are_not_weights(folder):
    rewrite(folder, lambda t: t.update({Q_PROJ: torch.zeros(48, 48, dtype=torch.int32)}))
    with pytest.raises(CheckpointError, match="dtype I32"):
        load(folder)


def test_an_index_that_points_to_the_wrong_shard_is_found(tmp_path):
    folder = save(random_llama(), tmp_path / "sharded", max_shard_size="40KB")
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    shards = sorted(set(index["weight_map"].values()))
    wrong = next(s for s in shards if s != index["weight_map"][Q_PROJ])
    index["weight_map"][Q_PROJ] = wrong
    path.write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match=f"the index puts it in {wrong}"):
        load(folder)


def test_a_truncated_file_is_refused(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(SafetensorsError):
        load(folder)


def test_nothing_is_copied_when_something_does_not_fit(folder):
    rewrite(folder, lambda t: t.pop(Q_PROJ))
    config = ModelConfig.from_folder(folder)
    model = model_class(config.architecture)(
        config, ops=reference_ops, dtype=torch.float32, device="cpu", max_model_len=64
    )
    for view in model.named_weights().values():
        view.fill_(7.0)
    with pytest.raises(CheckpointError):
        load_weights(folder, model.named_weights(), progress=False)
    assert all((view == 7.0).all() for view in model.named_weights().values())
