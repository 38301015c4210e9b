"""The differences of two texts, word by word."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rapidfuzz.distance import LCSseq

from agentv.scoring.text.words import tokens_of

MAX_CHARS = 20_000
"""The length of a text up to which its words are compared."""

_MAX_TOKENS = 10_000
"""The number of words and signs of a text that are compared; two texts of this length take about 10 ms."""


class Piece(NamedTuple):
    """A piece of two texts: the same words in both, or words of one that are replaced by those of the other."""

    before: str
    after: str
    is_same: bool
    """True if both have the same words; the white space between them may differ."""


def word_differences(before: str, after: str) -> tuple[Piece, ...] | None:
    """Return the pieces of two texts in order; None for a text that is too long to be compared.

    The `before` of all pieces together are the first text, the `after` the second. A few words in common between
    longer differences belong to the difference, since they are in both by chance.

    >>> [(piece.before, piece.after) for piece in word_differences("It is 4.", "It is 5.")]
    [('It is ', 'It is '), ('4', '5'), ('.', '.')]
    """
    if before == after:
        return (Piece(before, after, is_same=True),) if before else ()
    if len(before) > MAX_CHARS or len(after) > MAX_CHARS:
        return None
    old, new = tokens_of(before), tokens_of(after)
    if len(old) > _MAX_TOKENS or len(new) > _MAX_TOKENS:
        return None
    return tuple(_without_chance_matches(_pieces(old, new)))


def _pieces(old: list[str], new: list[str]) -> Iterator[Piece]:
    """Yield pieces of equal words and of different words in turns."""
    numbers: dict[str, int] = {}
    first, second = ([numbers.setdefault(token.rstrip(), len(numbers)) for token in tokens] for tokens in (old, new))
    at_old = at_new = 0
    for block in LCSseq.editops(first, second).as_matching_blocks():
        if block.a > at_old or block.b > at_new:
            yield Piece("".join(old[at_old : block.a]), "".join(new[at_new : block.b]), is_same=False)
        at_old, at_new = block.a + block.size, block.b + block.size
        if block.size:
            yield Piece("".join(old[block.a : at_old]), "".join(new[block.b : at_new]), is_same=True)


def _without_chance_matches(pieces: Iterable[Piece]) -> list[Piece]:
    """Return pieces, where equal words that are shorter than the differences on both sides are part of these."""
    kept: list[Piece] = []
    for piece in pieces:
        kept.append(piece)
        while len(kept) > 2 and _is_by_chance(*kept[-3:]):  # noqa: PLR2004 - a difference, equal words, a difference
            parts = kept[-3:]
            del kept[-3:]
            before, after = ("".join(texts) for texts in list(zip(*parts, strict=True))[:2])
            kept.append(Piece(before, after, is_same=False))
    return kept


def _is_by_chance(first: Piece, same: Piece, second: Piece) -> bool:
    if not same.is_same or first.is_same or second.is_same:
        return False
    length = len(same.after.strip())
    return all(length <= max(len(each.before), len(each.after)) for each in (first, second))
