"""Tiny random Llamas, saved by transformers: the oracle's side of every comparison.

Weights have a standard deviation of 0.2 and norm weights and biases are random too: at the usual
0.02 attention is so flat that even a wrong RoPE passes.
"""

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

LLAMA3_SCALING = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def llama_config(**changes) -> LlamaConfig:
    return LlamaConfig(
        **{
            "vocab_size": 97,
            "hidden_size": 48,
            "intermediate_size": 80,
            "num_hidden_layers": 3,
            "num_attention_heads": 6,
            "num_key_value_heads": 2,
            "max_position_embeddings": 256,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False,
            "bos_token_id": None,
            "eos_token_id": None,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
            **changes,
        }
    )


def random_llama(seed: int = 0, **changes) -> LlamaForCausalLM:
    """A model whose every tensor is random, norms and biases included; float32, eval mode."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(llama_config(**changes)).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(std=0.2)
    return model


def save(model: LlamaForCausalLM, folder: Path, **kwargs) -> Path:
    model.save_pretrained(folder, **kwargs)
    return folder


def random_token_ids(model: LlamaForCausalLM, length: int, seed: int = 1) -> torch.Tensor:
    """[length] int64"""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(model.config.vocab_size, (length,), generator=generator)


@torch.inference_mode()
def oracle_logits(model: LlamaForCausalLM, token_ids: torch.Tensor) -> torch.Tensor:
    """transformers' logits at every position: [T, vocab_size] float32."""
    return model(token_ids.unsqueeze(0)).logits[0]
