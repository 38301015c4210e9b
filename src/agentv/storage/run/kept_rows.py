"""What a run has kept, by what is looked for when it goes on: the current row of a slot, the answer with a key."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from agentv.scoring.keys.digests import digest_of
from agentv.storage.records.decode import ANSWERS, RESULTS, LineDecoder
from agentv.storage.records.json_line import decode
from agentv.storage.records.subset import Subset
from agentv.storage.run.blobs import BlobFolder
from agentv.storage.run.stored import Generations, StoredRun, slot_name
from agentv.types.errors import StorageError
from agentv.types.records.answer import Answer, AnswerRef, ResultKey
from agentv.types.records.result import CaseResult

_BUCKETS = 1024
_PLACE_BITS = 40
_PLACE = (1 << _PLACE_BITS) - 1


class LineIndex:
    """Finds a line by its key, in files up to 1 TiB whose lines stay as they are.

    Of each line it keeps its place and 34 bits of a digest of its key (ten of them by the bucket it is in). What it
    finds it reads, and `key_of` tells whether that is what was looked for: keys that share a digest are not confused.
    """

    def __init__(self, path: Path, key_of: Callable[[bytes], str]) -> None:
        path.touch(mode=0o600)
        self._file = path.open("rb")
        self._key_of = key_of
        self._buckets = [array("Q") for _ in range(_BUCKETS)]

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def put(self, key: str, at: int) -> None:
        """Remember that the line with `key` begins at byte `at`, in place of an earlier line with that key."""
        bucket, tag = self._bucket(key)
        place, _ = self._find(key, bucket, tag)
        if place is not None:
            bucket.pop(place)
        bucket.insert(bisect_left(bucket, tag | at), tag | at)

    def get(self, key: str) -> bytes | None:
        """Return the line with a key, None when there is none."""
        return self._find(key, *self._bucket(key))[1]

    def pop(self, key: str) -> bytes | None:
        """Return the line with a key and forget it."""
        bucket, tag = self._bucket(key)
        place, line = self._find(key, bucket, tag)
        if place is not None:
            bucket.pop(place)
        return line

    def lines(self) -> Iterator[bytes]:
        """Yield all lines that are remembered, in the order of the file."""
        for at in sorted(word & _PLACE for bucket in self._buckets for word in bucket):
            yield self._line(at)

    def _bucket(self, key: str) -> "tuple[array[int], int]":
        """Return where a key is kept, and the upper bits of its entry."""
        digest = digest_of(key)
        return self._buckets[digest % _BUCKETS], digest >> _PLACE_BITS << _PLACE_BITS

    def _find(self, key: str, bucket: "array[int]", tag: int) -> tuple[int | None, bytes | None]:
        """Return the place in the bucket and the line of a key."""
        for place in range(bisect_left(bucket, tag), len(bucket)):
            if bucket[place] & ~_PLACE != tag:
                break
            line = self._line(bucket[place] & _PLACE)
            if self._key_of(line) == key:
                return place, line
        return None, None

    def _line(self, at: int) -> bytes:
        self._file.seek(at)
        return self._file.readline()


Kept = TypeVar("Kept", Answer, CaseResult)

_NONE = -1


class _Head(Subset, frozen=True):
    """As much of a row or an answer as says whose it is; an answer has no `answer_ref`."""

    WHOLE = CaseResult

    slot: ResultKey = ResultKey("", "", "")
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

    def take(self, slot: ResultKey) -> CaseResult | None:
        """Return the current row of a slot, None when there is none; what is taken is not among those left."""
        return self._made(self._rows.pop(slot_name(slot)), RESULTS)

    def left(self) -> Iterator[ResultKey]:
        """Yield the slots of rows that were not taken."""
        for line in self._rows.lines():
            yield _decode_head(line).slot

    def find(self, slot: ResultKey) -> CaseResult | None:
        """Return the current row of a slot and leave it where it is."""
        return self._made(self._rows.get(slot_name(slot)), RESULTS)

    def answer(self, suite: str, key: str) -> Answer | None:
        """Return a suite's answer with a key, the latest; one without an error before all others."""
        return self._made(self._answers.get(f"{suite}\0{key}"), ANSWERS)

    def next_generation(self, slot: ResultKey, row: CaseResult | None) -> int:
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
