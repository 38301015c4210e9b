"""Read-only access to a run's folder, also while it is being written."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from agentv.scoring.keys.identity import DigestMap, DigestSet
from agentv.storage.files.run_file import open_file, stamp_of, whole_lines
from agentv.storage.records.decode import ANSWERS, CASES, EVENTS, LABELS, RESULTS, RUNS
from agentv.storage.records.json_line import decode, reason
from agentv.storage.records.narrow import Subset
from agentv.storage.run.blobs import BlobFolder
from agentv.storage.run.first_answers import (
    NO_ANSWER,
    FirstAnswers,
    LineNumbers,
    SlotLine,
    Standing,
    decode_answer_line,
    decode_result_line,
    find_first_answers,
    slot_name,
)
from agentv.storage.run.labels import LABELS_FILE, current_labels
from agentv.storage.run.lock import is_being_written
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject
from agentv.types.records.answer import Answer, Rerun, ResultKey
from agentv.types.records.label import Label
from agentv.types.records.result import CaseResult
from agentv.types.records.run import REPORTED, CaseRecord, EventRecord, RunRecord

_BUFFER_BYTES = 16 * 1024
_ANSWERS_FILE, _RESULTS_FILE = "answers.jsonl", "results.jsonl"

TARGET_CHANGED = "target_changed"
"""The event of a resume or retry that called a target with other settings than before."""

SCORED = "scored"
"""The key of the plan of a run that judged given answers; its value describes how they were read."""


R = TypeVar("R")


def with_seq(row: R, seq: int) -> R:
    """Return the value of a stored line with its number, which a line written by a node lacks."""
    if isinstance(row, Answer | CaseResult) and row.seq is None:
        msgspec.structs.force_setattr(row, "seq", seq)
    return row


Row_co = TypeVar("Row_co", covariant=True)


class RowDecoder(Protocol[Row_co]):
    """A decoder of lines, which are given as bytes or parsed into dicts."""

    def of_line(self, line: bytes) -> Row_co:
        """Return the value of a line."""

    def of_record(self, record: JsonObject) -> Row_co:
        """Return the value of a line that was parsed into a dict."""


class _CaseHead(Subset, frozen=True):
    """The name of a planned case."""

    WHOLE = CaseRecord

    suite: str = ""
    eval_id: str = ""


class _Retirement(msgspec.Struct, frozen=True):
    type: str = ""
    slot: ResultKey = ResultKey("", "", "")


_decode_case_head = msgspec.json.Decoder(_CaseHead).decode
_decode_retirement = msgspec.json.Decoder(_Retirement).decode


class StoredRun:
    """A run on disk. Each method reopens its file and yields records in the order of writing.

    A torn last line (the writer was killed, or is writing now) is skipped. Raises StorageError, with the number of
    the line, for a line that cannot be read, and for a schema newer than this program.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._blobs = BlobFolder(folder / "blobs")
        self._found: tuple[tuple[str, int | None, str], tuple[FirstAnswers, int]] | None = None
        path = folder / "run.json"
        try:
            self.run: RunRecord = RUNS.of_line(path.read_bytes())
        except FileNotFoundError as error:
            raise StorageError(f"{folder} is not a run: it has no run.json") from error
        except (ValueError, StorageError) as error:
            raise StorageError(f"{path}: {error}") from error

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.run.run_id

    @property
    def suites(self) -> tuple[str, ...]:
        """The paths of the suites in the run's plan."""
        return self.run.suites

    @property
    def has_given_answers(self) -> bool:
        """True if the run judged answers that existed already, and called no target."""
        return SCORED in self.run.plan

    def may_repeat_cases(self) -> bool:
        """Return False if no case has more than one result, so that a summary need not remember each case.

        This follows from the planned numbers of results and cases. The plan of a stream has no such numbers: then the
        run must have one target, and no result may have a second trial or a prompt.
        """
        planned, suites = self.run.plan.get("rows"), self.run.plan.get("suites")
        if isinstance(planned, int) and isinstance(suites, list):
            cases = [each.get("cases") for each in suites if isinstance(each, Mapping)]
            return planned > sum(count for count in cases if isinstance(count, int))
        targets = self.run.plan.get("targets")
        has_one_target = isinstance(targets, list) and len(targets) == 1
        lines = self._slot_lines(_RESULTS_FILE)
        return not has_one_target or any(line.slot.trial or line.slot.prompt is not None for line in lines)

    def events(self) -> Iterator[EventRecord]:
        """Yield the events of the run, including unknown types."""
        return self._read("events.jsonl", EVENTS)

    def cases(self) -> Iterator[CaseRecord]:
        """Yield the stored cases."""
        return self._read("cases.jsonl", CASES)

    def cases_named(self, names: Collection[tuple[str, str]]) -> Iterator[CaseRecord]:
        """Yield the planned cases with these names (suite, id); other cases are not fully decoded."""
        name = "cases.jsonl"
        for number, line in enumerate(whole_lines(self.folder / name), start=1):
            head = self._decoded(name, number, line, _decode_case_head)
            if (head.suite, head.eval_id) in names:
                yield self._row(name, number, line, CASES)

    def answers(self) -> Iterator[Answer]:
        """Yield the answers that count: those of the results that count; of a slot without one its first answer."""
        return self._current(_ANSWERS_FILE, ANSWERS)

    def all_answers(self) -> Iterator[Answer]:
        """Yield the answers of every generation."""
        return self._read(_ANSWERS_FILE, ANSWERS)

    def results(self, *, lines: int | None = None) -> Iterator[CaseResult]:
        """Yield the results that count: of each slot the newest judging of its first answer, without retired cases.

        `lines` limits reading to the first lines of the file: the results as they were when it had so many lines.
        None reads the lines that the file has at the start, because `rescore` appends while it reads.
        """
        return self._current(_RESULTS_FILE, RESULTS, lines)

    def refuse_repeated_results(self) -> None:
        """Raise StorageError for a line of results.jsonl that has the result key and generation of an earlier one."""
        name, seen = _RESULTS_FILE, DigestMap("I")
        for number, _, line in self.current_lines(name):
            key = self._slot_line(name, number, line).slot
            first = seen.setdefault(slot_name(key), number)
            if first != number:
                raise StorageError(
                    f"{self.folder / name}:{number}: repeats the result of case {key.eval_id!r} in line {first}; "
                    "delete the line"
                )

    def all_results(self) -> Iterator[CaseResult]:
        """Yield the results of every generation."""
        return self._read(_RESULTS_FILE, RESULTS)

    def results_numbered(self, numbers: Collection[int]) -> Iterator[CaseResult]:
        """Yield the results with these `seq`; other lines are not decoded."""
        name = _RESULTS_FILE
        for number, line in enumerate(whole_lines(self.folder / name), start=1):
            if number - 1 in numbers:
                yield self._row(name, number, line, RESULTS)

    def reruns(self) -> Iterator[CaseResult]:
        """Yield the results of further answers, without retired cases; each has `rerun`, also if it is not stored."""
        name = _RESULTS_FILE
        for number, _, line in self._lines_with(name, "rerun"):
            yield self.marked(self._row(name, number, line, RESULTS))

    def marked(self, row: CaseResult) -> CaseResult:
        """Return the row of a further answer with `rerun`, which older versions did not store: what asked for it."""
        if row.rerun is not None:
            return row
        requested = [rerun for before, rerun in self._unmarked_retries if before <= (row.seq or 0)]
        return msgspec.structs.replace(row, rerun=requested[-1] if requested else "fresh")

    @cached_property
    def _unmarked_retries(self) -> Sequence[tuple[int, Rerun]]:
        """The retries so far, each with the number of results before it."""
        started = [event.fields for event in self.events() if event.type == "generation_started"]
        return [
            (before, "case" if fields.get("only") == "cases" else "failed")
            for fields in started
            if isinstance(before := fields.get("rows"), int)
        ]

    def newest_results(self, *, lines: int | None = None) -> Iterator[CaseResult] | None:
        """Return the results that counted in older versions, the newest of each slot; None if they are those of today.

        `lines` is as for `results`.
        """
        name = _RESULTS_FILE
        found, lines = self._first_answers(name, lines)
        if not found.has_unmarked_reruns:
            return None
        retired, numbered = self._retired(), enumerate(islice(whole_lines(self.folder / name), lines), start=1)
        heads = ((number, line, self._slot_line(name, number, line)) for number, line in numbered)
        return (
            self._row(name, number, line, RESULTS)
            for number, line, head in heads
            if found.is_newest(head) and head.slot not in retired
        )

    def highest_generations(self, keys: Collection[ResultKey]) -> dict[ResultKey, int]:
        """Return the highest generation of the results and answers with these keys."""
        highest: dict[ResultKey, int] = {}
        for name in (_RESULTS_FILE, _ANSWERS_FILE):
            for line in self._slot_lines(name):
                if line.slot in keys:
                    highest[line.slot] = max(line.generation, highest.get(line.slot, 0))
        return highest

    def answers_at(self, numbers: Collection[int]) -> dict[int, Answer]:
        """Return the answers with these `seq`, which results refer to as `answer_seq`."""
        name = _ANSWERS_FILE
        return {
            number - 1: self._row(name, number, line, ANSWERS)
            for number, line in enumerate(whole_lines(self.folder / name), start=1)
            if number - 1 in numbers
        }

    def labels(self) -> tuple[Label, ...]:
        """Return the human labels of this run: the latest for each answer, annotator and criterion."""
        return current_labels(self.all_labels())

    def all_labels(self, *, first: int = 0) -> Iterator[Label]:
        """Yield all human labels from number `first` on, including those that were corrected later."""
        return self._read(LABELS_FILE, LABELS, first=first)

    def counts(self) -> dict[str, int]:
        """Count the results that count by state: pass, borderline, fail, error, skipped."""
        counts: dict[str, int] = {}
        name = _RESULTS_FILE
        first, lines = self._first_answers(name)
        retired = self._retired()
        for line in islice(self._slot_lines(name), lines):
            if first.standing(line) == "counts" and line.slot not in retired:
                counts[line.state] = counts.get(line.state, 0) + 1
        return counts

    def state(self) -> str:
        """Return the state that the last writer recorded, else `running` or `interrupted`."""
        return self.ended() or ("running" if is_being_written(self.folder) else "interrupted")

    def planned(self) -> int | None:
        """Return the planned number of results, as the last writer reported it or else as in the plan; None if unknown.

        Of a stream, only the report has the number.
        """
        planned = self.run.plan.get("rows")
        for event in self.events():
            if event.type == "started":
                planned = self.run.plan.get("rows")
            elif event.type == REPORTED:
                planned = event.fields.get("planned")
        return planned if isinstance(planned, int) else None

    def ended(self) -> str | None:
        """Return the final state that the last writer recorded, or None."""
        last = None
        for event in self.events():
            if event.type in ("started", "ended"):
                last = event
        return str(last.fields.get("state", "finished")) if last is not None and last.type == "ended" else None

    def results_at(self, places: Iterable[tuple[int, int, int]]) -> Iterator[CaseResult]:
        """Yield the results at these places in results.jsonl: line number, offset and size in bytes."""
        name = _RESULTS_FILE
        with open_file(self.folder / name, buffering=_BUFFER_BYTES) as file:
            for number, offset, size in places:
                file.seek(offset)
                yield self._row(name, number, file.read(size), RESULTS)

    def _current(self, name: str, decoder: RowDecoder[Row_co], lines: int | None = None) -> Iterator[Row_co]:
        for number, _, line in self.current_lines(name, lines):
            yield self._row(name, number, line, decoder)

    def current_lines(self, name: str, lines: int | None = None) -> Iterator[tuple[int, int, bytes]]:
        """Yield number, offset and bytes of the lines that count, as `results` and `answers` do.

        `lines` limits reading to the first lines of the file; None reads the lines that it has at the start.
        """
        return self._answers_that_count(lines) if name == _ANSWERS_FILE else self._lines_with(name, "counts", lines)

    def _answers_that_count(self, lines: int | None) -> Iterator[tuple[int, int, bytes]]:
        (first, lines), retired = self._first_answers(_ANSWERS_FILE, lines), self._retired()
        if first.are_all_first and not retired:
            yield from self._lines_with(_ANSWERS_FILE, "counts", lines)
            return
        named, slots = LineNumbers(lines), DigestSet()
        for number, _, line in self._lines_with(_RESULTS_FILE, "counts"):
            result = self._slot_line(_RESULTS_FILE, number, line)
            if result.answer_ref.seq != NO_ANSWER:
                named.add(result.answer_ref.seq)
                slots.add(slot_name(result.slot))
        for number, offset, line in self._numbered(_ANSWERS_FILE, lines):
            head = self._slot_line(_ANSWERS_FILE, number, line)
            is_first = first.standing(head) == "counts" and head.slot not in retired
            if number - 1 in named or (is_first and slot_name(head.slot) not in slots):
                yield number, offset, line

    def uncounted_lines(self, *, lines: int) -> Iterator[int]:
        """Yield the numbers of those of the first `lines` results that do not count, apart from retired cases."""
        first, _ = self._first_answers(_RESULTS_FILE, lines)
        for number, line in enumerate(islice(self._slot_lines(_RESULTS_FILE), lines), start=1):
            if first.standing(line) != "counts":
                yield number

    def _lines_with(self, name: str, standing: Standing, lines: int | None = None) -> Iterator[tuple[int, int, bytes]]:
        (first, lines), retired = self._first_answers(name, lines), self._retired()
        are_all_counted = first.are_all_first and not retired
        if are_all_counted and standing != "counts":
            return
        for number, offset, line in self._numbered(name, lines):
            head = None if are_all_counted else self._slot_line(name, number, line)
            if head is None or (first.standing(head) == standing and head.slot not in retired):
                yield number, offset, line

    def _numbered(self, name: str, lines: int | None) -> Iterator[tuple[int, int, bytes]]:
        """Yield number, offset and bytes of the first `lines` lines of a file."""
        offset = 0
        for number, line in enumerate(islice(whole_lines(self.folder / name), lines), start=1):
            yield number, offset, line
            offset += len(line) + 1

    def retired(self) -> frozenset[ResultKey]:
        """Return the keys of results whose case is no longer in the suite; they stay on disk and are not counted."""
        return frozenset(self._retired())

    def _retired(self) -> set[ResultKey]:
        retired: set[ResultKey] = set()
        name = "events.jsonl"
        for number, line in enumerate(whole_lines(self.folder / name), start=1):
            if b'"case_re' in line:
                event = self._decoded(name, number, line, _decode_retirement)
                change = {"case_retired": retired.add, "case_returned": retired.discard}.get(event.type)
                if change is not None:
                    change(event.slot)
        return retired

    def _first_answers(self, name: str, lines: int | None = None) -> tuple[FirstAnswers, int]:
        """Return what counts in the first `lines` lines of a file (None: in all), and the number of lines read.

        The last answer is kept until the file changes, since a report needs it for results, re-runs and their notes.
        """
        read_as = name, lines, stamp_of(self.folder / name)
        if self._found is None or self._found[0] != read_as:
            self._found = read_as, self._find_first_answers(name, lines)
        return self._found[1]

    def _find_first_answers(self, name: str, lines: int | None) -> tuple[FirstAnswers, int]:
        sizes: list[int] = []  # the file may grow before it is read again

        def read() -> Iterator[SlotLine]:
            number = 0
            for number, line in enumerate(islice(self._slot_lines(name), sizes[0] if sizes else lines), start=1):  # noqa: B007
                yield line
            sizes.append(number)

        first = find_first_answers(read)
        return first, sizes[0]

    def _slot_lines(self, name: str) -> Iterator[SlotLine]:
        """Yield the fields of each line that decide whether it counts."""
        for number, line in enumerate(whole_lines(self.folder / name), start=1):
            yield self._slot_line(name, number, line)

    def _slot_line(self, name: str, number: int, line: bytes) -> SlotLine:
        if name == _ANSWERS_FILE:
            return self._decoded(name, number, line, lambda read: decode_answer_line(read, number - 1))
        return self._decoded(name, number, line, decode_result_line)

    def _decoded(self, name: str, number: int, line: bytes, decode_line: Callable[[bytes], R]) -> R:
        try:
            return decode_line(line)
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{self.folder / name}:{number}: {reason(error)}") from error

    def _read(self, name: str, decoder: RowDecoder[Row_co], *, first: int = 0) -> Iterator[Row_co]:
        for number, line in enumerate(whole_lines(self.folder / name), start=1):
            if number > first:
                yield self._row(name, number, line, decoder)

    def _row(self, name: str, number: int, line: bytes, decoder: RowDecoder[Row_co]) -> Row_co:
        try:
            row = decoder.of_record(self._blobs.resolve(decode(line))) if b'"$blob":' in line else decoder.of_line(line)
        except (ValueError, StorageError) as error:
            raise StorageError(f"{self.folder / name}:{number}: {error}") from error
        return with_seq(row, number - 1)


def counted_lines(path: Path) -> Iterator[tuple[int, int, bytes]] | None:
    """Return number, offset and bytes of the lines that count in a run's answers or results; None for other files.

    Raises StorageError when the run cannot be read.
    """
    is_of_run = path.name in (_ANSWERS_FILE, _RESULTS_FILE) and (path.parent / "run.json").is_file()
    return StoredRun(path.parent).current_lines(path.name) if is_of_run else None


def open_run(folder: Path) -> StoredRun:
    """Open a run for reading. Raises StorageError when the folder has no run, or one of a newer schema."""
    return StoredRun(folder)
