"""The default model's tokenizer on text that breaks tokenizers.

The oracle is byte-level BPE written out below: numbers come apart into digits, GPT-2's pattern
splits the rest, and the pair with the lowest rank is merged until none is left. (Not transformers'
own GGUF conversion, which forgets the digits.)
"""

import json
from itertools import pairwise

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

GPT2 = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
# Bytes that no token stands for.
MISSING = {0xC0, 0xC1, 0xF1, 0xF2, *range(0xF5, 0x100), 0x04, 0x06, 0x13, 0x14, 0x16, 0x1D}
NASTY = [
    "", " ", "  ", "\n", "\r\n\t", " \n \n", "a", " a", "a  b   c", "trailing   ",
    "Hello, world!", "don't we'll I'M you'RE", "3.14159", "1234567890", "in 1999 and2000",
    " 7", "a  1", "  12", "costs\n\n5 dollars", "1 2 3\n 4", "½ cup ¾", "page ① of ②",
    "１２３", "x²+y³", "½ ⅔ Ⅷ ⅻ", "①②③", "٠١٢٣ १२३ ৪৫", "十二", "一二三四",
    "日本語のテキスト", "한국어 문장", "你好，世界", "עברית مرحبا", "ไทยไม่มีเว้นวรรค",
    "👩‍👩‍👧‍👦", "🏳️‍🌈 flag", "👍🏽", "e\u0301 é", "Z̸̢͝a̷l̶g̵o̷", "\u200b\ufeff\u00a0\u3000",
    "naïve café", "ﬁ ﬀ", "\u0000\u0001\u007f", "\U000f0000\U0010fffd",
    "def f(x):\n\treturn x**2  # 1e-5\n",
    "<|im_start|>user\n1+1<|im_end|>", "<|endoftext|><|endoftext|>", "<|im_start", "a<repo_name>b",
    "http://a.b/c?d=1&e=%20", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA", "\\n\\t", "“quotes” – dashes…",
]  # fmt: skip


@pytest.fixture(scope="module")
def content(default_model_dir) -> dict:
    return json.loads((default_model_dir / "tokenizer.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tokenizer(default_model_dir) -> Tokenizer:
    return Tokenizer.from_file(str(default_model_dir / "tokenizer.json"))


@pytest.fixture(scope="module")
def reference(content):
    """text -> token ids, from the vocabulary and the merges alone."""
    vocab = content["model"]["vocab"]
    ranks = {tuple(merge): rank for rank, merge in enumerate(content["model"]["merges"])}
    special = regex.compile("|".join(regex.escape(t["content"]) for t in content["added_tokens"]))
    symbols = byte_symbols()

    def bpe(piece: str) -> list[int]:
        parts = [symbols[byte] for byte in piece.encode() if symbols[byte] in vocab]
        while True:
            pairs = [ranks.get(pair, len(ranks)) for pair in pairwise(parts)]
            if not pairs or min(pairs) == len(ranks):
                return [vocab[part] for part in parts]
            at = pairs.index(min(pairs))
            parts[at : at + 2] = [parts[at] + parts[at + 1]]

    def plain(text: str) -> list[int]:
        pieces = regex.findall(r"\p{N}|\P{N}+", text)
        return [i for piece in pieces for split in GPT2.findall(piece) for i in bpe(split)]

    def encode(text: str) -> list[int]:
        ids, at = [], 0
        for match in special.finditer(text):
            ids += [*plain(text[at : match.start()]), vocab[match[0]]]
            at = match.end()
        return ids + plain(text[at:])

    return encode


def byte_symbols() -> list[str]:
    """GPT-2's table: a printable Latin-1 byte stands for itself, the others for U+0100 onwards."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


@pytest.mark.parametrize("text", NASTY)
def test_text_is_split_and_merged_by_the_rules(tokenizer, reference, text):
    assert tokenizer.encode(text).ids == reference(text)


def test_every_digit_is_a_token_of_its_own(tokenizer):
    assert tokenizer.encode("12345").tokens == list("12345")
    assert tokenizer.encode("in 1999").tokens == ["in", "Ġ", "1", "9", "9", "9"]


def test_the_rules_would_notice_numbers_that_stay_whole(tokenizer, content, reference):
    """Without the digits rule, as transformers converts a GGUF, these come out otherwise."""
    whole = json.loads(json.dumps(content))
    steps = whole["pre_tokenizer"]["pretokenizers"]
    whole["pre_tokenizer"]["pretokenizers"] = [s for s in steps if s["type"] != "Digits"]
    whole = Tokenizer.from_str(json.dumps(whole))
    assert sum(whole.encode(text).ids != reference(text) for text in NASTY) >= 5


def test_control_tokens_are_one_token_and_nothing_is_put_in_front(tokenizer, content):
    assert [token["id"] for token in content["added_tokens"]] == list(range(17))
    assert all(token["special"] for token in content["added_tokens"])
    assert tokenizer.encode("<|im_start|>").ids == [1]
    assert tokenizer.encode("<|im_end|>").ids == [2]
    assert tokenizer.encode("<|endoftext|>").ids == [0]
    assert tokenizer.encode("").ids == []


def test_the_vocabulary_is_49152_tokens_without_gaps(content):
    assert sorted(content["model"]["vocab"].values()) == list(range(49152))
    assert len(content["model"]["merges"]) == 48900


def test_just_the_known_bytes_are_missing_and_vanish(tokenizer, content):
    symbols, vocab = byte_symbols(), content["model"]["vocab"]
    assert {byte for byte in range(256) if symbols[byte] not in vocab} == MISSING
    assert tokenizer.decode(tokenizer.encode("\x04\x06a").ids) == "a"


# U+40000..U+BFFFF are the characters whose first byte is f1 or f2.
CHARACTERS = st.characters(exclude_categories=["Cs"]).filter(
    lambda c: not MISSING.intersection(c.encode())
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(CHARACTERS, max_size=60) | st.text(st.sampled_from("01 2\n'st.é<|_ax"), max_size=60))
def test_decoding_gives_back_what_was_encoded(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_transformers_tokenizes_with_it_in_the_same_way(default_model_dir, tokenizer):
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(default_model_dir)
    for text in NASTY:
        assert theirs.encode(text) == tokenizer.encode(text).ids, text
