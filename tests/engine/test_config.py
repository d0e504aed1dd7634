"""config.json: each field is honoured, inert, or refused by name."""

import json

import pytest
from engine.tiny import llama_config

from tinyvllm.config import ConfigError, ModelConfig, RopeScaling
from tinyvllm.models.registry import model_class

RAW = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
}
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def test_what_transformers_writes_is_read(tmp_path):
    llama_config(architectures=["LlamaForCausalLM"]).save_pretrained(tmp_path)
    config = ModelConfig.from_folder(tmp_path)
    assert (config.hidden_size, config.num_key_value_heads, config.head_dim) == (48, 2, 8)
    assert config.rope_theta == 500.0


@pytest.mark.parametrize(
    "fields",
    [
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **LLAMA3}},
        {"rope_theta": 5e5, "rope_scaling": {"type": "llama3", **LLAMA3}},
        {"rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", **LLAMA3}},
    ],
    ids=["old fields", "oldest name of the type", "new field"],
)
def test_theta_and_scaling_come_from_the_old_and_the_new_fields(fields):
    config = ModelConfig.from_dict(RAW | fields)
    assert config.rope_theta == 5e5
    assert config.rope_scaling == RopeScaling(8.0, 1.0, 4.0, 8192)


def test_a_null_scaling_is_none():
    assert ModelConfig.from_dict(RAW | {"rope_scaling": None}).rope_scaling is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ({"sliding_window": 4096}, "sliding_window = 4096"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"embedding_multiplier": 12.0}, "embedding_multiplier = 12.0 (unknown)"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "'yarn'"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "lacks low_freq_factor"),
        ({"rope_scaling": {"rope_type": "llama3", **LLAMA3, "beta": 1}}, "unknown fields: beta"),
        ({"num_key_value_heads": 4}, "can't share 4"),
        ({"num_attention_heads": 7, "num_key_value_heads": 7}, "can't be split over 7"),
        ({"head_dim": 7}, "odd"),
        ({"vocab_size": 0}, "vocab_size must be a positive integer"),
        ({"hidden_size": "48"}, "hidden_size must be a positive integer"),
        ({"num_hidden_layers": None}, "lacks num_hidden_layers"),
    ],
)
def test_a_config_that_cannot_be_honoured_is_refused_by_name(fields, words):
    with pytest.raises(ConfigError) as raised:
        ModelConfig.from_dict(RAW | fields)
    assert words in str(raised.value)


def test_fields_that_change_nothing_are_accepted():
    inert = {
        "_name_or_path": "x",
        "use_cache": True,
        "initializer_range": 0.02,
        "transformers_version": "5.0",
        "rope_interleaved": False,
        "is_llama_config": True,
        "some_new_flag": False,
        "some_new_field": None,
    }
    assert ModelConfig.from_dict(RAW | inert) == ModelConfig.from_dict(RAW)


def test_an_unknown_architecture_names_those_that_are_known():
    with pytest.raises(ConfigError, match=r"'GPT2LMHeadModel'.*LlamaForCausalLM"):
        model_class("GPT2LMHeadModel")


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "has no config.json"), ("{", "can't be read as JSON"), ("[1]", "a JSON list")],
)
def test_a_missing_or_broken_file_is_a_sentence(text, words, tmp_path):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=words):
        ModelConfig.from_folder(tmp_path)


def test_a_config_survives_json(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(RAW))
    assert ModelConfig.from_folder(tmp_path) == ModelConfig.from_dict(RAW)
