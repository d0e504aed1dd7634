"""A conversation in a terminal. Ctrl-C stops the answer, not the program."""

import contextlib
from collections.abc import Callable

HELP = "/reset forgets the conversation, /exit or Ctrl-D leaves; Ctrl-C stops an answer."


class Chat:
    """Reads lines, answers them, and remembers both.

    answer(llm, messages): prints an answer as it comes and returns its text.
    """

    def __init__(self, llm, answer: Callable[..., str]):
        self._llm, self._answer = llm, answer
        self._messages: list[dict[str, str]] = []

    def loop(self) -> int:
        with contextlib.suppress(ImportError):  # not built in everywhere
            import readline  # noqa: F401 - gives input() line editing and history
        print(HELP)
        while True:
            try:
                line = input("\n> ").strip()
            except EOFError:
                print()
                return 0
            except KeyboardInterrupt:
                print("\nCtrl-D leaves.")
                continue
            if line in ("/exit", "/quit"):
                return 0
            elif line == "/reset":
                self._messages.clear()
                print("The conversation starts again.")
            elif line == "/help" or line.startswith("/"):
                print(HELP)
            elif line:
                self._say(line)

    def _say(self, line: str) -> None:
        """Adds a question and its answer to the conversation, or neither."""
        messages = [*self._messages, {"role": "user", "content": line}]
        try:
            text = self._answer(self._llm, messages)
        except KeyboardInterrupt:
            print("\n[stopped; this question is forgotten]")
        except ValueError as error:  # too long by now, most likely
            print(f"{error} (/reset starts a new conversation.)")
        else:
            self._messages = [*messages, {"role": "assistant", "content": text}]
