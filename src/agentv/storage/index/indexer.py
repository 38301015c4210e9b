"""Index one run for pages by cursor, in steps of a few thousand lines, so that its first results are listed at once."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from threading import Event

from msgspec import Struct

from agentv.storage.files.run_file import open_file, size_of
from agentv.storage.index import schema as sql
from agentv.storage.index.file import BUSY_S, open_database, writing
from agentv.storage.index.lines import RESULTS_FILE
from agentv.storage.index.refresh import IndexedRun, find_indexed, refresh_step
from agentv.storage.index.texts import CASES_FILE, TextReader, case_number, decode_case_name
from agentv.storage.index.words import ADD_WORDS, begin_words, has_words

_FIRST_LINES = 1_000
_MOST_LINES = 20_000
"""The lines of the first step, and of the longest one; a step adds a quarter of the lines before it."""

_WORD_LINES = 4_000
_PLACE_LINES = 20_000
_ANSWERS_FILE = "answers.jsonl"


class Stage(Struct, frozen=True):
    """How far a run is indexed beyond its rows: ends are offsets in bytes; `answers` and `words` are lines."""

    run: int
    is_sorted: int
    cases_end: int
    answers_end: int
    answers: int
    words_end: int
    words: int


def find_stage(connection: sqlite3.Connection, run: int) -> Stage | None:
    """Return the stage of a run; None before its first step."""
    found = connection.execute(sql.FIND_STAGE, {"run": run}).fetchone()
    return None if found is None else Stage(*found)


class Indexer:
    """Indexes the run in `folder` in the file that RunPages reads; for a thread of its own.

    Several may index the same run at once, also in other processes.
    """

    def __init__(self, file: Path, folder: Path, *, with_words: bool = True, busy_s: float = BUSY_S) -> None:
        self._file = file
        self._folder = folder
        self._with_words = with_words
        self._busy_s = busy_s
        self._stopped = Event()

    def stop(self) -> None:
        """Let `run` return after the current step, and do nothing from now on."""
        self._stopped.set()

    def run(self, after_step: Callable[[], None] | None = None) -> None:
        """Index what is new in the run, and return when nothing is left; call `after_step` after each transaction.

        Raises OSError when the run cannot be read, sqlite3.Error when the file cannot be used.
        """
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with closing(open_database(self._file, busy_s=self._busy_s)) as connection:
            for _ in self._steps(connection):
                if after_step is not None:
                    after_step()
                if self._stopped.is_set():
                    return

    def _steps(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Take one step after the other: rows, the places of cases and answers, sorted indexes, words."""
        if self._stopped.is_set():
            return
        self._unsort_for_growth(connection)
        lines = _FIRST_LINES
        while True:
            refreshed = refresh_step(connection, self._folder, lines=lines)
            known = refreshed.run
            _begin_stages(connection, known.run)
            yield
            if refreshed.is_complete:
                break
            lines = min(max(_FIRST_LINES, known.lines // 4), _MOST_LINES)
        yield from self._add_cases(connection, known.run)
        yield from self._add_answers(connection, known.run)
        yield from self._sort(connection, known.run)
        if self._with_words and has_words(connection):
            yield from self._add_words(connection, known)

    def _unsort_for_growth(self, connection: sqlite3.Connection) -> None:
        """Drop the sorted indexes if the run has more than doubled, as making them again is faster then."""
        known = find_indexed(connection, self._folder.name)
        stage = None if known is None else find_stage(connection, known.run)
        if known is None or stage is None or not stage.is_sorted:
            return
        if size_of(self._folder / RESULTS_FILE) > 2 * known.end_offset:
            with writing(connection):
                _drop_sorted(connection)
                connection.execute(sql.MARK_SORTED, {"run": known.run, "is_sorted": 0})

    def _sort(self, connection: sqlite3.Connection, run: int) -> Iterator[None]:
        stage = find_stage(connection, run)
        if stage is None or stage.is_sorted:
            return
        for statement in sql.SORTED_INDEXES.values():
            with writing(connection):
                connection.execute(statement.replace("CREATE INDEX", "CREATE INDEX IF NOT EXISTS", 1))
            yield
        with writing(connection):
            connection.execute(sql.MARK_SORTED, {"run": run, "is_sorted": 1})
        yield

    def _add_cases(self, connection: sqlite3.Connection, run: int) -> Iterator[None]:
        path, is_done = self._folder / CASES_FILE, False
        while not is_done:
            with writing(connection):
                stage = find_stage(connection, run)
                if stage is None or size_of(path) <= stage.cases_end:
                    return
                places, end = [], stage.cases_end
                for offset, line in _lines_from(path, end, most=_PLACE_LINES):
                    end = offset + len(line)
                    with suppress(ValueError, RecursionError):
                        name = decode_case_name(line)
                        places.append((run, case_number(name.suite, name.eval_id, name.prompt), offset, len(line) - 1))
                connection.executemany(sql.ADD_CASE, places)
                connection.execute(sql.MARK_CASES, {"run": run, "end": end})
                is_done = end == stage.cases_end
            yield

    def _add_answers(self, connection: sqlite3.Connection, run: int) -> Iterator[None]:
        path, is_done = self._folder / _ANSWERS_FILE, False
        while not is_done:
            with writing(connection):
                stage = find_stage(connection, run)
                if stage is None or size_of(path) <= stage.answers_end:
                    return
                lines = list(_places_from(path, stage.answers_end, most=_PLACE_LINES))
                places = [(run, seq, *place) for seq, place in enumerate(lines, start=stage.answers)]
                connection.executemany(sql.ADD_ANSWER, places)
                end = lines[-1][0] + lines[-1][1] + 1 if lines else stage.answers_end
                values = {"run": run, "end": end, "lines": stage.answers + len(lines)}
                connection.execute(sql.MARK_ANSWERS, values)
                is_done = not lines
            yield

    def _add_words(self, connection: sqlite3.Connection, known: IndexedRun) -> Iterator[None]:
        path = self._folder / RESULTS_FILE
        with closing(TextReader(connection, known.run, self._folder)) as reader:
            is_done = False
            while not is_done:
                with writing(connection):
                    stage = find_stage(connection, known.run)
                    if stage is None or stage.words >= known.lines:
                        return
                    most = min(_WORD_LINES, known.lines - stage.words)
                    end, number = stage.words_end, stage.words
                    texts: list[tuple[int, str]] = []
                    for offset, line in _lines_from(path, end, most=most):
                        end, number = offset + len(line), number + 1
                        text = reader.searched_text(line)
                        if text:
                            texts.append((number, text))
                    connection.executemany(ADD_WORDS, texts)
                    connection.execute(sql.MARK_WORDS, {"run": known.run, "end": end, "lines": number})
                    is_done = number == stage.words
                yield


def _begin_stages(connection: sqlite3.Connection, run: int) -> None:
    """Begin the stages of a run that is new, or was read anew because its file was rewritten."""
    if find_stage(connection, run) is not None:
        return
    with writing(connection):
        if find_stage(connection, run) is None:
            _drop_sorted(connection)
            begin_words(connection)
            connection.execute(sql.ADD_STAGE, {"run": run})


def _drop_sorted(connection: sqlite3.Connection) -> None:
    for name in sql.SORTED_INDEXES:
        connection.execute(f"DROP INDEX IF EXISTS {name}")


def _lines_from(path: Path, offset: int, *, most: int) -> Iterator[tuple[int, bytes]]:
    """Yield up to `most` complete lines from a byte on, each with its offset; none if the file is missing."""
    with suppress(FileNotFoundError), open_file(path) as file:
        file.seek(offset)
        for line in islice(file, most):
            if not line.endswith(b"\n"):
                return
            yield offset, line
            offset += len(line)


def _places_from(path: Path, offset: int, *, most: int) -> Iterable[tuple[int, int]]:
    """Yield offset and size of up to `most` complete lines from a byte on."""
    return ((at, len(line) - 1) for at, line in _lines_from(path, offset, most=most))
