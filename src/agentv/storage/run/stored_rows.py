"""An index of a run's stored results and answers for resuming it: results by result key, answers by answer key."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

import msgspec

from agentv.scoring.keys.identity import DigestSet, digest_64
from agentv.storage.files.line_file import open_lines
from agentv.storage.files.run_file import open_file, size_of, whole_lines
from agentv.storage.records.decode import ANSWERS, CASES, RESULTS, LineDecoder
from agentv.storage.records.json_line import decode, reason
from agentv.storage.records.narrow import Subset
from agentv.storage.run.blobs import BlobFolder
from agentv.storage.run.first_answers import (
    FirstAnswers,
    LineNumbers,
    SlotLine,
    decode_answer_line,
    decode_result_line,
    find_first_answers,
    is_answered,
    slot_name,
)
from agentv.storage.run.stored import StoredRun, with_seq
from agentv.types.errors import StorageError
from agentv.types.records.answer import Answer, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord

_BUFFER_BYTES = 16 * 1024

_BUCKETS = 1024
_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1


_LINES_PER_MARK = 32
"""The offset of every 32nd line is stored; the number of a line is found by counting newlines from there."""


class IndexedLine(NamedTuple):
    """A line and the byte at which it begins."""

    line: bytes
    at: int


class LineIndex:
    """An index of the lines of an append-only file (up to 1 TiB) by key.

    An entry is the line's offset (40 bits) and 24 bits of a digest of its key; ten more bits select the bucket.
    A lookup reads the line and compares its key (`key_of`), because two keys may have equal digests.
    """

    def __init__(self, path: Path, key_of: Callable[[bytes], str]) -> None:
        try:
            self._file: BinaryIO = open_file(path, buffering=_BUFFER_BYTES)
        except FileNotFoundError:
            path.touch(mode=0o600)  # an empty file needs no special case in the other methods
            self._file = open_lines(path, buffering=_BUFFER_BYTES)
        self._key_of = key_of
        self._buckets = [array("Q") for _ in range(_BUCKETS)]
        self._marks = array("Q")

    def mark(self, number: int, at: int) -> None:
        """Record the offset of line `number`, from 0. Before `number_at`, call this for each line, in order."""
        if number % _LINES_PER_MARK == 0:
            self._marks.append(at)

    def number_at(self, at: int) -> int:
        """Return the number, from 0, of the line that begins at byte `at`."""
        before = bisect_right(self._marks, at) - 1
        self._file.seek(self._marks[before])
        return before * _LINES_PER_MARK + self._file.read(at - self._marks[before]).count(b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def put(self, key: str, at: int) -> None:
        """Add the line with `key`, which begins at byte `at`, replacing an earlier line with that key."""
        bucket, prefix = self._bucket(key)
        place, _ = self._find(key, bucket, prefix)
        if place is not None:
            bucket.pop(place)
        bucket.insert(bisect_left(bucket, prefix | at), prefix | at)

    def get(self, key: str) -> IndexedLine | None:
        """Return the line with a key, or None."""
        return self._find(key, *self._bucket(key))[1]

    def pop(self, key: str) -> IndexedLine | None:
        """Return the line with a key and remove it from the index."""
        bucket, prefix = self._bucket(key)
        place, found = self._find(key, bucket, prefix)
        if place is not None:
            bucket.pop(place)
        return found

    def line_at(self, at: int) -> IndexedLine:
        """Return the line that begins at byte `at`."""
        return IndexedLine(self._line(at), at)

    def lines(self) -> Iterator[bytes]:
        """Yield all indexed lines in the order of the file."""
        for at in sorted(word & _OFFSET_MASK for bucket in self._buckets for word in bucket):
            yield self._line(at)

    def _bucket(self, key: str) -> "tuple[array[int], int]":
        """Return the bucket of a key, and the upper bits of its entry."""
        digest = digest_64(key)
        return self._buckets[digest % _BUCKETS], digest >> _OFFSET_BITS << _OFFSET_BITS

    def _find(self, key: str, bucket: "array[int]", prefix: int) -> tuple[int | None, IndexedLine | None]:
        """Return the position of a key in its bucket, and its line."""
        for place in range(bisect_left(bucket, prefix), len(bucket)):
            if bucket[place] & ~_OFFSET_MASK != prefix:
                break
            at = bucket[place] & _OFFSET_MASK
            line = self._line(at)
            if self._key_of(line) == key:
                return place, IndexedLine(line, at)
        return None, None

    def _line(self, at: int) -> bytes:
        self._file.seek(at)
        return self._file.readline()


Stored = TypeVar("Stored", Answer, CaseResult)

_UNSET = -1
"""The generation of a missing result or answer."""


class StoredRows:
    """An index of a run's results and answers, which takes 17 bytes of memory for a result and its answer.

    It is built in one pass over the run's files; a lookup reads one line. Lines that are appended later are missing,
    so the caller must hold the run's lock. Raises StorageError for a line that cannot be read.
    """

    def __init__(self, run: StoredRun) -> None:
        self._run, self._folder = run, run.folder
        self._blobs = BlobFolder(run.folder / "blobs")
        rows, answers = run.folder / "results.jsonl", run.folder / "answers.jsonl"
        self._rows = LineIndex(rows, lambda line: slot_name(decode_result_line(line).slot))
        self._answers = LineIndex(answers, _answer_name)
        self._rerun_answers = LineIndex(answers, _answer_name)
        self._reruns: dict[int, list[int]] = {}
        # By digest of the result key: the highest generation of an answer without a result.
        self._unjudged: dict[int, int] = {}
        self._first = FirstAnswers()
        try:
            self._index_answers(answers, *self._index_rows(rows, most_answers=size_of(answers)))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the files."""
        self._rows.close()
        self._answers.close()
        self._rerun_answers.close()

    def take(self, key: ResultKey) -> CaseResult | None:
        """Return the result that counts of a result key, or None, and remove it from the index."""
        return self._decoded(self._rows, self._rows.pop(slot_name(key)), RESULTS)

    def remaining_keys(self) -> Iterator[ResultKey]:
        """Yield the keys of results that were not taken."""
        for line in self._rows.lines():
            yield decode_result_line(line).slot

    def find(self, key: ResultKey) -> CaseResult | None:
        """Return the result that counts of a result key, or None; it stays in the index."""
        return self._decoded(self._rows, self._rows.get(slot_name(key)), RESULTS)

    def reruns(self, key: ResultKey) -> list[CaseResult]:
        """Return the results of further answers of a result key."""
        found = (self._rows.line_at(at) for at in self._reruns.get(digest_64(slot_name(key)), ()))
        rows = (self._decoded(self._rows, each, RESULTS) for each in found)
        return [self._run.marked(row) for row in rows if row is not None and row.slot == key]

    def answer(self, suite: str, key: str) -> Answer | None:
        """Return a suite's answer with an answer key that counts: the first without an error, else the last error."""
        return self._decoded(self._answers, self._answers.get(f"{suite}\0{key}"), ANSWERS)

    def rerun_answer(self, suite: str, key: str) -> Answer | None:
        """Return a suite's latest further answer with an answer key; None if there is none without an error."""
        return self._decoded(self._rerun_answers, self._rerun_answers.get(f"{suite}\0{key}"), ANSWERS)

    def next_generation(self, key: ResultKey, row: CaseResult | None) -> int:
        """Return the generation of a result after `row`, re-runs and unjudged answers; 0 for a new result key."""
        unjudged = self._unjudged.get(digest_64(slot_name(key)), _UNSET)
        return 1 + max(unjudged, _UNSET if row is None else max(row.generation, self._first.highest(key)))

    def _index_rows(self, path: Path, *, most_answers: int) -> tuple[LineNumbers, LineNumbers]:
        """Index the results that count and the re-runs; return the numbers of judged answers, and of those that count.

        `most_answers` is an upper bound of the number of answers: their bytes, as each takes at least one.
        """
        judged, counted = LineNumbers(most_answers), LineNumbers(most_answers)
        self._first = find_first_answers(lambda: (line for _, _, line in _slot_lines(path, _result_line)))
        for number, at, line in _slot_lines(path, _result_line):
            self._rows.mark(number, at)
            standing, seq = self._first.standing(line), line.answer_ref.seq
            if standing == "counts":
                self._rows.put(slot_name(line.slot), at)
            elif standing == "rerun":
                self._reruns.setdefault(digest_64(slot_name(line.slot)), []).append(at)
            judged.add(seq)
            if standing == "counts":
                counted.add(seq)
        return judged, counted

    def _index_answers(self, path: Path, judged: LineNumbers, counted: LineNumbers) -> None:
        for number, at, line in _slot_lines(path, decode_answer_line):
            self._answers.mark(number, at)
            self._rerun_answers.mark(number, at)
            key = f"{line.slot.suite}\0{line.answer_key}"
            if line.rerun is not None:
                if is_answered(line):
                    self._rerun_answers.put(key, at)
            elif number in counted or self._has_only_errors(key):
                self._answers.put(key, at)
            if number not in judged:
                name = digest_64(slot_name(line.slot))
                self._unjudged[name] = max(line.generation, self._unjudged.get(name, _UNSET))

    def _has_only_errors(self, key: str) -> bool:
        """Return True if no answer without an error is indexed under a key."""
        found = self._answers.get(key)
        return found is None or not is_answered(decode_answer_line(found.line, 0))

    def _decoded(self, index: LineIndex, found: IndexedLine | None, decoder: LineDecoder[Stored]) -> Stored | None:
        """Return the value of a line, None for no line. Raises StorageError when it cannot be read."""
        if found is None:
            return None
        line = found.line
        try:
            if b'"$blob":' in line:
                value = decoder.of_record(self._blobs.resolve(decode(line)))
            else:
                value = decoder.of_line(line)
            return with_seq(value, index.number_at(found.at)) if value.seq is None else value
        except ValueError as error:
            case = decode_result_line(line).slot.eval_id
            raise StorageError(f"{self._folder}: a stored line of case {case!r} cannot be read: {error}") from error


class _CaseHead(Subset, frozen=True):
    WHOLE = CaseRecord

    suite: str = ""
    eval_id: str = ""


_decode_case_head = msgspec.json.Decoder(_CaseHead).decode


def _case_name(line: bytes) -> str:
    name = _decode_case_head(line)
    return f"{name.suite}\0{name.eval_id}"


class StoredCases:
    """An index of a run's cases by suite and id: the first line of each. Raises StorageError for an unreadable line."""

    def __init__(self, run: StoredRun) -> None:
        self._path = run.folder / "cases.jsonl"
        self._blobs = BlobFolder(run.folder / "blobs")
        self._lines = LineIndex(self._path, _case_name)
        self._known = DigestSet()
        self._at = self._read = 0
        try:
            self.refresh()
        except StorageError:
            self.close()
            raise

    def refresh(self) -> None:
        """Index the cases that were written since the last time."""
        with open_file(self._path) as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read += 1
                try:
                    name = _case_name(line)
                except (ValueError, RecursionError) as error:
                    raise StorageError(f"{self._path}:{self._read}: {reason(error)}") from error
                if self._known.add(name):
                    self._lines.put(name, self._at)
                self._at += len(line)

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    def find(self, suite: str, eval_id: str) -> CaseRecord | None:
        """Return the first case with an id, None if there is none."""
        found = self._lines.get(f"{suite}\0{eval_id}")
        if found is None:
            return None
        line = found.line
        try:
            if b'"$blob":' in line:
                return CASES.of_record(self._blobs.resolve(decode(line)))
            return CASES.of_line(line)
        except ValueError as error:
            raise StorageError(f"{self._path}: the case {eval_id!r} cannot be read: {error}") from error


def _answer_name(line: bytes) -> str:
    """Return the key under which an answer is indexed: suite and answer key."""
    head = decode_answer_line(line, 0)
    return f"{head.slot.suite}\0{head.answer_key}"


def _result_line(line: bytes, _number: int) -> SlotLine:
    return decode_result_line(line)


def _slot_lines(path: Path, decode: Callable[[bytes, int], SlotLine]) -> Iterator[tuple[int, int, SlotLine]]:
    """Yield the number, from 0, the offset and the deciding fields of each whole line."""
    at = 0
    for number, line in enumerate(whole_lines(path)):
        try:
            yield number, at, decode(line, number)
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{path}:{number + 1}: {reason(error)}") from error
        at += len(line) + 1
