"""Llama (Touvron et al. 2023, arXiv:2302.13971; Llama 3: arXiv:2407.21783) as plain tensors.

A stack of blocks over a residual stream [T, hidden_size]: attention, then a gated feed-forward,
each behind an RMSNorm. The tokens of a batch lie flat, side by side; what belongs to which
sequence is known to `attend` alone.
"""

from dataclasses import dataclass

import torch

from tinyvllm.config import ModelConfig
from tinyvllm.models.attend import Attend
from tinyvllm.ops.rope import cos_sin_table, inverse_frequencies
from tinyvllm.ops.table import Ops


@dataclass
class LlamaLayer:
    """Weights of one block; q, k, v are rows of one matrix, and so are gate and up."""

    input_norm: torch.Tensor  # [hidden_size]
    qkv: torch.Tensor  # [q_size + 2 * kv_size, hidden_size]
    qkv_bias: torch.Tensor | None
    o: torch.Tensor  # [hidden_size, q_size]
    o_bias: torch.Tensor | None
    post_attention_norm: torch.Tensor  # [hidden_size]
    gate_up: torch.Tensor  # [2 * intermediate_size, hidden_size]
    gate_up_bias: torch.Tensor | None
    down: torch.Tensor  # [hidden_size, intermediate_size]
    down_bias: torch.Tensor | None


class LlamaForCausalLM:
    """The model: embed, blocks, norm; then logits on demand.

    Its tensors are allocated here, unfilled; `weights.load` fills the views that `named_weights`
    hands out under the checkpoint's own names.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        ops: Ops,
        dtype: torch.dtype,
        device: torch.device | str,
        max_model_len: int,
        matrix_dtype: torch.dtype | None = None,
    ):
        """dtype: of activations, norms and biases. matrix_dtype: of the matrices; None: dtype."""
        self.config, self.ops, self.max_model_len = config, ops, max_model_len
        self.dtype, self.matrix_dtype = dtype, matrix_dtype or dtype
        self.device = torch.device(device)
        self.embed_tokens = self._matrix(config.vocab_size, config.hidden_size)
        self.layers = [self._layer() for _ in range(config.num_hidden_layers)]
        self.norm = self._empty(config.hidden_size)
        if config.tie_word_embeddings:
            self.lm_head = self.embed_tokens
        else:
            self.lm_head = self._matrix(config.vocab_size, config.hidden_size)
        frequencies = inverse_frequencies(config.head_dim, config.rope_theta, config.rope_scaling)
        self.cos_sin = cos_sin_table(frequencies, max_model_len).to(self.device)

    def forward(
        self, token_ids: torch.Tensor, positions: torch.Tensor, attend: Attend
    ) -> torch.Tensor:
        """token_ids [T] int64, positions [T] int64 -> hidden states [T, hidden_size]."""
        ops, eps = self.ops, self.config.rms_norm_eps
        residual = ops.embedding(token_ids, self.embed_tokens).to(self.dtype)
        x = ops.rms_norm(residual, self.layers[0].input_norm, eps)
        for i, layer in enumerate(self.layers):
            x = self._attention(i, layer, x, positions, attend)
            x, residual = ops.add_rms_norm(x, residual, layer.post_attention_norm, eps)
            gate_up = ops.linear(x, layer.gate_up, layer.gate_up_bias)
            x = ops.linear(ops.silu_mul(gate_up), layer.down, layer.down_bias)
            # The norm behind this block: the next block's first, or the model's last.
            last = i + 1 == len(self.layers)
            next_norm = self.norm if last else self.layers[i + 1].input_norm
            x, residual = ops.add_rms_norm(x, residual, next_norm, eps)
        return x

    def compute_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden [N, hidden_size] -> logits [N, vocab_size], float32."""
        return self.ops.linear(hidden, self.lm_head).float()

    def _attention(self, i, layer: LlamaLayer, x, positions, attend: Attend) -> torch.Tensor:
        config, tokens = self.config, x.shape[0]
        qkv = self.ops.linear(x, layer.qkv, layer.qkv_bias)
        q, k, v = qkv.split((config.q_size, config.kv_size, config.kv_size), dim=-1)
        q = q.view(tokens, config.num_attention_heads, config.head_dim)
        k = k.view(tokens, config.num_key_value_heads, config.head_dim)
        v = v.view(tokens, config.num_key_value_heads, config.head_dim)
        q, k = self.ops.rope_and_store(positions, q, k, v, self.cos_sin, attend.slots(i))
        out = attend(i, q, k, v).reshape(tokens, config.q_size)
        return self.ops.linear(out, layer.o, layer.o_bias)

    def named_weights(self) -> dict[str, torch.Tensor]:
        """Checkpoint name -> the tensor, or the rows of a fused one, that it fills."""
        c = self.config
        weights = {"model.embed_tokens.weight": self.embed_tokens, "model.norm.weight": self.norm}
        if not c.tie_word_embeddings:
            weights["lm_head.weight"] = self.lm_head
        qkv_rows, gate_up_rows = (c.q_size, c.kv_size, c.kv_size), (c.intermediate_size,) * 2
        for i, layer in enumerate(self.layers):
            block = f"model.layers.{i}."
            weights[block + "input_layernorm.weight"] = layer.input_norm
            weights[block + "post_attention_layernorm.weight"] = layer.post_attention_norm
            for part, names, rows, weight, bias in (
                ("self_attn", ("q", "k", "v"), qkv_rows, layer.qkv, layer.qkv_bias),
                ("self_attn", ("o",), (c.hidden_size,), layer.o, layer.o_bias),
                ("mlp", ("gate", "up"), gate_up_rows, layer.gate_up, layer.gate_up_bias),
                ("mlp", ("down",), (c.hidden_size,), layer.down, layer.down_bias),
            ):
                for kind, fused in (("weight", weight), ("bias", bias)):
                    if fused is not None:
                        for name, view in zip(names, fused.split(rows)):
                            weights[f"{block}{part}.{name}_proj.{kind}"] = view
        return weights

    def _layer(self) -> LlamaLayer:
        c = self.config
        attention_bias, mlp_bias = c.attention_bias, c.mlp_bias
        return LlamaLayer(
            input_norm=self._empty(c.hidden_size),
            qkv=self._matrix(c.q_size + 2 * c.kv_size, c.hidden_size),
            qkv_bias=self._empty(c.q_size + 2 * c.kv_size) if attention_bias else None,
            o=self._matrix(c.hidden_size, c.q_size),
            o_bias=self._empty(c.hidden_size) if attention_bias else None,
            post_attention_norm=self._empty(c.hidden_size),
            gate_up=self._matrix(2 * c.intermediate_size, c.hidden_size),
            gate_up_bias=self._empty(2 * c.intermediate_size) if mlp_bias else None,
            down=self._matrix(c.hidden_size, c.intermediate_size),
            down_bias=self._empty(c.hidden_size) if mlp_bias else None,
        )

    def _empty(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=self.dtype, device=self.device)

    def _matrix(self, rows: int, columns: int) -> torch.Tensor:
        return torch.empty(rows, columns, dtype=self.matrix_dtype, device=self.device)
