"""Answers on a page: in full length, with their differences from another answer marked by word."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Self, TypeAlias

from msgspec import Struct

from agentv.reports.run.row_text import row_reason
from agentv.reports.text.long_texts import shortened
from agentv.reports.text.markup import Child, Html, element
from agentv.reports.text.printable import printable
from agentv.scoring.results.aggregation import row_state
from agentv.scoring.text.word_differences import MAX_CHARS, Piece, word_differences
from agentv.types.messages_json import content_text
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord

_MAX_REASON_CHARS = 600
_MAX_HEAD_CHARS = 1_200
_MAX_QUESTION_CHARS = 16_000
"""The number of characters of a question that are put on one line; to do so with all of a very long one is slow."""

_MIN_MARKED_CHARS = 60
"""The length up to which differences are marked even between texts that have nothing in common."""
_LEAST_SHARED = 0.1
"""The share of a longer text that two answers have in common if their differences are marked."""

Words: TypeAlias = Literal["both", "before", "after"]
"""The words of differences that are shown: of both texts, or only those of one."""


def shared_question(cases: Sequence[CaseRecord]) -> str:
    """Return the question of a case; of one with several prompts, the messages that all of them have."""
    if not cases or all(each.question == cases[0].question for each in cases):
        return cases[0].question if cases else ""
    shared = [message for message in cases[0].input_messages if all(message in each.input_messages for each in cases)]
    return "\n\n".join(content_text(message.content) for message in shared) or cases[0].question


def case_texts(question: str, expected: str) -> Html:
    """Return the question of a case on one line, and what was expected."""
    texts = (("question", " ".join(question[:_MAX_QUESTION_CHARS].split())), ("expected", expected.strip()))
    return element("div", *(_labelled(name, text) for name, text in texts if text), class_="labels")


def _labelled(name: str, text: str) -> Html:
    shown = element("span", shortened(text, max_chars=_MAX_HEAD_CHARS), class_="text", dir="auto")
    return element("p", element("small", name), " ", shown, class_="labelled")


def answer_text(result: CaseResult) -> Html:
    """Return the answer of a result as it is; for an error without an answer, the error."""
    answer = result.candidate_answer
    if answer:
        return _box(answer)
    return _box(row_reason(result), class_="error") if result.error is not None else _box("(empty)", class_="quiet")


def marked_answer(before: str, after: str) -> Html:
    """Return an answer with the words that it has in place of those of an earlier one."""
    return _Difference.of(before, after).shown("both")


def marked_answers(before: str, after: str) -> tuple[Html, Html]:
    """Return two answers, each with the words marked that only it has."""
    difference = _Difference.of(before, after)
    return difference.shown("before"), difference.shown("after")


class _Difference(Struct, frozen=True):
    """Two answers with their pieces, None if they are too long."""

    before: str
    after: str
    pieces: Sequence[Piece] | None

    @classmethod
    def of(cls, before: str, after: str) -> Self:
        before, after = printable(before), printable(after)
        return cls(before, after, word_differences(before, after))

    def differs_throughout(self) -> bool:
        """Return True for longer texts with hardly a word in common, of which all would be marked."""
        shared = sum(len(piece.after) for piece in self.pieces or () if piece.is_same)
        longer = max(len(self.before), len(self.after))
        return longer > _MIN_MARKED_CHARS and shared < _LEAST_SHARED * longer

    def shown(self, words: Words) -> Html:
        """Return the answers as one text, or one of them, with the words marked."""
        text = self.before if words == "before" else self.after
        if self.pieces is None:
            note = f"differences are not marked: an answer has more than {MAX_CHARS:,} characters"
            return element("div", _box(text), element("small", note))
        if self.before != self.after and all(piece.is_same for piece in self.pieces):
            return element("div", _box(text), element("small", "only white space differs"))
        if self.differs_throughout():
            return element("div", _box(text), element("small", "differs throughout"))
        return _box(*_marked(self.pieces, words))


def reason_text(result: CaseResult) -> Html | None:
    """Return why a result did not pass; None for one that passed, or whose error is shown as its answer."""
    if row_state(result) == "pass" or (result.error is not None and not result.candidate_answer):
        return None
    return element("p", shortened(row_reason(result), max_chars=_MAX_REASON_CHARS), class_="reason", dir="auto")


def _marked(pieces: Iterable[Piece], words: Words) -> Iterator[Child]:
    for piece in pieces:
        if piece.is_same:
            yield piece.before if words == "before" else piece.after
            continue
        if words != "after":
            yield from _words("del", piece.before)
        if words != "before":
            yield from _words("ins", piece.after)


def _words(tag: str, text: str) -> Iterator[Child]:
    """Yield a text as an element, with the white space at its end behind it: it would look like an empty word."""
    words = text.rstrip()
    yield element(tag, words) if words else None
    yield text[len(words) :]


def _box(*parts: Child, class_: str = "") -> Html:
    return element("div", *parts, class_=f"answer {class_}".strip(), dir="auto")
