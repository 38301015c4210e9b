"""Read the new lines of results.jsonl for the index, decoding only the fields that it needs."""

from collections.abc import Callable, Hashable, Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from agentv.storage.files.run_file import open_file
from agentv.storage.index.row_query import searchable_metadata
from agentv.storage.records.decode import check_schema
from agentv.storage.records.json_line import decode, decode_value, encode
from agentv.storage.records.narrow import Subset
from agentv.types.json_value import JsonObject
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.stored import RESULT_SCHEMA, StoredGeneration, known_duration
from agentv.types.usage import known_cost

Key = TypeVar("Key", bound=Hashable)

RESULTS_FILE = "results.jsonl"
_BATCH_LINES = 5000
_TAIL_BYTES = 64 * 1024

_INTEGER_LIMIT = 2**63
"""SQLite stores integers of 64 bits."""


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
    tags: msgspec.Raw = msgspec.Raw()
    metadata: msgspec.Raw = msgspec.Raw()


_decode_row = msgspec.json.Decoder(_RowLine).decode
_decode_tags = msgspec.json.Decoder(list[str] | None).decode


class LineBatch(Struct):
    """The table rows that a batch of lines adds to the index: one tuple per row, in the order of the columns."""

    end_offset: int
    """The offset of the end of the last line."""
    lines: int
    """The number of the last line."""
    rows: list[tuple[object, ...]] = field(default_factory=list)
    cells: list[tuple[object, ...]] = field(default_factory=list)
    tag_sets: list[tuple[object, ...]] = field(default_factory=list)
    tags: list[tuple[object, ...]] = field(default_factory=list)
    metadata: list[tuple[object, ...]] = field(default_factory=list)
    skipped: int = 0
    has_generations: bool = False


class ResultLineReader:
    """Reads one run's lines in batches. `resolve` replaces references to blobs by values (`BlobFolder.resolve`)."""

    def __init__(self, run: int, path: Path, *, resolve: Callable[[JsonObject], JsonObject]) -> None:
        self._run = run
        self._path = path
        self._resolve = resolve
        self._cells: dict[tuple[str, str, str, str, int], int] = {}
        self._tag_sets: dict[bytes, int] = {b"": 0}
        self._metadata_sets: dict[bytes, int] = {b"": 0}

    def batches(self, *, end_offset: int, lines: int) -> Iterator[LineBatch]:
        """Yield batches of the complete lines after the first `lines` lines, which end at byte `end_offset`.

        Yields none if the file is missing.
        """
        try:
            file = open_file(self._path)
        except FileNotFoundError:
            return
        with file:
            file.seek(end_offset)
            while True:
                batch, is_torn = LineBatch(end_offset, lines), False
                for line in islice(file, _BATCH_LINES):
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
        cell = self._cell((slot.suite, slot.target, slot.prompt or "", state, tag_set), batch)
        batch.rows.append(
            (
                *(self._run, batch.lines, offset, size - 1, generation, generation == 0),
                *(cell, slot.eval_id, slot.trial, metadata_set, row.score),
                *(known_cost(row.cost_usd), known_duration(row.duration_ms)),
            )
        )

    def _cell(self, values: tuple[str, str, str, str, int], batch: LineBatch) -> int:
        known = self._cells.get(values)
        if known is not None:
            return known
        number = _digest_number(encode(values))
        batch.cells.append((self._run, number, *values))
        _remember(self._cells, values, number)
        return number

    def _tag_set(self, raw: bytes, batch: LineBatch) -> int:
        known = self._tag_sets.get(raw)
        if known is not None:
            return known
        tags = _decode_tags(raw) or []
        number = _digest_number(raw) if tags else 0
        if tags:
            batch.tag_sets.append((self._run, number, raw.decode()))
            batch.tags += [(self._run, tag, number) for tag in tags]
        _remember(self._tag_sets, raw, number)
        return number

    def _metadata_set(self, raw: bytes, batch: LineBatch) -> int:
        known = self._metadata_sets.get(raw)
        if known is not None:
            return known
        metadata = {} if raw == b"null" else decode(raw)
        if b'"$blob":' in raw:
            whole = self._resolve({"metadata": metadata})["metadata"]
            metadata = whole if isinstance(whole, dict) else {}
        number = _digest_number(raw) if metadata else 0
        batch.metadata += [(self._run, key, number, value) for key, value in searchable_metadata(metadata).items()]
        _remember(self._metadata_sets, raw, number)
        return number


def read_tags(text: str) -> tuple[str, ...]:
    """Return the tags of a stored set."""
    tags = decode_value(text.encode())
    return tuple(map(str, tags)) if isinstance(tags, list) else ()


def tail_digest(path: Path, end_offset: int) -> bytes:
    """Return a digest of up to 64 KiB before byte `end_offset`; if it changes, the file was replaced or cut."""
    if end_offset == 0:
        return b""
    with open_file(path) as file:
        file.seek(max(0, end_offset - _TAIL_BYTES))
        return blake2b(file.read(min(end_offset, _TAIL_BYTES)), digest_size=8).digest()


def _remember(numbers: dict[Key, int], key: Key, number: int) -> None:
    # Bounded, because each result may have its own set or cell; those that many results share occur early.
    if len(numbers) < _BATCH_LINES:
        numbers[key] = number


def _digest_number(raw: bytes) -> int:
    """Return 63 bits of a digest, never 0."""
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "big") >> 1 or 1
