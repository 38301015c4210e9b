"""Read the texts of listed results by their places: question, answer and reasons, without scanning a file."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec
from msgspec import Struct

from agentv.storage.files.run_file import open_file
from agentv.storage.index.digests import name_number
from agentv.storage.index.row_query import RowEntry
from agentv.storage.index.words import LONGEST_TEXT
from agentv.storage.records.decode import ANSWERS, CASES
from agentv.storage.records.json_line import BLOB_KEY, decode
from agentv.storage.records.narrow import Subset
from agentv.storage.run.blobs import BlobFolder
from agentv.storage.run.stored import RowDecoder, StoredRun, with_seq
from agentv.types.errors import StorageError
from agentv.types.evaluation import EvaluatorResult
from agentv.types.messages import Message
from agentv.types.records.answer import Answer, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord

CASES_FILE = "cases.jsonl"
_RESULTS_FILE = "results.jsonl"
_ANSWERS_FILE = "answers.jsonl"
_BUFFER_BYTES = 16 * 1024
_MOST_PLACES = 500

PREVIEW = 2_000
"""The characters of a text that a list shows at most."""


class Reason(Struct, frozen=True):
    """What one evaluator says of an answer."""

    evaluator: str
    score: float | None
    verdict: str | None
    text: str
    """Its reasoning, else what was missed, else its error; may be empty."""


class RowTexts(Struct, frozen=True):
    """The beginnings of the texts of a result."""

    question: str | None
    """None if the case is not stored."""
    answer: str
    error: str | None
    """The message of the error of the result."""
    reasons: tuple[Reason, ...]


class StoredDetail(Struct, frozen=True):
    """Everything that is stored of a result."""

    result: CaseResult
    case: CaseRecord | None
    answer: Answer | None


class _CaseName(Subset, frozen=True):
    WHOLE = CaseRecord

    suite: str = ""
    eval_id: str = ""
    prompt: str | None = None


class _MessageText(Subset, frozen=True):
    WHOLE = Message

    role: str = ""
    content: object = None


class _CaseText(_CaseName, frozen=True):
    question: object = ""
    input_messages: tuple[_MessageText, ...] = ()


class _EvaluatorText(Subset, frozen=True):
    WHOLE = EvaluatorResult

    name: str = ""
    score: float | None = None
    verdict: str | None = None
    reasoning: object = None
    misses: object = ()
    error: object = None

    @property
    def judged_score(self) -> float | None:
        """The score; None if the evaluator failed."""
        return None if self.error is not None else self.score


class _ResultText(Subset, frozen=True):
    WHOLE = CaseResult

    slot: ResultKey
    candidate_answer: object = ""
    error: object = None
    evaluator_results: tuple[_EvaluatorText, ...] = ()


class _SearchedText(Subset, frozen=True):
    WHOLE = CaseResult

    slot: ResultKey
    candidate_answer: object = ""


decode_case_name: Callable[[bytes], _CaseName] = msgspec.json.Decoder(_CaseName).decode
_decode_case_text = msgspec.json.Decoder(_CaseText).decode
_decode_result_text = msgspec.json.Decoder(_ResultText).decode
_decode_searched = msgspec.json.Decoder(_SearchedText).decode

R = TypeVar("R")


def case_number(suite: str, eval_id: str, prompt: str | None) -> int:
    """Return the number by which the index finds a case."""
    return name_number(suite, eval_id, *(() if prompt is None else (prompt,)))


class TextReader:
    """Reads texts of a run at the places that its index has. Close it after use."""

    def __init__(self, connection: sqlite3.Connection, run: int, folder: Path) -> None:
        self._connection = connection
        self._run = run
        self._folder = folder
        self._blobs = BlobFolder(folder / "blobs")
        self._files: dict[str, BinaryIO] = {}

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def texts(self, rows: Sequence[RowEntry], *, limit: int = PREVIEW) -> tuple[RowTexts, ...]:
        """Return the texts of rows, of each the first `limit` characters. Raises StorageError."""
        questions = self._questions(rows, limit)
        return tuple(self._texts_of(row, questions.get(_name_of(row)), limit) for row in rows)

    def details(self, rows: Sequence[RowEntry]) -> tuple[StoredDetail, ...]:
        """Return the stored results of rows, with case and answer. Raises StorageError."""
        stored = StoredRun(self._folder)
        results = stored.results_at((row.line, row.offset, row.size) for row in rows)
        return tuple(
            StoredDetail(result, self._case_of(row), self._answer_of(row))
            for row, result in zip(rows, results, strict=True)
        )

    def searched_text(self, line: bytes) -> str:
        """Return what words are searched in of a line of results.jsonl: id, question, answer; empty if unreadable."""
        try:
            row = _decode_searched(line)
            answer = self._text(row.candidate_answer, LONGEST_TEXT)
            case = self._case_text(row.slot)
            question = "" if case is None else self._text(case.question, LONGEST_TEXT)
        except (ValueError, RecursionError, OSError):
            return ""
        return f"{row.slot.eval_id}\n{question}\n{answer}"

    def _texts_of(self, row: RowEntry, question: str | None, limit: int) -> RowTexts:
        line = self._line(_RESULTS_FILE, row.offset, row.size)
        try:
            found = _decode_result_text(line)
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{self._folder / _RESULTS_FILE}:{row.line}: {error}") from error
        reasons = tuple(
            Reason(each.name, each.judged_score, each.verdict, self._reason(each, limit))
            for each in found.evaluator_results
        )
        return RowTexts(question, self._text(found.candidate_answer, limit), self._message(found.error, limit), reasons)

    def _reason(self, found: _EvaluatorText, limit: int) -> str:
        message = self._message(found.error, limit)
        if message is not None:
            return message
        if found.reasoning:
            return self._text(found.reasoning, limit)
        misses = found.misses if isinstance(found.misses, list) else []
        return "; ".join(self._text(each, limit) for each in misses)[:limit]

    def _message(self, error: object, limit: int) -> str | None:
        return self._text(error.get("message"), limit) if isinstance(error, dict) else None

    def _text(self, value: object, limit: int) -> str:
        """Return the beginning of a text; of a blob only that is read, so it is not compared with its hash."""
        if isinstance(value, str):
            return value[:limit]
        return self._blobs.beginning(value, limit) if isinstance(value, dict) and BLOB_KEY in value else ""

    def _questions(self, rows: Iterable[RowEntry], limit: int) -> dict[tuple[str, str, str | None], str | None]:
        return {_name_of(row): self._question(row.slot, limit) for row in rows}

    def _question(self, key: ResultKey, limit: int) -> str | None:
        """Return the user's last message, as `CaseRecord.last_question` does."""
        case = self._case_text(key)
        if case is None:
            return None
        users = [message.content for message in case.input_messages if message.role == "user"]
        if len(case.input_messages) > 1 and users and isinstance(users[-1], str) and users[-1].strip():
            return self._text(users[-1], limit)
        return self._text(case.question, limit)

    def _case_text(self, key: ResultKey) -> _CaseText | None:
        line = self._case_line(key)
        try:
            case = None if line is None else _decode_case_text(line)
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{self._folder / CASES_FILE}: {error}") from error
        is_same = case is not None and (case.suite, case.eval_id, case.prompt) == (key.suite, key.eval_id, key.prompt)
        return case if is_same else None

    def _case_of(self, row: RowEntry) -> CaseRecord | None:
        line = self._case_line(row.slot)
        case = None if line is None else self._decoded(CASES_FILE, line, CASES)
        is_same = case is not None and (case.suite, case.eval_id, case.prompt) == _name_of(row)
        return case if is_same else None

    def _case_line(self, key: ResultKey) -> bytes | None:
        values = {"run": self._run, "name": case_number(key.suite, key.eval_id, key.prompt)}
        return self._line_at(CASES_FILE, "SELECT offset, bytes FROM cases WHERE run = :run AND name = :name", values)

    def _answer_of(self, row: RowEntry) -> Answer | None:
        if row.answer_seq is None:
            return None
        values = {"run": self._run, "seq": row.answer_seq}
        line = self._line_at(_ANSWERS_FILE, "SELECT offset, bytes FROM answers WHERE run = :run AND seq = :seq", values)
        return None if line is None else with_seq(self._decoded(_ANSWERS_FILE, line, ANSWERS), row.answer_seq)

    def _line_at(self, name: str, statement: str, values: dict[str, int]) -> bytes | None:
        place = self._connection.execute(statement, values).fetchone()
        return None if place is None else self._line(name, *place)

    def _line(self, name: str, offset: int, size: int) -> bytes:
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = open_file(self._folder / name, buffering=_BUFFER_BYTES)
        file.seek(offset)
        return file.read(size)

    def _decoded(self, name: str, line: bytes, decoder: RowDecoder[R]) -> R:
        try:
            if b'"$blob":' in line:
                return decoder.of_record(self._blobs.resolve(decode(line)))
            return decoder.of_line(line)
        except (ValueError, StorageError) as error:
            raise StorageError(f"{self._folder / name}: {error}") from error


def _name_of(row: RowEntry) -> tuple[str, str, str | None]:
    return row.slot.suite, row.slot.eval_id, row.slot.prompt
