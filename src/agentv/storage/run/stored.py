"""Read-only access to a run's folder, also while it is being written."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from agentv.scoring.keys.identity import DigestMap
from agentv.storage.files.run_file import open_file, whole_lines
from agentv.storage.records.decode import ANSWERS, CASES, EVENTS, LABELS, RESULTS, RUNS
from agentv.storage.records.json_line import decode, reason
from agentv.storage.records.narrow import Subset
from agentv.storage.run.blobs import BlobFolder
from agentv.storage.run.labels import LABELS_FILE, current_labels
from agentv.storage.run.lock import is_being_written
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject
from agentv.types.records.answer import Answer, ResultKey
from agentv.types.records.fields import StoredGeneration
from agentv.types.records.label import Label
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, EventRecord, RunRecord

_BUFFER_BYTES = 16 * 1024

SCORED = "scored"
"""The key of the plan of a run that judged given answers; its value describes how they were read."""


_CONFIRMS = b'"rerun":"confirm"'

R = TypeVar("R")


def with_seq(row: R, seq: int) -> R:
    """Return the value of a stored line with its number, which a line written by a node lacks."""
    if isinstance(row, Answer | CaseResult) and row.seq is None:
        msgspec.structs.force_setattr(row, "seq", seq)
    return row


def slot_name(key: ResultKey) -> str:
    """Return a result key as one text, for sets and maps of digests."""
    prompt = "" if key.prompt is None else f"\0{key.prompt}"
    return f"{key.suite}\0{key.eval_id}\0{key.target}\0{key.trial}{prompt}"


class Generations:
    """The highest generation of each result key, if above 0: a repeat of a result has the next generation."""

    def __init__(self) -> None:
        self._highest = DigestMap("I")
        self.are_all_first = True

    def of(self, key: ResultKey) -> int:
        """Return the highest generation of a result key so far."""
        return 0 if self.are_all_first else self._highest.get(slot_name(key)) or 0

    def add(self, key: ResultKey, generation: int) -> bool:
        """Add a result; return False if an earlier result with the same key has a higher generation."""
        if generation < self.of(key):
            return False
        if generation:
            self._highest.put(slot_name(key), generation)
            self.are_all_first = False
        return True


Row_co = TypeVar("Row_co", covariant=True)


class RowDecoder(Protocol[Row_co]):
    """A decoder of lines, which are given as bytes or parsed into dicts."""

    def of_line(self, line: bytes) -> Row_co:
        """Return the value of a line."""

    def of_record(self, record: JsonObject) -> Row_co:
        """Return the value of a line that was parsed into a dict."""


class _RowHead(Subset, frozen=True):
    """The fields of a result that decide whether it is current, and its state."""

    WHOLE = CaseResult

    slot: ResultKey = ResultKey("", "", "")
    generation: StoredGeneration = 0
    status: str = ""
    verdict: str | None = None


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
_decode_head = msgspec.json.Decoder(_RowHead).decode


class StoredRun:
    """A run on disk. Each method reopens its file and yields records in the order of writing.

    A torn last line (the writer was killed, or is writing now) is skipped. Raises StorageError, with the number of
    the line, for a line that cannot be read, and for a schema newer than this program.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._blobs = BlobFolder(folder / "blobs")
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
        planned = self.run.plan.get("suites")
        paths = [each.get("path") for each in planned if isinstance(each, Mapping)] if isinstance(planned, list) else []
        return tuple(path for path in paths if isinstance(path, str))

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
        heads = self._heads("results.jsonl")
        return not has_one_target or any(head.slot.trial or head.slot.prompt is not None for _, _, head in heads)

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
        """Yield the current answers: for each result key, those of the highest generation."""
        return self._current("answers.jsonl", ANSWERS)

    def all_answers(self) -> Iterator[Answer]:
        """Yield the answers of every generation."""
        return self._read("answers.jsonl", ANSWERS)

    def results(self, *, lines: int | None = None) -> Iterator[CaseResult]:
        """Yield the current results: for each result key, those of the highest generation, without retired cases.

        `lines` limits reading to the first lines of the file: the results as they were when it had so many lines.
        None reads the lines that the file has at the start, because `rescore` appends while it reads.
        """
        return self._current("results.jsonl", RESULTS, lines)

    def refuse_repeated_results(self) -> None:
        """Raise StorageError for a line of results.jsonl that has the result key and generation of an earlier one."""
        name, seen = "results.jsonl", DigestMap("I")
        for number, _, line in self.current_lines(name):
            key = self._head(name, number, line).slot
            first = seen.setdefault(slot_name(key), number)
            if first != number:
                raise StorageError(
                    f"{self.folder / name}:{number}: repeats the result of case {key.eval_id!r} in line {first}; "
                    "delete the line"
                )

    def all_results(self) -> Iterator[CaseResult]:
        """Yield the results of every generation."""
        return self._read("results.jsonl", RESULTS)

    def results_numbered(self, numbers: Collection[int]) -> dict[int, CaseResult]:
        """Return the results with these `seq`; other lines are not decoded."""
        name = "results.jsonl"
        return {
            number - 1: self._row(name, number, line, RESULTS)
            for number, line in enumerate(whole_lines(self.folder / name), start=1)
            if number - 1 in numbers
        }

    def confirming_results(self) -> Iterator[CaseResult]:
        """Yield the results of the re-runs that confirm regressions; other lines are not decoded."""
        name = "results.jsonl"
        for number, line in enumerate(whole_lines(self.folder / name), start=1):
            if _CONFIRMS in line:
                row = self._row(name, number, line, RESULTS)
                if row.rerun == "confirm":
                    yield row

    def highest_generations(self, keys: Collection[ResultKey]) -> dict[ResultKey, int]:
        """Return the highest generation of the results and answers with these keys."""
        highest: dict[ResultKey, int] = {}
        for name in ("results.jsonl", "answers.jsonl"):
            for _, _, head in self._heads(name):
                if head.slot in keys:
                    highest[head.slot] = max(head.generation, highest.get(head.slot, 0))
        return highest

    def answers_at(self, numbers: Collection[int]) -> dict[int, Answer]:
        """Return the answers with these `seq`, which results refer to as `answer_seq`."""
        name = "answers.jsonl"
        return {
            number - 1: self._row(name, number, line, ANSWERS)
            for number, line in enumerate(whole_lines(self.folder / name), start=1)
            if number - 1 in numbers
        }

    def labels(self) -> tuple[Label, ...]:
        """Return the human labels of this run: the latest for each answer, annotator and criterion."""
        return current_labels(self.all_labels())

    def all_labels(self) -> Iterator[Label]:
        """Yield all human labels, including those that were corrected later."""
        return self._read(LABELS_FILE, LABELS)

    def counts(self) -> dict[str, int]:
        """Count the current results by state: pass, borderline, fail, error, skipped."""
        counts: dict[str, int] = {}
        generations, lines = self._generations("results.jsonl")
        retired = self._retired()
        for _, _, head in islice(self._heads("results.jsonl"), lines):
            if head.generation == generations.of(head.slot) and head.slot not in retired:
                state = head.status if head.status in ("error", "skipped") else head.verdict or head.status
                counts[state] = counts.get(state, 0) + 1
        return counts

    def state(self) -> str:
        """Return the state that the last writer recorded, else `running` or `interrupted`."""
        return self.ended() or ("running" if is_being_written(self.folder) else "interrupted")

    def ended(self) -> str | None:
        """Return the final state that the last writer recorded, or None."""
        last = None
        for event in self.events():
            if event.type in ("started", "ended"):
                last = event
        return str(last.fields.get("state", "finished")) if last is not None and last.type == "ended" else None

    def results_at(self, places: Iterable[tuple[int, int, int]]) -> Iterator[CaseResult]:
        """Yield the results at these places in results.jsonl: line number, offset and size in bytes."""
        name = "results.jsonl"
        with open_file(self.folder / name, buffering=_BUFFER_BYTES) as file:
            for number, offset, size in places:
                file.seek(offset)
                yield self._row(name, number, file.read(size), RESULTS)

    def _current(self, name: str, decoder: RowDecoder[Row_co], lines: int | None = None) -> Iterator[Row_co]:
        for number, _, line in self.current_lines(name, lines):
            yield self._row(name, number, line, decoder)

    def current_lines(self, name: str, lines: int | None = None) -> Iterator[tuple[int, int, bytes]]:
        """Yield number, offset and bytes of the current lines: for each result key, the highest generation.

        `lines` limits reading to the first lines of the file; None reads the lines that it has at the start.
        """
        (generations, lines), retired = self._generations(name, lines), self._retired()
        are_all_current = generations.are_all_first and not retired
        offset = 0
        for number, line in enumerate(islice(whole_lines(self.folder / name), lines), start=1):
            head = None if are_all_current else self._head(name, number, line)
            if head is None or (head.generation == generations.of(head.slot) and head.slot not in retired):
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

    def _generations(self, name: str, lines: int | None = None) -> tuple[Generations, int]:
        """Return the generations in the first `lines` lines of a file (None: in all), and the number of lines read."""
        generations, found = Generations(), 0
        for found, _, head in islice(self._heads(name), lines):  # noqa: B007 - it is returned
            generations.add(head.slot, head.generation)
        return generations, found

    def _heads(self, name: str) -> Iterator[tuple[int, bytes, _RowHead]]:
        """Yield the number, the bytes and the head of each line."""
        for number, line in enumerate(whole_lines(self.folder / name), start=1):
            yield number, line, self._head(name, number, line)

    def _head(self, name: str, number: int, line: bytes) -> _RowHead:
        return self._decoded(name, number, line, _decode_head)

    def _decoded(self, name: str, number: int, line: bytes, decode_line: Callable[[bytes], R]) -> R:
        try:
            return decode_line(line)
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{self.folder / name}:{number}: {reason(error)}") from error

    def _read(self, name: str, decoder: RowDecoder[Row_co]) -> Iterator[Row_co]:
        for number, line in enumerate(whole_lines(self.folder / name), start=1):
            yield self._row(name, number, line, decoder)

    def _row(self, name: str, number: int, line: bytes, decoder: RowDecoder[Row_co]) -> Row_co:
        try:
            row = decoder.of_record(self._blobs.resolve(decode(line))) if b'"$blob":' in line else decoder.of_line(line)
        except (ValueError, StorageError) as error:
            raise StorageError(f"{self.folder / name}:{number}: {error}") from error
        return with_seq(row, number - 1)


def open_run(folder: Path) -> StoredRun:
    """Open a run for reading. Raises StorageError when the folder has no run, or one of a newer schema."""
    return StoredRun(folder)
