"""What the user sees while a model is fetched: sentences and bars, on stderr, or nothing at all."""

import sys


class Progress:
    """`Progress(False)` says nothing. Results go to stdout, where none of this is in their way."""

    def __init__(self, shown: bool = True):
        self.shown = shown

    def say(self, sentence: str) -> None:
        """Print one sentence now."""
        if self.shown:
            print(sentence, file=sys.stderr, flush=True)

    def bar(self, what: str, total: int, unit: str):
        """A tqdm bar over `total` units (a context manager; `.update(n)` advances it)."""
        from tqdm import tqdm

        return tqdm(
            desc=what,
            total=total,
            unit=unit,
            unit_scale=True,
            file=sys.stderr,
            mininterval=0.5,
            disable=not self.shown,
        )
