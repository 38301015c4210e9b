"""What a run has kept, by what is looked for when it goes on: the current row of a slot, the answer with a key."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from agentv.scoring.digests import digest_of
from agentv.storage.blobs import BlobFolder
from agentv.storage.generations import Generations, slot_name
from agentv.storage.line_index import LineIndex
from agentv.storage.records.decode import ANSWERS, RESULTS, LineDecoder
from agentv.storage.records.json_line import decode
from agentv.storage.records.subset import Subset
from agentv.storage.stored_run import StoredRun
from agentv.types.errors import StorageError
from agentv.types.records.answer import Answer, AnswerRef, Slot
from agentv.types.records.result import CaseResult

Kept = TypeVar("Kept", Answer, CaseResult)

_NONE = -1


class _Head(Subset, frozen=True):
    """As much of a row or an answer as says whose it is; an answer has no `answer_ref`."""

    WHOLE = CaseResult

    slot: Slot = Slot("", "", "")
    seq: int = _NONE
    generation: int = 0
    answer_key: str = ""
    answer_ref: AnswerRef = AnswerRef(_NONE)
    error: dict[str, object] | None = None


_decode_head = msgspec.json.Decoder(_Head).decode


class KeptRows:
    """An index of a run's rows and answers: 17 bytes for a row and its answer.

    Made by one pass over the run's files, of which it then reads single lines. For whoever holds the run's lock: what
    is appended later is not in it. Raises StorageError for a line that cannot be read.
    """

    def __init__(self, run: StoredRun) -> None:
        self._folder = run.folder
        self._blobs = BlobFolder(run.folder / "blobs")
        rows, answers = run.folder / "results.jsonl", run.folder / "answers.jsonl"
        self._rows = LineIndex(rows, lambda line: slot_name(_decode_head(line).slot))
        self._answers = LineIndex(answers, lambda line: _question(_decode_head(line)))
        self._unjudged: dict[int, int] = {}
        self._index_answers(answers, self._index_rows(rows))

    def close(self) -> None:
        """Let go of the files."""
        self._rows.close()
        self._answers.close()

    def take(self, slot: Slot) -> CaseResult | None:
        """Return the current row of a slot, None when there is none; what is taken is not among those left."""
        return self._made(self._rows.pop(slot_name(slot)), RESULTS)

    def left(self) -> Iterator[Slot]:
        """Yield the slots of rows that were not taken."""
        for line in self._rows.lines():
            yield _decode_head(line).slot

    def find(self, slot: Slot) -> CaseResult | None:
        """Return the current row of a slot and leave it where it is."""
        return self._made(self._rows.get(slot_name(slot)), RESULTS)

    def answer(self, suite: str, key: str) -> Answer | None:
        """Return a suite's answer with a key, the latest; one without an error before all others."""
        return self._made(self._answers.get(f"{suite}\0{key}"), ANSWERS)

    def next_generation(self, slot: Slot, row: CaseResult | None) -> int:
        """Return the generation of what takes the place of a slot's `row` and of its answers; 0 for a new slot."""
        unjudged = self._unjudged.get(digest_of(slot_name(slot)), _NONE)
        return 1 + max(unjudged, _NONE if row is None else row.generation)

    def _index_rows(self, path: Path) -> bytearray:
        """Find the current row of each slot; return, a bit for each answer, which ones were judged."""
        judged = bytearray()
        generations = Generations()
        for at, head in _heads(path):
            if not generations.add(head.slot, head.generation):
                continue
            self._rows.put(slot_name(head.slot), at)
            _set_bit(judged, head.answer_ref.seq)
        return judged

    def _index_answers(self, path: Path, judged: bytearray) -> None:
        for at, head in _heads(path):
            key = _question(head)
            if head.error is None or self._has_no_good_answer(key):
                self._answers.put(key, at)
            if not _has_bit(judged, head.seq):
                name = digest_of(slot_name(head.slot))
                self._unjudged[name] = max(head.generation, self._unjudged.get(name, _NONE))

    def _has_no_good_answer(self, key: str) -> bool:
        line = self._answers.get(key)
        return line is None or _decode_head(line).error is not None

    def _made(self, line: bytes | None, decoder: LineDecoder[Kept]) -> Kept | None:
        """Return what stands in a line. Raises StorageError where nothing does that could be."""
        if line is None:
            return None
        try:
            if b'"$blob":' in line:
                return decoder.of_record(self._blobs.resolve(decode(line)))
            return decoder.of_line(line)
        except ValueError as error:
            case = _decode_head(line).slot.eval_id
            raise StorageError(f"{self._folder}: what is kept of case {case!r} cannot be read: {error}") from error


def _question(head: _Head) -> str:
    """Return what an answer is looked for by."""
    return f"{head.slot.suite}\0{head.answer_key}"


def _heads(path: Path) -> Iterator[tuple[int, _Head]]:
    """Yield where each whole line begins, and its head."""
    at = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield at, _decode_head(line)
            except (ValueError, RecursionError) as error:
                raise StorageError(f"{path}:{number}: {error}") from error
            at += len(line)


def _set_bit(bits: bytearray, number: int) -> None:
    if number < 0:
        return
    if number // 8 >= len(bits):
        bits.extend(bytes(number // 8 + 1 - len(bits)))
    bits[number // 8] |= 1 << number % 8


def _has_bit(bits: bytearray, number: int) -> bool:
    return 0 <= number // 8 < len(bits) and bool(bits[number // 8] & 1 << number % 8)
