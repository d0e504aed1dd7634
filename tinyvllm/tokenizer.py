"""Text to token ids and back: the `tokenizers` library, a chat template, and streaming text.

The chat template is the model's own Jinja text, run in jinja2's sandbox, since it comes from a
checkpoint and not from us.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path

import jinja2
import jinja2.ext
import jinja2.sandbox
import tokenizers

from tinyvllm.config import ConfigError, read_json

REPLACEMENT = "\ufffd"  # what undecodable bytes turn into


class ChatTemplateError(ValueError):
    """The model has no chat template, or its template refuses these messages."""


class Tokenizer:
    """The tokenizer of a Hugging Face folder (tokenizer.json)."""

    def __init__(self, folder: str | Path):
        folder = Path(folder)
        path = folder / "tokenizer.json"
        if not path.exists():
            raise ConfigError(f"{folder} has no tokenizer.json; other formats are not supported.")
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise ConfigError(f"{path} can't be read as a tokenizer: {error}.") from error
        config_path = folder / "tokenizer_config.json"
        self._config = read_json(config_path) if config_path.exists() else {}
        self._template_path = folder / "chat_template.jinja"

    @property
    def vocab_size(self) -> int:
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text; special tokens written in it become their ids."""
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of token ids; bytes that are no UTF-8 become U+FFFD."""
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=skip_special_tokens)

    def token_to_id(self, token: str) -> int | None:
        return self._tokenizer.token_to_id(token)

    @cached_property
    def chat_template(self) -> str | None:
        """The model's template: chat_template.jinja, or the text in tokenizer_config.json."""
        if self._template_path.exists():
            return self._template_path.read_text(encoding="utf-8")
        template = self._config.get("chat_template")
        if isinstance(template, list):  # several, by name
            template = next((t["template"] for t in template if t["name"] == "default"), None)
        return template

    def apply_chat_template(
        self,
        messages: Sequence[dict[str, str]],
        *,
        add_generation_prompt: bool = True,
        chat_template: str | None = None,
    ) -> str:
        """The text that a conversation becomes; `add_generation_prompt` opens the assistant's turn.

        messages: [{"role": "user", "content": "…"}, …]. Raises ChatTemplateError.
        """
        template = chat_template or self.chat_template
        if template is None:
            raise ChatTemplateError(
                "This model has no chat template: use generate() with a plain prompt, or pass "
                "chat_template=."
            )
        for message in messages:
            if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
                raise ChatTemplateError(
                    f"A message is a dict with 'role' and 'content'; this one is {message!r}."
                )
        try:
            compiled = _environment().from_string(template)
            return compiled.render(
                messages=list(messages),
                add_generation_prompt=add_generation_prompt,
                **self._special_tokens,
            )
        except jinja2.TemplateError as error:
            raise ChatTemplateError(f"The chat template refuses this: {error}.") from error

    @cached_property
    def _special_tokens(self) -> dict[str, str]:
        def text(value) -> str | None:
            return value.get("content") if isinstance(value, dict) else value

        names = ("bos_token", "eos_token", "unk_token", "pad_token")
        return {n: text(self._config[n]) for n in names if self._config.get(n)}


class IncrementalDetokenizer:
    """Turns token ids into text as they come, never splitting a character.

    A character may be spread over several tokens, and a token's text may depend on the one before
    it. So text is held back while it ends in U+FFFD, and each step decodes from a little earlier
    (at first, from the end of the prompt): the new text is what the longer decoding has more than
    the shorter one.
    """

    PROMPT_TOKENS = 5  # enough context for any tokenizer's rule about spaces

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_token_ids: Sequence[int] = (),
        *,
        skip_special_tokens: bool = True,
    ):
        self._tokenizer, self._skip = tokenizer, skip_special_tokens
        self._ids = list(prompt_token_ids[-self.PROMPT_TOKENS :])
        if self._decode(self._ids).endswith(REPLACEMENT):
            self._ids = []  # a prompt that ends inside a character is no context
        self._context = 0  # ids from here on are decoded at each step
        self._shown = len(self._ids)  # ids before this one are already in the text

    def add(self, token_id: int) -> str:
        """The text that this token completes; "" while a character is unfinished."""
        self._ids.append(token_id)
        new = self._new_text()
        if not new or new.endswith(REPLACEMENT):
            return ""
        self._context, self._shown = self._shown, len(self._ids)
        return new

    def flush(self) -> str:
        """What was held back, U+FFFD included. To be called once, at the end."""
        new = self._new_text()
        self._shown = len(self._ids)
        return new

    def _new_text(self) -> str:
        before = self._decode(self._ids[self._context : self._shown])
        return self._decode(self._ids[self._context :])[len(before) :]

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=self._skip)


def _environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    """Jinja as chat templates expect it: what `transformers` offers them, in a sandbox."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )

    def raise_exception(message: str):
        raise jinja2.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda fmt: datetime.now().strftime(fmt)
    return environment
