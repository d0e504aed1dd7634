"""LLM: vLLM's front door. What comes out, when it stops, and what it says to bad input."""

from itertools import zip_longest

import pytest
import torch

from tinyvllm import LLM, SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=12)


def generate(llm, prompts, params):
    return llm.generate(prompts, params, use_tqdm=False)


def test_outputs_come_in_the_order_of_the_prompts(tiny_llm):
    prompts = ["one", "two two", "three three three"]
    outputs = generate(tiny_llm, prompts, GREEDY)
    assert [o.prompt for o in outputs] == prompts
    for prompt, output in zip(prompts, outputs):
        assert generate(tiny_llm, prompt, GREEDY)[0].outputs == output.outputs
        assert output.finished and output.outputs[0].index == 0


def test_the_forms_of_a_prompt_are_equal(tiny_llm):
    ids = tiny_llm.get_tokenizer().encode("Hello there")
    forms = ["Hello there", {"prompt": "Hello there"}, ids, {"prompt_token_ids": ids}]
    outputs = generate(tiny_llm, forms, GREEDY)
    assert len({tuple(o.outputs[0].token_ids) for o in outputs}) == 1
    assert [o.prompt for o in outputs] == ["Hello there", "Hello there", None, None]
    assert all(o.prompt_token_ids == ids for o in outputs)
    assert generate(tiny_llm, ids, GREEDY)[0].outputs == outputs[2].outputs


def test_text_is_the_decoded_token_ids(tiny_llm):
    params = SamplingParams(temperature=1.0, max_tokens=60, seed=3, ignore_eos=True)
    (output,) = generate(tiny_llm, "Hello", params)
    completion = output.outputs[0]
    assert len(completion.token_ids) == 60 and completion.finish_reason == "length"
    assert completion.text == tiny_llm.get_tokenizer().decode(completion.token_ids)


def test_max_tokens_is_16_by_default_and_temperature_1():
    assert (SamplingParams().max_tokens, SamplingParams().temperature) == (16, 1.0)


def test_generation_stops_at_max_model_len(tiny_folder):
    llm = LLM(tiny_folder, device="cpu", max_model_len=20, use_tqdm_on_load=False)
    ids = list(range(100, 115))
    for max_tokens in (None, 100):
        params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
        (output,) = generate(llm, ids, params)
        assert len(output.outputs[0].token_ids) == 5
        assert output.outputs[0].finish_reason == "length"


def test_a_stop_token_id_ends_the_answer_and_is_named(tiny_llm):
    (free,) = generate(tiny_llm, "Hello", GREEDY)
    ids = free.outputs[0].token_ids
    stop = next(t for i, t in enumerate(ids) if i >= 3 and t not in ids[:i])
    at = ids.index(stop)
    params = SamplingParams(temperature=0, max_tokens=12, stop_token_ids=[stop])
    (output,) = generate(tiny_llm, "Hello", params)
    completion = output.outputs[0]
    assert completion.token_ids == ids[: at + 1]
    assert (completion.finish_reason, completion.stop_reason) == ("stop", stop)
    assert completion.text == tiny_llm.get_tokenizer().decode(ids[:at])


def test_the_eos_token_ends_the_answer_unless_ignored(llm):
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    (output,) = llm.chat(messages, SamplingParams(temperature=0, max_tokens=40), use_tqdm=False)
    completion = output.outputs[0]
    assert completion.text == "The capital of France is Paris."
    assert completion.token_ids[-1] == llm.get_tokenizer().token_to_id("<|im_end|>")
    assert (completion.finish_reason, completion.stop_reason) == ("stop", None)
    params = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
    (output,) = llm.chat(messages, params, use_tqdm=False)
    assert len(output.outputs[0].token_ids) == 12
    assert output.outputs[0].token_ids[:8] == completion.token_ids


@pytest.mark.parametrize("include", [False, True])
def test_a_stop_string_across_tokens_cuts_the_text(tiny_llm, include):
    (free,) = generate(tiny_llm, "Hello", GREEDY)
    tokenizer, completion = tiny_llm.get_tokenizer(), free.outputs[0]
    pieces = [tokenizer.decode(completion.token_ids[: i + 1]) for i in range(12)]
    border = len(pieces[3])
    stop = pieces[-1][border - 2 : border + 2]  # the end of one token, the beginning of the next
    params = SamplingParams(
        temperature=0, max_tokens=12, stop=["never there", stop], include_stop_str_in_output=include
    )
    (output,) = generate(tiny_llm, "Hello", params)
    stopped = output.outputs[0]
    begin = pieces[-1].index(stop)
    assert stopped.text == pieces[-1][: begin + (len(stop) if include else 0)]
    assert (stopped.finish_reason, stopped.stop_reason) == ("stop", stop)
    assert stopped.token_ids == completion.token_ids[: len(stopped.token_ids)]
    assert len(stopped.token_ids) < 12


def test_the_same_seed_gives_the_same_answer_and_another_seed_another(tiny_llm):
    def sampled(seed):
        params = SamplingParams(temperature=1.0, max_tokens=12, seed=seed, ignore_eos=True)
        return generate(tiny_llm, "Hello", params)[0].outputs[0].token_ids

    assert sampled(1) == sampled(1)
    assert sampled(1) != sampled(2)


def test_requests_without_a_seed_differ_and_two_engines_agree(tiny_folder):
    params = SamplingParams(temperature=1.0, max_tokens=12, ignore_eos=True)

    def run():
        llm = LLM(tiny_folder, device="cpu", seed=7, use_tqdm_on_load=False)
        return [o.outputs[0].token_ids for o in generate(llm, ["Hello"] * 3, params)]

    first = run()
    assert len({tuple(ids) for ids in first}) == 3
    assert run() == first


def test_each_prompt_may_have_its_own_parameters(tiny_llm):
    params = [SamplingParams(temperature=0, max_tokens=n, ignore_eos=True) for n in (1, 5)]
    outputs = generate(tiny_llm, ["a", "b"], params)
    assert [len(o.outputs[0].token_ids) for o in outputs] == [1, 5]
    with pytest.raises(ValueError, match="2 prompts came with 3"):
        generate(tiny_llm, ["a", "b"], [GREEDY] * 3)


def test_no_prompts_give_no_outputs(tiny_llm):
    assert generate(tiny_llm, [], GREEDY) == []


def test_a_stream_adds_up_to_the_answer(tiny_llm):
    (whole,) = generate(tiny_llm, "Hello", GREEDY)
    parts = list(tiny_llm.stream("Hello", GREEDY))
    assert "".join(p.outputs[0].text for p in parts) == whole.outputs[0].text
    assert [t for p in parts for t in p.outputs[0].token_ids] == whole.outputs[0].token_ids
    assert [p.finished for p in parts] == [False] * 11 + [True]


def test_a_stream_never_shows_a_part_of_a_stop_string(tiny_llm):
    (free,) = generate(tiny_llm, "Hello", GREEDY)
    text = free.outputs[0].text
    stop = text[10:16]
    params = SamplingParams(temperature=0, max_tokens=12, stop=stop)
    shown = ""
    for part in tiny_llm.stream("Hello", params):
        shown += part.outputs[0].text
        assert text[: text.index(stop)].startswith(shown)
    assert shown == text[: text.index(stop)]


def test_streams_may_be_interleaved_and_abandoned(tiny_llm):
    expected = {p: generate(tiny_llm, p, GREEDY)[0].outputs[0].token_ids for p in ("a", "b")}
    abandoned = tiny_llm.stream("c", GREEDY)
    next(abandoned)
    abandoned.close()
    streams = {p: tiny_llm.stream(p, GREEDY) for p in expected}
    got = {p: [] for p in expected}
    for parts in zip_longest(*streams.values()):
        for prompt, part in zip(streams, parts):
            got[prompt] += part.outputs[0].token_ids if part else []
    assert got == expected
    assert not tiny_llm.llm_engine.has_unfinished_requests()


def test_chat_is_generate_on_the_templated_text(llm):
    messages = [{"role": "user", "content": "Hi"}]
    text = llm.get_tokenizer().apply_chat_template(messages)
    ids = llm.get_tokenizer().encode(text, add_special_tokens=False)
    params = SamplingParams(temperature=0, max_tokens=3)
    (expected,) = generate(llm, {"prompt_token_ids": ids}, params)
    one = llm.chat(messages, params, use_tqdm=False)
    several = llm.chat([messages, messages], params, use_tqdm=False)
    assert [o.outputs for o in one + several] == [expected.outputs] * 3


def test_defaults_come_from_generation_config_only_when_no_parameters_are_given(tiny_llm):
    config = tiny_llm.llm_engine.generation_config
    before = dict(config)
    try:
        config |= {"temperature": 0.3, "top_k": 7, "max_new_tokens": 2}
        params = tiny_llm.get_default_sampling_params()
        assert (params.temperature, params.top_k, params.max_tokens) == (0.3, 7, 2)
        assert len(tiny_llm.generate("Hello", use_tqdm=False)[0].outputs[0].token_ids) == 2
        assert SamplingParams().temperature == 1.0
    finally:
        config.clear()
        config.update(before)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("", "empty"),
        ({"prompt_token_ids": []}, "empty"),
        ([5, 49152], "Token id 49152 at position 1"),
        ([-1], "Token id -1 at position 0"),
        ([1.5, 2.5], "a float"),
        (["a", 3], "an int|a int"),
        ({"prompt": "a", "prompt_token_ids": [1]}, "keys"),
        ({"text": "a"}, "keys"),
        (3, "prompt or a list of prompts"),
        (list(range(256)), "256 tokens, and max_model_len is 256"),
    ],
)
def test_a_bad_prompt_is_refused_in_words(tiny_llm, prompt, words):
    with pytest.raises(ValueError, match=words):
        generate(tiny_llm, prompt, GREEDY)
    assert not tiny_llm.llm_engine.has_unfinished_requests()


def test_a_bad_prompt_leaves_none_of_its_call_behind(tiny_llm):
    with pytest.raises(ValueError, match="empty"):
        generate(tiny_llm, ["good", ""], GREEDY)
    assert not tiny_llm.llm_engine.has_unfinished_requests()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"temperature": -0.1}, "temperature must be at least 0"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, r"top_p must be in \(0, 1\]"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"top_k": 1.5}, "top_k"),
        ({"min_p": 2}, "min_p"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"seed": "x"}, "seed"),
        ({"stop": [""]}, "empty string"),
        ({"stop": [3]}, "stop must be"),
        ({"stop": "x", "detokenize": False}, "detokenize=False"),
        ({"stop_token_ids": ["x"]}, "stop_token_ids"),
        ({"n": 2}, "n=2 is not supported yet"),
        ({"presence_penalty": 0.5}, "presence_penalty=0.5 is not supported yet"),
        ({"logprobs": 3}, "logprobs=3 is not supported yet"),
    ],
)
def test_bad_or_missing_sampling_parameters_are_refused_by_name(parameters, words):
    with pytest.raises(ValueError, match=words):
        SamplingParams(**parameters)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_model_len": 1}, "at least 2"),
        ({"max_model_len": 10**6}, "more than the 256 positions"),
        ({"dtype": "int8"}, "dtype 'int8' is not supported"),
        ({"device": "mps"}, "device 'mps' is not supported"),
        ({"tensor_parallel_size": 2}, "no option tensor_parallel_size"),
    ],
)
def test_bad_engine_options_are_refused_by_name(tiny_folder, options, words):
    with pytest.raises(ValueError, match=words):
        LLM(tiny_folder, use_tqdm_on_load=False, **{"device": "cpu"} | options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_cuda_without_a_gpu_is_a_sentence(tiny_folder):
    with pytest.raises(ValueError, match="torch finds no CUDA GPU"):
        LLM(tiny_folder, device="cuda", use_tqdm_on_load=False)


def test_an_engine_runs_requests_and_aborts(tiny_llm):
    engine = tiny_llm.llm_engine
    engine.add_request("x", "Hello", GREEDY)
    with pytest.raises(ValueError, match="already in the engine"):
        engine.add_request("x", "Hello", GREEDY)
    engine.add_request("y", "Hello", GREEDY)
    (output,) = engine.step()
    assert output.request_id == "x" and not output.finished
    engine.abort_request("x")
    (output,) = engine.step()
    assert output.request_id == "y"
    engine.abort_request("y")
    assert not engine.has_unfinished_requests() and engine.step() == []
