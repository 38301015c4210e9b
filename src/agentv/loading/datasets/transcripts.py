"""Files of coding agents: which of them are transcripts, by their content, and the conversations in them."""

import gzip
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import IO, cast

from msgspec import Struct
from msgspec.structs import replace

from agentv.loading.files.json_lines import parse_json, quick_json
from agentv.loading.files.text import BYTE_ORDER_MARK
from agentv.messages.logs.reading import is_export
from agentv.messages.transcripts.opencode import read_opencode_session
from agentv.messages.transcripts.reading import Program, is_of_subagent, program_of, read_session
from agentv.messages.transcripts.turns import Conversation, Record, Unread
from agentv.types.json_value import JsonObject, JsonValue

UNREADABLE = (OSError, EOFError, zlib.error)
"""What reading a file raises that is broken or may not be read."""
_GZIP, _SQLITE = b"\x1f\x8b", b"SQLite format 3\x00"
_DOCUMENT_KEYS = ('"projectHash"', '"info"')
"""Keys near the start of a transcript that is one JSON document over several lines."""
_START_BYTES, _HEAD_BYTES = 64, 4096


class LostRecord(Struct, frozen=True):
    """A line that could not be read."""

    line: int
    message: str


class Transcript(Struct, frozen=True):
    """One conversation of a file, and the lines that could not be read."""

    conversation: Conversation
    lost: tuple[LostRecord, ...] = ()


class FolderContent(Struct, frozen=True):
    """The transcripts below a folder, in the order of their paths, and the other files."""

    transcripts: tuple[Path, ...]
    others: tuple[Path, ...]


def find_program(path: Path) -> Program | None:
    """Return the program that wrote a transcript, by the file's content; None for any other file."""
    if not path.is_file():
        return None
    try:
        with _opened(path) as file:
            start = file.read(_START_BYTES)
            if start.startswith(_SQLITE):
                return "opencode" if _has_sessions(path) else None
            if not start.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{"):
                return None
            file.seek(0)
            first = _first_record(file)
    except UNREADABLE:
        return None  # the reader of logs reports a file that cannot be read
    return None if first is None or is_export(first) else program_of(first)


def find_transcripts(folder: Path) -> FolderContent:
    """Return the transcripts below a folder, with those of subagents, and the other files."""
    transcripts: list[Path] = []
    others: list[Path] = []
    for path in sorted(_files_below(folder)):
        (others if find_program(path) is None else transcripts).append(path)
    return FolderContent(tuple(transcripts), tuple(others))


def _files_below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def load_transcripts(path: Path, program: Program, *, since: datetime | None = None) -> Iterator[Transcript]:
    """Yield the conversations in a file. Raises one of UNREADABLE for a file that cannot be read.

    Sessions of a database that have not changed `since` a time are left out.
    """
    with _opened(path) as file:
        is_database = file.read(len(_SQLITE)) == _SQLITE
    if is_database:
        yield from _load_database(path, since)
        return
    records, lost, unread = _records(path)
    sides = [] if program != "claude" else [each for file in _files_of_subagents(path) for each in _records(file)[0]]
    conversation = read_session(program, records, sides)
    yield Transcript(replace(conversation, unread=(*conversation.unread, *unread)), tuple(lost))


def read_start(path: Path, size: int) -> bytes:
    """Return the first bytes of a file, decompressed. Raises UNREADABLE."""
    with _opened(path) as file:
        return file.read(size)


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        is_gzip = file.read(len(_GZIP)) == _GZIP
    return cast(IO[bytes], gzip.open(path)) if is_gzip else path.open("rb")


def _first_record(lines: Iterable[bytes]) -> JsonObject | None:
    """Return the first JSON object of a file, a document over several lines only if it may be a transcript."""
    rest = iter(lines)
    first = next((line for line in rest if line.strip()), b"")
    value = _parsed(first)
    if value is None and first.strip() == b"{":
        head = first
        while len(head) < _HEAD_BYTES and (line := next(rest, b"")):
            head += line
        if any(key.encode() in head for key in _DOCUMENT_KEYS):
            value = _parsed(head + b"".join(rest))
    return value


def _parsed(data: bytes) -> JsonObject | None:
    """Return a JSON object, with half of a surrogate pair replaced; None for anything else."""
    text = data.removeprefix(BYTE_ORDER_MARK).decode("utf-8", "replace").strip()
    document = quick_json(text, "", 1) or parse_json(text, "", 1)[0]
    value = None if document is None else document.value
    return value if isinstance(value, dict) else None


def _records(path: Path) -> tuple[list[Record], list[LostRecord], list[Unread]]:
    """Return the records of a file, the lines that cannot be read, and a last line that is still being written."""
    records: list[Record] = []
    lost: list[LostRecord] = []
    with _opened(path) as file:
        lines = file.read(_HEAD_BYTES)
        file.seek(0)
        if lines.lstrip()[:2] in (b"{\n", b"{\r", b"{"):
            whole = _first_record(file)
            return (
                ([], [LostRecord(1, "the file is not valid JSON")], [])
                if whole is None
                else ([Record(1, whole)], [], [])
            )
        last = b""
        for number, line in enumerate(file, 1):
            last = line
            if not line.strip():
                continue
            value = _parsed(line)
            if value is None:
                lost.append(LostRecord(number, _problem(line, number)))
            else:
                records.append(Record(number, value))
    if lost and not last.endswith(b"\n") and lost[-1].line == number:
        return records, lost, [Unread(lost.pop().line, "last line, which is not complete")]
    return records, lost, []


def _problem(line: bytes, number: int) -> str:
    _, problems = parse_json(line.decode("utf-8", "replace"), "", number)
    return problems[0].message if problems else "this line is not a JSON object"


def _files_of_subagents(path: Path) -> list[Path]:
    """Return the files with the work of the subagents of a session of Claude Code."""
    name = path.name.removesuffix(".gz").removesuffix(".jsonl")
    below = sorted(path.parent.joinpath(name).rglob("*.jsonl"))
    return [each for each in below if _is_of_subagent(each)] + [
        each for each in sorted(path.parent.glob("agent-*.jsonl")) if _is_of_subagent(each, session=name)
    ]


def _is_of_subagent(path: Path, session: str | None = None) -> bool:
    with _opened(path) as file:
        first = _first_record(file)
    if first is None or not is_of_subagent(first):
        return False
    return session is None or first.get("sessionId") == session


_TABLES = frozenset({"session", "message", "part"})


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


def _has_sessions(path: Path) -> bool:
    """Return True for a database of OpenCode."""
    try:
        with closing(_connect(path)) as database:
            names = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error:
        return False
    return names >= _TABLES


_SESSIONS = """
WITH RECURSIVE roots(id) AS (
    SELECT id FROM session WHERE parent_id IS NULL AND time_updated >= ? ORDER BY time_created, id
), below(root, id) AS (
    SELECT id, id FROM roots UNION SELECT below.root, session.id FROM session JOIN below ON session.parent_id = below.id
)
SELECT below.root, session.id, session.parent_id, session.version, session.directory, session.revert
FROM below JOIN session ON session.id = below.id
"""
_MESSAGES = "SELECT rowid, id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS = "SELECT data FROM part WHERE message_id = ? ORDER BY id"


def _load_database(path: Path, since: datetime | None) -> Iterator[Transcript]:
    """Yield the sessions of OpenCode's database, each with those of its subagents. Raises OSError."""
    try:
        with closing(_connect(path)) as database:
            sessions: dict[str, dict[str, JsonObject]] = {}
            earliest = 0 if since is None else int(since.timestamp() * 1000)
            for root, *info in database.execute(_SESSIONS, (earliest,)).fetchall():
                sessions.setdefault(root, {})[info[0]] = _session_info(*info)
            for root, infos in sessions.items():
                lost: list[LostRecord] = []
                loaded = {number: _session(database, info, lost) for number, info in infos.items()}
                own = loaded.pop(root)
                yield Transcript(read_opencode_session(Record(1, own), loaded), tuple(lost))
    except sqlite3.Error as error:
        raise OSError(f"the database cannot be read: {error}") from error


def _session_info(number: str, parent: str | None, version: str, directory: str, revert: object) -> JsonObject:
    going_back: JsonValue = None if revert is None else dict(_parsed(str(revert).encode("utf-8", "replace")) or {})
    return {"id": number, "parentID": parent, "version": version, "directory": directory, "revert": going_back}


def _session(database: sqlite3.Connection, info: JsonObject, lost: list[LostRecord]) -> JsonObject:
    messages: list[JsonValue] = []
    for line, number, data in database.execute(_MESSAGES, (info["id"],)).fetchall():
        found = [_parsed(str(each).encode("utf-8", "replace")) for (each,) in database.execute(_PARTS, (number,))]
        own = _parsed(str(data).encode("utf-8", "replace"))
        if own is None or None in found:
            lost.append(LostRecord(line, f"message {number} is not valid JSON"))
        parts: list[JsonValue] = [dict(part) for part in found if part is not None]
        messages.append({"line": line, "info": {**(own or {}), "id": number}, "parts": parts})
    return {"info": info, "messages": messages}
