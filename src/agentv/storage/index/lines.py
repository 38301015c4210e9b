"""Read the new lines of results.jsonl for the index, decoding only the fields that it needs."""

from collections.abc import Callable, Hashable, Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import Struct, field

from agentv.storage.files.run_file import open_file
from agentv.storage.index.digests import digest_number
from agentv.storage.index.entries import Trial, make_trial
from agentv.storage.index.row_query import searchable_metadata
from agentv.storage.index.schema import STATES
from agentv.storage.records.decode import check_schema
from agentv.storage.records.json_line import decode, decode_value, encode
from agentv.storage.records.narrow import Subset
from agentv.types.evaluation import EvaluatorResult
from agentv.types.json_value import JsonObject
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.stored import RESULT_SCHEMA, StoredGeneration, known_duration
from agentv.types.usage import known_cost

Key = TypeVar("Key", bound=Hashable)

RESULTS_FILE = "results.jsonl"
BATCH_LINES = 5000
"""The most lines that are added at once."""
_TAIL_BYTES = 64 * 1024

_RANKS = {state: rank for rank, state in enumerate(STATES)}

_INTEGER_LIMIT = 2**63
"""SQLite stores integers of 64 bits."""


class _Evaluator(Subset, frozen=True):
    WHOLE = EvaluatorResult

    name: str = ""
    status: object = None
    verdict: object = None
    error: object = None

    @property
    def outcome(self) -> str | None:
        """What the evaluator found; None if it was skipped or has no verdict."""
        if self.error is not None or self.status == "error":
            return "error"
        return self.verdict if isinstance(self.verdict, str) and self.status != "skipped" else None


class _RowLine(Subset, frozen=True):
    """The fields of a result that users list and filter by; tags and metadata are not decoded."""

    WHOLE = CaseResult

    slot: ResultKey
    status: str
    schema: str | None = None
    verdict: str | None = None
    generation: StoredGeneration = 0
    score: float | None = None
    cost_usd: object = None  # an older version stored any number
    duration_ms: object = None  # as cost_usd
    answer_ref: AnswerRef | None = None
    evaluator_results: tuple[_Evaluator, ...] = ()
    tags: msgspec.Raw = msgspec.Raw()
    metadata: msgspec.Raw = msgspec.Raw()


_decode_row = msgspec.json.Decoder(_RowLine).decode
_decode_tags = msgspec.json.Decoder(list[str] | None).decode


Outcomes: TypeAlias = tuple[tuple[str, str], ...]
"""Names of evaluators with what they found."""
_CellValues: TypeAlias = tuple[str, str, str, str, int, int]


_decode_outcomes = msgspec.json.Decoder(Outcomes).decode


class LineBatch(Struct):
    """The table rows that a batch of lines adds to the index: one tuple per row, in the order of the columns.

    Those of `rows` lack the last column, whether the row is shown.
    """

    run: int
    end_offset: int
    """The offset of the end of the last line."""
    lines: int
    """The number of the last line."""
    rows: list[tuple[object, ...]] = field(default_factory=list)
    cells: list[tuple[object, ...]] = field(default_factory=list)
    tag_sets: list[tuple[object, ...]] = field(default_factory=list)
    tags: list[tuple[object, ...]] = field(default_factory=list)
    outcome_sets: list[tuple[object, ...]] = field(default_factory=list)
    outcomes: list[tuple[object, ...]] = field(default_factory=list)
    metadata: list[tuple[object, ...]] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    """The added rows that count."""
    skipped: int = 0
    has_generations: bool = False


class ResultLineReader:
    """Reads one run's lines in batches. `resolve` replaces references to blobs by values (`BlobFolder.resolve`)."""

    def __init__(self, run: int, path: Path, *, resolve: Callable[[JsonObject], JsonObject]) -> None:
        self._run = run
        self._path = path
        self._resolve = resolve
        self._cells: dict[_CellValues, int] = {}
        self._tag_sets: dict[bytes, int] = {b"": 0}
        self._metadata_sets: dict[bytes, int] = {b"": 0}
        self._outcome_sets: dict[Outcomes, int] = {(): 0}

    def batches(self, *, end_offset: int, lines: int, size: int = BATCH_LINES) -> Iterator[LineBatch]:
        """Yield batches of the complete lines after the first `lines` lines, which end at byte `end_offset`.

        A batch has at most `size` lines. Yields none if the file is missing.
        """
        try:
            file = open_file(self._path)
        except FileNotFoundError:
            return
        with file:
            file.seek(end_offset)
            while True:
                batch, is_torn = LineBatch(self._run, end_offset, lines), False
                for line in islice(file, size):
                    is_torn = not line.endswith(b"\n")  # another process is writing it
                    if is_torn:
                        break
                    self._add_line(line, batch)
                if batch.lines > lines:
                    yield batch
                if is_torn or batch.lines == lines:
                    return
                end_offset, lines = batch.end_offset, batch.lines

    def _add_line(self, line: bytes, batch: LineBatch) -> None:
        offset, size = batch.end_offset, len(line)
        batch.end_offset += size
        batch.lines += 1
        try:
            row = _decode_row(line)
            if row.schema != RESULT_SCHEMA:
                check_schema(row.schema, RESULT_SCHEMA)
            tag_set = self._tag_set(bytes(row.tags), batch)
            metadata_set = self._metadata_set(bytes(row.metadata), batch)
        # Torn, foreign, or of a newer schema: reading the result itself reports the problem.
        except (ValueError, RecursionError, OSError):
            batch.skipped += 1
            return
        slot, generation = row.slot, row.generation
        if not -_INTEGER_LIMIT <= slot.trial < _INTEGER_LIMIT:
            batch.skipped += 1
            return
        if generation:
            batch.has_generations = True
        state = row.status if row.status in ("error", "skipped") else row.verdict or row.status
        score = None if state == "error" else row.score  # that of an error counts the failed judge as 0
        outcome_set = self._outcome_set(row.evaluator_results, batch)
        cell = self._cell((slot.suite, slot.target, slot.prompt or "", state, tag_set, outcome_set), batch)
        if not generation:
            name = slot.suite, slot.eval_id, slot.target, slot.prompt or ""
            batch.trials.append(make_trial(name, slot.trial, batch.lines, cell, state))
        answer = None if row.answer_ref is None or abs(row.answer_ref.seq) >= _INTEGER_LIMIT else row.answer_ref.seq
        batch.rows.append(
            (
                *(self._run, batch.lines, offset, size - 1, generation, generation == 0),
                *(cell, _RANKS.get(state, len(_RANKS)), slot.eval_id, slot.trial, metadata_set, score),
                *(known_cost(row.cost_usd), known_duration(row.duration_ms), answer),
            )
        )

    def _cell(self, values: _CellValues, batch: LineBatch) -> int:
        known = self._cells.get(values)
        if known is not None:
            return known
        number = digest_number(encode(values))
        batch.cells.append((self._run, number, *values))
        _remember(self._cells, values, number)
        return number

    def _tag_set(self, raw: bytes, batch: LineBatch) -> int:
        known = self._tag_sets.get(raw)
        if known is not None:
            return known
        tags = _decode_tags(raw) or []
        number = digest_number(raw) if tags else 0
        if tags:
            batch.tag_sets.append((self._run, number, raw.decode()))
            batch.tags += [(self._run, tag, number) for tag in tags]
        _remember(self._tag_sets, raw, number)
        return number

    def _outcome_set(self, evaluators: tuple[_Evaluator, ...], batch: LineBatch) -> int:
        outcomes = tuple([(each.name, outcome) for each in evaluators if (outcome := each.outcome) is not None])
        known = self._outcome_sets.get(outcomes)
        if known is not None:
            return known
        raw = encode(outcomes)
        number = digest_number(raw)
        batch.outcome_sets.append((self._run, number, raw.decode()))
        batch.outcomes += [(self._run, *outcome, number) for outcome in outcomes]
        _remember(self._outcome_sets, outcomes, number)
        return number

    def _metadata_set(self, raw: bytes, batch: LineBatch) -> int:
        known = self._metadata_sets.get(raw)
        if known is not None:
            return known
        metadata = {} if raw == b"null" else decode(raw)
        if b'"$blob":' in raw:
            whole = self._resolve({"metadata": metadata})["metadata"]
            metadata = whole if isinstance(whole, dict) else {}
        number = digest_number(raw) if metadata else 0
        batch.metadata += [(self._run, key, number, value) for key, value in searchable_metadata(metadata).items()]
        _remember(self._metadata_sets, raw, number)
        return number


def read_tags(text: str) -> tuple[str, ...]:
    """Return the tags of a stored set."""
    tags = decode_value(text.encode())
    return tuple(map(str, tags)) if isinstance(tags, list) else ()


def read_outcomes(text: str) -> tuple[tuple[str, str], ...]:
    """Return the outcomes of a stored set: names of evaluators with what they found."""
    return _decode_outcomes(text)


def tail_digest(path: Path, end_offset: int) -> bytes:
    """Return a digest of up to 64 KiB before byte `end_offset`; if it changes, the file was replaced or cut."""
    if end_offset == 0:
        return b""
    with open_file(path) as file:
        file.seek(max(0, end_offset - _TAIL_BYTES))
        return blake2b(file.read(min(end_offset, _TAIL_BYTES)), digest_size=8).digest()


def _remember(numbers: dict[Key, int], key: Key, number: int) -> None:
    # Bounded, because each result may have its own set or cell; those that many results share occur early.
    if len(numbers) < BATCH_LINES:
        numbers[key] = number
