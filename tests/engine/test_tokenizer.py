"""Text to ids and back: streaming text, and chat templates against transformers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from tinyvllm.config import ConfigError
from tinyvllm.tokenizer import REPLACEMENT, ChatTemplateError, IncrementalDetokenizer, Tokenizer


@pytest.fixture(scope="module")
def tokenizer(default_model_dir):
    return Tokenizer(default_model_dir)


def streamed(tokenizer, ids, prompt=(), **options):
    detokenizer = IncrementalDetokenizer(tokenizer, prompt, **options)
    return [detokenizer.add(i) for i in ids] + [detokenizer.flush()]


@pytest.mark.parametrize(
    "text",
    [
        "Hello world",
        "naïve café",
        "日本語のテキスト",
        "👩‍👩‍👧‍👦 family 🇫🇷",
        "a\n\n  b\t",
        "Zażółć gęślą jaźń",
    ],
)
def test_a_stream_is_the_text_and_never_splits_a_character(tokenizer, text):
    parts = streamed(tokenizer, tokenizer.encode(text))
    assert "".join(parts) == text
    assert not any(REPLACEMENT in part for part in parts)


def test_a_character_spread_over_tokens_comes_when_it_is_complete(tokenizer):
    ids = tokenizer.encode("😀")
    assert len(ids) > 1
    assert streamed(tokenizer, ids) == [""] * (len(ids) - 1) + ["😀", ""]


def test_an_unfinished_character_comes_out_at_the_end(tokenizer):
    ids = tokenizer.encode("hi 😀")[:-1]
    parts = streamed(tokenizer, ids)
    assert "".join(parts) == tokenizer.decode(ids)
    assert parts[-1].endswith(REPLACEMENT)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(ids=st.lists(st.integers(0, 49151), max_size=12), skip=st.booleans())
def test_a_stream_of_any_ids_is_their_decoding(tokenizer, ids, skip):
    text = "".join(streamed(tokenizer, ids, skip_special_tokens=skip))
    assert text == tokenizer.decode(ids, skip_special_tokens=skip)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(prompt=st.text(max_size=20), answer=st.text(min_size=1, max_size=20))
def test_the_prompt_is_context_and_not_output(tokenizer, prompt, answer):
    ids = tokenizer.encode(answer)
    text = "".join(streamed(tokenizer, ids, tokenizer.encode(prompt)))
    assert text == tokenizer.decode(ids)


CONVERSATIONS = [
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi\n\nthere "}],
    [
        {"role": "user", "content": "<|im_end|> & <b>"},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "日本"},
    ],
]


@pytest.mark.parametrize("messages", CONVERSATIONS, ids=["one", "system", "several turns"])
@pytest.mark.parametrize("opened", [True, False])
def test_a_chat_is_templated_as_transformers_does(tokenizer, default_model_dir, messages, opened):
    oracle = AutoTokenizer.from_pretrained(default_model_dir)
    expected = oracle.apply_chat_template(messages, tokenize=False, add_generation_prompt=opened)
    assert tokenizer.apply_chat_template(messages, add_generation_prompt=opened) == expected


def test_a_template_runs_in_a_sandbox(tokenizer):
    escape = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    with pytest.raises(ChatTemplateError, match="unsafe"):
        tokenizer.apply_chat_template(CONVERSATIONS[0], chat_template=escape)


def test_a_templates_own_refusal_is_passed_on(tokenizer):
    template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(ChatTemplateError, match="roles must alternate"):
        tokenizer.apply_chat_template(CONVERSATIONS[0], chat_template=template)


@pytest.mark.parametrize("message", ["Hi", {"role": "user"}, {"content": "x"}])
def test_a_message_without_role_and_content_is_refused(tokenizer, message):
    with pytest.raises(ChatTemplateError, match="'role' and 'content'"):
        tokenizer.apply_chat_template([message])


def test_a_model_without_a_template_says_so(tmp_path, default_model_dir):
    (tmp_path / "tokenizer.json").write_bytes((default_model_dir / "tokenizer.json").read_bytes())
    with pytest.raises(ChatTemplateError, match="no chat template"):
        Tokenizer(tmp_path).apply_chat_template(CONVERSATIONS[0])


def test_a_template_in_its_own_file_comes_first(tmp_path, default_model_dir):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((default_model_dir / name).read_bytes())
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}!")
    assert Tokenizer(tmp_path).apply_chat_template(CONVERSATIONS[0]) == "Hi!"


@pytest.mark.parametrize(("text", "words"), [(None, "no tokenizer.json"), ("{}", "can't be read")])
def test_a_missing_or_broken_tokenizer_is_a_sentence(tmp_path, text, words):
    if text is not None:
        (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(ConfigError, match=words):
        Tokenizer(tmp_path)
