"""ModelRunner: owns the model and its cache; runs one step of one request."""

from pathlib import Path

import torch

from tinyvllm.config import ModelConfig
from tinyvllm.engine.kv_cache import ContiguousAttend, ContiguousKVCache
from tinyvllm.engine.request import Request
from tinyvllm.engine.sampler import sample
from tinyvllm.models.registry import model_class
from tinyvllm.ops.select import select_ops
from tinyvllm.weights.load import load_weights, stored_dtypes

# Tensors that old checkpoints carry and nobody needs: tables that are computed.
IGNORED_TENSORS = (r"(.*\.)?rotary_emb\.inv_freq",)


class ModelRunner:
    """Runs requests on a model, one at a time, with a contiguous cache."""

    def __init__(
        self,
        folder: Path,
        config: ModelConfig,
        *,
        dtype: torch.dtype,
        device: torch.device,
        max_model_len: int,
        kernels: str,
        progress: bool,
    ):
        self.device = device
        if device.type == "cuda":
            # cuDNN's attention plans anew for every length of the keys: 50 ms a decode step.
            # Torch's other kernels don't, and are as fast at one query.
            torch.backends.cuda.enable_cudnn_sdp(False)
        ops, matrix_dtype = select_ops(device, dtype, stored_dtypes(folder), kernels)
        self.model = model_class(config.architecture)(
            config,
            ops=ops,
            dtype=dtype,
            device=device,
            max_model_len=max_model_len,
            matrix_dtype=matrix_dtype,
        )
        # A tied model may still carry its head; the embedding stands for both.
        tied = ("lm_head.weight",) if config.tie_word_embeddings else ()
        load_weights(
            folder,
            self.model.named_weights(),
            ignore=IGNORED_TENSORS + tied,
            progress=progress,
        )
        self.cache = ContiguousKVCache(config, dtype=dtype, device=device)

    def start(self, request: Request) -> None:
        """Makes room for a request; the one before it must be finished."""
        self.cache.reserve(len(request.prompt_token_ids) + request.max_tokens)

    def execute(self, request: Request) -> int:
        """Computes what is not in the cache yet, and samples the next token."""
        logits = self.compute_logits(request)
        step = len(request.output_token_ids)
        return int(sample(logits, [request.params], [request.seed], [step]).item())

    @torch.inference_mode()
    def compute_logits(self, request: Request) -> torch.Tensor:
        """Runs the tokens that are not in the cache: the last one's logits [1, vocab_size]."""
        start, end = request.num_computed_tokens, request.num_tokens
        token_ids = torch.tensor(request.new_token_ids, device=self.device)
        positions = torch.arange(start, end, device=self.device)
        attend = ContiguousAttend(self.model.ops, self.cache, positions, end)
        hidden = self.model.forward(token_ids, positions, attend)
        request.num_computed_tokens = end
        return self.model.compute_logits(hidden[-1:])
