"""One model, three tables: plain torch, the CUDA kernels emulated, the CUDA kernels on a GPU.

In float32 they generate the same tokens; in the GPU's own dtypes logits stay within the table of
tolerances.
"""

import pytest
import torch
from engine.tiny import oracle_logits, random_llama, random_token_ids, save
from tolerances import LOGITS

from tinyvllm import LLM, SamplingParams
from tinyvllm.config import ModelConfig
from tinyvllm.models.attend import CausalAttend
from tinyvllm.models.registry import model_class
from tinyvllm.ops.kernel_table import kernel_ops
from tinyvllm.ops.select import select_ops
from tinyvllm.ops.table import reference_ops
from tinyvllm.weights.load import load_weights

PROMPTS = [[5, 6, 7], list(range(100, 140)), [49151]]
PARAMS = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
CPU, FP32 = torch.device("cpu"), torch.float32


def tokens(folder, **options):
    llm = LLM(folder, dtype="float32", use_tqdm_on_load=False, **options)
    return [o.outputs[0].token_ids for o in llm.generate(PROMPTS, PARAMS, use_tqdm=False)]


def test_emulated_kernels_generate_the_references_tokens(tiny_folder):
    expected = tokens(tiny_folder, device="cpu", kernels="reference")
    assert tokens(tiny_folder, device="cpu", kernels="emulated") == expected
    assert tokens(tiny_folder, device="cpu", kernels="promoted") == expected
    assert tokens(tiny_folder, device="cpu", kernels="auto") == expected


@pytest.mark.gpu
def test_gpu_kernels_generate_the_references_tokens(tiny_folder):
    torch.backends.cuda.matmul.allow_tf32 = False
    expected = tokens(tiny_folder, device="cpu", kernels="reference")
    for kernels in ("promoted", "auto", "reference"):
        assert tokens(tiny_folder, device="cuda", kernels=kernels) == expected


@pytest.mark.parametrize("dtype", LOGITS, ids=str)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_logits_of_the_kernels_are_those_of_transformers(tmp_path, device, dtype):
    torch.backends.cuda.matmul.allow_tf32 = False
    oracle = random_llama(head_dim=16, attention_bias=True)
    folder = save(oracle, tmp_path / "model")
    config = ModelConfig.from_folder(folder)
    model = model_class(config.architecture)(
        config, ops=kernel_ops, dtype=dtype, device=device, max_model_len=64
    )
    load_weights(folder, model.named_weights(), progress=False)
    token_ids = random_token_ids(oracle, 33)
    with torch.inference_mode():
        positions = torch.arange(33, device=device)
        hidden = model.forward(token_ids.to(device), positions, CausalAttend(kernel_ops))
        logits = model.compute_logits(hidden).cpu()
    expected = oracle_logits(oracle, token_ids)
    torch.testing.assert_close(logits, expected, atol=LOGITS[dtype], rtol=0)


def test_the_tables_have_the_kernels_they_say():
    assert select_ops(CPU, FP32, ["F32"], "reference") == (reference_ops, FP32)
    assert select_ops(CPU, FP32, ["F32"], "promoted") == (reference_ops, FP32)
    assert select_ops(CPU, FP32, ["BF16"], "emulated") == (kernel_ops, FP32)
    assert kernel_ops.embedding.__name__ == "embedding_kernel"


@pytest.mark.parametrize(
    ("device", "kernels", "words"),
    [("cpu", "fast", "one of auto, promoted"), ("cuda", "emulated", "add device='cpu'")],
)
def test_kernels_that_cannot_run_are_refused_in_words(device, kernels, words):
    with pytest.raises(ValueError, match=words):
        select_ops(torch.device(device), FP32, ["F32"], kernels)


def test_a_gpu_without_cupy_says_what_to_install(monkeypatch, caplog):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert select_ops(torch.device("cuda"), FP32, ["F32"], "auto") == (reference_ops, FP32)
    assert "EXTRAS=gpu" in caplog.text
    with pytest.raises(ValueError, match="EXTRAS=gpu"):
        select_ops(torch.device("cuda"), FP32, ["F32"], "promoted")
