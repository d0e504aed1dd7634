"""The default model, against transformers in the same run: the same tokens, to the last one."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from tinyvllm import LLM, SamplingParams

PROMPTS = [
    "The capital of France is",
    "def fibonacci(n):\n",
    "Once upon a time, in a small village by the sea,",
    "1, 2, 3, 4,",
]
NEW_TOKENS = 24
# Where transformers' two likeliest tokens are closer than this, either is right in float32: the
# comparison of that prompt ends there, and is counted.
NEAR_TIE = 1e-3


@pytest.fixture(scope="module")
def oracle(default_model_dir):
    return AutoModelForCausalLM.from_pretrained(default_model_dir, dtype=torch.float32).eval()


@torch.inference_mode()
def greedy_with_gaps(model, ids):
    """transformers' greedy tokens, and each one's lead over the second likeliest logit."""
    out = model.generate(
        torch.tensor([ids]),
        max_new_tokens=NEW_TOKENS,
        min_new_tokens=NEW_TOKENS,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
    )
    top = torch.stack([step[0].topk(2).values for step in out.logits])
    return out.sequences[0, len(ids) :].tolist(), (top[:, 0] - top[:, 1]).tolist()


def compare(llm, oracle, tolerance=NEAR_TIE):
    """How many of the compared tokens were equal, and how many prompts a near-tie cut short."""
    compared = excused = 0
    params = SamplingParams(temperature=0, max_tokens=NEW_TOKENS, ignore_eos=True)
    for output in llm.generate(PROMPTS, params, use_tqdm=False):
        expected, gaps = greedy_with_gaps(oracle, output.prompt_token_ids)
        for ours, theirs, gap in zip(output.outputs[0].token_ids, expected, gaps):
            if ours != theirs:
                assert gap < tolerance, f"{output.prompt!r}: {ours} instead of {theirs}, lead {gap}"
                excused += 1
                break
            compared += 1
    return compared, excused


def test_greedy_tokens_equal_transformers(llm, oracle):
    compared, excused = compare(llm, oracle)
    print(f"{compared} tokens equal, {excused} prompts cut short at a near-tie (< {NEAR_TIE})")
    assert excused <= 1 and compared >= 3 * NEW_TOKENS


def test_it_knows_the_capital_of_france(llm):
    (output,) = llm.generate(
        "The capital of France is", SamplingParams(temperature=0, max_tokens=2), use_tqdm=False
    )
    assert output.outputs[0].text.startswith(" Paris")


@pytest.mark.gpu
def test_greedy_tokens_equal_transformers_on_the_gpu(default_model_dir, oracle):
    torch.backends.cuda.matmul.allow_tf32 = False
    llm = LLM(default_model_dir, device="cuda", dtype="float32", max_model_len=512)
    compared, excused = compare(llm, oracle)
    print(f"{compared} tokens equal, {excused} prompts cut short at a near-tie (< {NEAR_TIE})")
    assert excused <= 1 and compared >= 3 * NEW_TOKENS
