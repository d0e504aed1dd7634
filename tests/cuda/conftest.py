"""Every test of the language runs on both sides: in the emulator, and (marked gpu) on an NVIDIA
GPU."""

import pytest
import torch


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request) -> str:
    """Where the kernel runs."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here: run `make test-gpu` on a machine that has one")
    return request.param
