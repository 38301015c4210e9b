"""Where the terms of a list stand in a text: in one pass with the extra `text`, else term by term."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from agentv.scoring.folding import Folding
from agentv.scoring.letter_swaps import is_swapped, swap_key
from agentv.scoring.words import is_edge_between

Candidate: TypeAlias = tuple[int, int, int]
"""The number of a pattern, and where it begins and ends."""

FEW_TERMS = 100
"""So many terms are quickly found one by one."""


class Term(Struct, frozen=True):
    """A term as it was written in the list, and as it is looked for."""

    written: str
    folded: str


class TermIndex:
    """Finds terms in texts that were folded by the same `folding`; those with swapped letters, too.

    `is_quick` tells that the time hardly depends on how many terms there are.
    """

    def __init__(self, terms: Iterable[str], folding: Folding, *, whole_words: bool) -> None:
        self._whole_words = whole_words
        by_key: dict[str, dict[str, Term]] = {}
        for written in terms:
            folded = folding.of(written)
            by_key.setdefault(swap_key(folded), {}).setdefault(folded, Term(written.strip(), folded))
        self._terms = tuple(tuple(each.values()) for each in by_key.values())
        search = _one_pass(tuple(by_key))
        self.is_quick = search is not None or len(by_key) <= FEW_TERMS
        self._search = search or _term_by_term(tuple(by_key))

    def find(self, folded: str) -> Iterator[tuple[Term, int, int]]:
        """Yield each term that stands in a folded text, with its place; every time that it does."""
        for number, start, end in self._search(swap_key(folded)):
            for term in self._terms[number]:
                if is_swapped(folded[start:end], term.folded) and self._stands_alone(term, folded, start, end):
                    yield term, start, end

    def _stands_alone(self, term: Term, folded: str, start: int, end: int) -> bool:
        """Whether no word goes on at either end. Signs inside count as the letters they stand for."""
        if not self._whole_words:
            return True
        before = folded[start - 1] if start else ""
        return is_edge_between(before, term.folded[0]) and is_edge_between(term.folded[-1], folded[end : end + 1])


def _one_pass(patterns: Sequence[str]) -> Callable[[str], Iterable[Candidate]] | None:
    """Return a search by an automaton; None without the package of the extra `text`."""
    try:
        from ahocorasick_rs import AhoCorasick  # noqa: PLC0415 - of an extra, and only lists of terms need it
    except ImportError:
        return None
    automaton = AhoCorasick(patterns)
    # Overlaps count: a longer term that is no whole word must not hide a shorter one that is.
    return lambda text: automaton.find_matches_as_indexes(text, overlapping=True)


def _term_by_term(patterns: Sequence[str]) -> Callable[[str], Iterable[Candidate]]:
    def search(text: str) -> Iterator[Candidate]:
        for number, pattern in enumerate(patterns):
            at = text.find(pattern)
            while at >= 0:
                yield number, at, at + len(pattern)
                at = text.find(pattern, at + 1)

    return search
