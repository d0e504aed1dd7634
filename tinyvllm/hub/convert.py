"""Convert a Llama model from GGUF into a Hugging Face folder: config, tokenizer, bfloat16 weights.

The traps are all here. llama.cpp stores the rows of the q and k projections in its own order (RoPE
rotates adjacent pairs there, halves in Hugging Face's models), so they are put back. eps went
through float32. The vocabulary becomes tokenizer.json with the splitting rules of "smollm", which
separate every digit. Same input, same bytes: nothing here depends on time or machine.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tinyvllm.hub.gguf import GGUF, GGUFError

NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
LAYER_NAMES = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}
CONTROL = 3  # tokenizer.ggml.token_type of a token that never comes from plain text
END_OF_TEXT = "<|endoftext|>"


def convert(gguf: GGUF, folder: Path, advance: Callable[[int], None] = lambda size: None) -> None:
    """Write (generation_)config.json, tokenizer(_config).json and model.safetensors into `folder`.

    `advance(n)` is called after each tensor with its number of elements. Raises GGUFError for
    anything but a Llama model with the "smollm" tokenizer.
    """
    architecture = gguf.metadata.get("general.architecture")
    if architecture != "llama":
        raise GGUFError(f"only the architecture 'llama' can be converted, not {architecture!r}")
    try:
        config = model_config(gguf)
        _write_json(folder / "config.json", config)
        _write_json(folder / "generation_config.json", generation_config(gguf))
        _write_json(folder / "tokenizer_config.json", tokenizer_config(gguf))
        tokenizer(gguf).save(str(folder / "tokenizer.json"))
    except KeyError as error:
        raise GGUFError(f"the metadata lacks {error}") from None
    _write_weights(gguf, config, folder / "model.safetensors", advance)


def model_config(gguf: GGUF) -> dict[str, Any]:
    """config.json of a LlamaForCausalLM."""
    meta = gguf.metadata
    scaling = meta.get("llama.rope.scaling.type", "none")
    if scaling != "none" or "rope_freqs.weight" in gguf.tensors:
        raise GGUFError(f"RoPE scaling ({scaling}) is not supported by this converter")
    heads, hidden_size = meta["llama.attention.head_count"], meta["llama.embedding_length"]
    head_dim = meta.get("llama.attention.key_length", hidden_size // heads)
    if meta.get("llama.rope.dimension_count", head_dim) != head_dim:
        raise GGUFError("RoPE over a part of each head is not supported by this converter")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(meta["tokenizer.ggml.tokens"]),
        "hidden_size": hidden_size,
        "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": meta.get("llama.attention.head_count_kv", heads),
        "head_dim": head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": meta["llama.context_length"],
        # 1e-5 went into the file as a float32, whose exact value is 9.999999747e-06.
        "rms_norm_eps": float(f"{meta['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_theta": float(f"{meta.get('llama.rope.freq_base', 10000.0):.6g}"),
        "rope_scaling": None,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": "output.weight" not in gguf.tensors,
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "pad_token_id": meta.get("tokenizer.ggml.padding_token_id"),
        "torch_dtype": "bfloat16",
    }


def generation_config(gguf: GGUF) -> dict[str, Any]:
    """generation_config.json. A chat ends with <|im_end|>, raw text may with <|endoftext|>."""
    meta = gguf.metadata
    stops = [meta["tokenizer.ggml.eos_token_id"]]
    if END_OF_TEXT in meta["tokenizer.ggml.tokens"]:
        stops.append(meta["tokenizer.ggml.tokens"].index(END_OF_TEXT))
    return {
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": list(dict.fromkeys(stops)),
        "pad_token_id": meta.get("tokenizer.ggml.padding_token_id"),
    }


def tokenizer_config(gguf: GGUF) -> dict[str, Any]:
    """tokenizer_config.json with the chat template."""
    meta = gguf.metadata
    tokens = meta["tokenizer.ggml.tokens"]
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": meta["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        "add_bos_token": bool(meta.get("tokenizer.ggml.add_bos_token", False)),
        "add_prefix_space": bool(meta.get("tokenizer.ggml.add_space_prefix", False)),
    }
    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        token_id = meta.get(f"tokenizer.ggml.{key}_token_id")
        if token_id is not None:
            config[f"{name}_token"] = tokens[token_id]
    if "tokenizer.chat_template" in meta:
        config["chat_template"] = meta["tokenizer.chat_template"]
    return config


def tokenizer(gguf: GGUF):
    """The tokenizers.Tokenizer of the file: byte-level BPE that splits numbers into digits.

    Bytes that the vocabulary lacks vanish without a word, as they do in llama.cpp: SmolLM2's has no
    symbol for c0 c1 f1 f2 f5..ff and the control characters 04 06 13 14 16 1d.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    meta = gguf.metadata
    kind = meta.get("tokenizer.ggml.model"), meta.get("tokenizer.ggml.pre")
    if kind != ("gpt2", "smollm"):
        raise GGUFError(f"only the tokenizer ('gpt2', 'smollm') can be converted, not {kind}")
    tokens = meta["tokenizer.ggml.tokens"]
    bpe = models.BPE(
        vocab={token: index for index, token in enumerate(tokens)},
        merges=[tuple(merge.split(" ")) for merge in meta["tokenizer.ggml.merges"]],
        unk_token=None,
        byte_fallback=False,
    )
    result = Tokenizer(bpe)
    result.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
        ]
    )
    result.decoder = decoders.ByteLevel()
    result.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, meta["tokenizer.ggml.token_type"])
            if kind == CONTROL
        ]
    )
    return result


def _write_weights(
    gguf: GGUF, config: dict[str, Any], path: Path, advance: Callable[[int], None]
) -> None:
    import torch
    from safetensors.torch import save_file

    from tinyvllm.weights.bfloat16 import float32_to_bfloat16

    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights = {}
    for name in gguf.tensors:
        values = gguf.tensor(name)
        if name.startswith("blk.") and name.split(".")[2] in heads:
            values = half_split_rows(values, heads[name.split(".")[2]])
        bits = float32_to_bfloat16(np.ascontiguousarray(values))
        weights[hugging_face_name(name)] = torch.from_numpy(bits).view(torch.bfloat16)
        advance(values.size)
    save_file(weights, path, metadata={"format": "pt"})


def half_split_rows(weight: np.ndarray, num_heads: int) -> np.ndarray:
    """Rows of a q or k projection back from adjacent pairs to halves: [out, in] -> [out, in].

    Within a head llama.cpp has row 2i+j where Hugging Face has row j·(head_dim/2)+i, j in {0, 1}.
    """
    rows, columns = weight.shape
    pairs = weight.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def hugging_face_name(name: str) -> str:
    """'blk.7.attn_q.weight' -> 'model.layers.7.self_attn.q_proj.weight', or GGUFError."""
    if name in NAMES:
        return NAMES[name]
    block, _, rest = name.partition(".")
    layer, _, kind = rest.partition(".")
    if block != "blk" or not layer.isdigit() or kind not in LAYER_NAMES:
        raise GGUFError(f"tensor {name} has no place in a Llama model")
    return f"model.layers.{layer}.{LAYER_NAMES[kind]}"


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
