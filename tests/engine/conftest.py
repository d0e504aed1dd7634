"""Models for the engine's tests: the default one, and a tiny random one with a real tokenizer."""

import os
import shutil

import pytest
import torch
from engine.tiny import random_llama, save

torch.set_num_threads(1 if "PYTEST_XDIST_WORKER" in os.environ else 2)


@pytest.fixture(scope="session")
def llm(default_model_dir):
    """The default model on the CPU in float32; its cache is the engine's own business."""
    from tinyvllm import LLM

    return LLM(default_model_dir, device="cpu", max_model_len=512, use_tqdm_on_load=False)


@pytest.fixture(scope="session")
def tiny_folder(default_model_dir, tmp_path_factory):
    """A tiny random Llama with the default model's tokenizer (49,152 tokens)."""
    folder = tmp_path_factory.mktemp("tiny") / "model"
    save(random_llama(vocab_size=49152, tie_word_embeddings=True), folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(default_model_dir / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def tiny_llm(tiny_folder):
    from tinyvllm import LLM

    return LLM(tiny_folder, device="cpu", use_tqdm_on_load=False)
