"""Which lines of a run count: of each slot the first answer to its current question, with its newest judging."""

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from agentv.scoring.keys.identity import DigestMap, digest_64
from agentv.storage.records.narrow import Subset
from agentv.types.records.answer import Answer, AnswerRef, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.stored import StoredGeneration

Standing: TypeAlias = Literal["counts", "rerun", "replaced"]
"""A line counts, is of a further answer to the same question, or was replaced: by a newer judging of the same answer,
by the answer that had been missing, or by an answer to an edited question."""

NO_ANSWER = -1
"""The `seq` in the reference of a result without an answer."""


class ErrorHead(Struct, frozen=True, gc=False):
    """The fields of an error that say whether there is an answer."""

    stage: str = "target"
    kind: str = ""


class SlotLine(Subset, frozen=True):
    """The fields of a result that decide whether it counts."""

    WHOLE = CaseResult

    slot: ResultKey = ResultKey("", "", "")
    generation: StoredGeneration = 0
    rerun: str | None = None
    status: str = ""
    verdict: str | None = None
    answer_key: str = ""
    answer_ref: AnswerRef = AnswerRef(NO_ANSWER)
    error: ErrorHead | None = None

    @property
    def state(self) -> str:
        """The state of the result: pass, borderline, fail, error or skipped."""
        return self.status if self.status in ("error", "skipped") else self.verdict or self.status


class _AnswerHead(Subset, frozen=True):
    WHOLE = Answer

    slot: ResultKey = ResultKey("", "", "")
    generation: StoredGeneration = 0
    rerun: str | None = None
    answer_key: str = ""
    error: ErrorHead | None = None


decode_result_line: Callable[[bytes], SlotLine] = msgspec.json.Decoder(SlotLine).decode
_decode_answer: Callable[[bytes], _AnswerHead] = msgspec.json.Decoder(_AnswerHead).decode


def decode_answer_line(line: bytes, number: int) -> SlotLine:
    """Return the same fields for an answer, whose `seq` is `number`: lines written by a node do not have it."""
    head = _decode_answer(line)
    error = None if head.error is None else ErrorHead()
    return SlotLine(head.slot, head.generation, head.rerun, "", None, head.answer_key, AnswerRef(number), error)


def is_answered(row: CaseResult | SlotLine) -> bool:
    """Return True if a row's target answered, also if no evaluator scored the answer.

    A row is skipped with the key of its answer, or without one if its target was not called. The error
    `target_missing` is a turn without an answer. The view `counted_results` of the team database has the same rule.
    """
    if row.error is not None:
        return row.error.stage == "evaluator" and row.error.kind != "target_missing"
    return row.status != "skipped" or row.answer_key != ""


def slot_name(key: ResultKey) -> str:
    """Return a result key as one text, for sets and maps of digests."""
    prompt = "" if key.prompt is None else f"\0{key.prompt}"
    return f"{key.suite}\0{key.eval_id}\0{key.target}\0{key.trial}{prompt}"


class LineNumbers:
    """A set of line numbers, from 0, with a bit for each line of the file."""

    def __init__(self, most: int) -> None:
        """`most` is an upper bound of the number of lines: a reference to a later line is invalid and not added."""
        self._most = most
        self._bits = bytearray()

    def add(self, number: int) -> None:
        """Add the number of a line; a number that no line has is left out."""
        if not 0 <= number < self._most:
            return
        if number // 8 >= len(self._bits):
            self._bits.extend(bytes(number // 8 + 1 - len(self._bits)))
        self._bits[number // 8] |= 1 << number % 8

    def __contains__(self, number: int) -> bool:
        """Return True if a number was added."""
        return 0 <= number // 8 < len(self._bits) and bool(self._bits[number // 8] & 1 << number % 8)


_BITS = 32
_LOW = (1 << _BITS) - 1
_ANSWERED = 1


class FirstAnswers:
    """The generation that counts of each slot that has several; other slots take no memory.

    Add all lines with `note`, then again with `add`, in the order of the file. A line without `rerun` that has another
    answer to the same question was written by an older version, in which the newest answer counted.
    """

    def __init__(self) -> None:
        self.are_all_first = True
        self.has_unmarked_reruns = False
        self._highest = DigestMap("I")
        # Two numbers of 32 bits each: the generation that counts, and the one in which its answer was first judged.
        self._generations = DigestMap("Q")
        # The `seq` of its answer plus 1, and 31 bits of a digest of the answer key with a bit: is it answered?
        self._answers = DigestMap("Q")

    def note(self, key: ResultKey, generation: int) -> None:
        """Note a line's generation."""
        if generation:
            self.are_all_first = False
            name = slot_name(key)
            self._highest.put(name, max(generation, self._highest.get(name) or 0))

    def highest(self, key: ResultKey) -> int:
        """Return the highest generation of a slot, whether or not it counts."""
        return 0 if self.are_all_first else self._highest.get(slot_name(key)) or 0

    def add(self, line: SlotLine) -> None:
        """Decide whether a line counts instead of the earlier ones of its slot."""
        if line.rerun is not None or not self.highest(line.slot):
            return
        name, generation, packed = slot_name(line.slot), line.generation, _packed(line)
        known, answer = self._generations.get(name), self._answers.get(name)
        first = generation
        if known is not None and answer is not None:
            if generation < known >> _BITS:
                return
            if answer & _ANSWERED:
                if answer >> _BITS == packed >> _BITS:
                    first = known & _LOW
                elif not (answer ^ packed) & _LOW & ~_ANSWERED:
                    self.has_unmarked_reruns |= generation > known >> _BITS
                    return
        self._generations.put(name, generation << _BITS | first)
        self._answers.put(name, packed)

    def standing(self, line: SlotLine) -> Standing:
        """Return whether a line counts."""
        known = None if self.are_all_first else self._generations.get(slot_name(line.slot))
        if known is None:
            return "counts" if line.rerun is None else "rerun"
        if line.rerun is None and line.generation == known >> _BITS:
            return "counts"
        answer = self._answers.get(slot_name(line.slot)) or 0
        # Confirming re-runs are stored with the first trial, which may have an error, whatever other trials gave.
        is_later = line.generation > known & _LOW and (bool(answer & _ANSWERED) or line.rerun == "confirm")
        is_further = line.rerun is not None or answer >> _BITS != line.answer_ref.seq + 1
        return "rerun" if is_later and is_further else "replaced"

    def is_newest(self, line: SlotLine) -> bool:
        """Return True if a line counted in older versions: it has the highest generation of its slot."""
        return line.generation == self.highest(line.slot)


def _packed(line: SlotLine) -> int:
    key = digest_64(line.answer_key) & (_LOW - _ANSWERED)
    return line.answer_ref.seq + 1 << _BITS | key | (_ANSWERED if is_answered(line) else 0)


def find_first_answers(lines: Callable[[], Iterable[SlotLine]]) -> FirstAnswers:
    """Return which lines count. `lines` is called twice if a slot has several generations; both times return the same.

    The lines must be in the order of the file.
    """
    found = FirstAnswers()
    for line in lines():
        found.note(line.slot, line.generation)
    if not found.are_all_first:
        for line in lines():
            found.add(line)
    return found
