"""Texts for benchmarks: made-up words, the same in every run."""

import random
from collections.abc import Sequence

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def make_words(count: int, *, seed: int) -> tuple[str, ...]:
    """Return different words of four to nine letters."""
    rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(rng.choices(_LETTERS, k=rng.randint(4, 9)))] = None
    return tuple(words)


def make_text(words: Sequence[str], characters: int, *, seed: int) -> str:
    """Return a text of exactly `characters` characters, in sentences of twelve of these words."""
    rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
    sentences: list[str] = []
    while sum(map(len, sentences)) + len(sentences) < characters:
        sentences.append(" ".join(rng.choices(words, k=12)).capitalize() + ".")
    return " ".join(sentences)[:characters]
