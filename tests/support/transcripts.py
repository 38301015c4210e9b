"""Transcripts for tests: those of real programs in tests/fixtures/transcripts, and records of Claude Code to build."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from agentv.loading.datasets.transcripts import find_program, load_transcripts
from agentv.messages.transcripts.turns import Conversation

TRANSCRIPTS = Path(__file__).parents[1] / "fixtures" / "transcripts"
SESSIONS = {
    "claude": "claude.jsonl",
    "codex": "codex.jsonl",
    "copilot": "copilot.jsonl",
    "gemini": "gemini.jsonl",
    "pi": "pi.jsonl",
}
ANSWER = "The amount is in notes.txt, and new.txt is written."


def opencode_database(folder: Path, *statements: str) -> Path:
    """Write OpenCode's database of the fixture, changed by some statements."""
    path = folder / "opencode.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript((TRANSCRIPTS / "opencode.sql").read_text())
        for statement in statements:
            database.execute(statement)
        database.commit()
    return path


def transcript_of(program: str, folder: Path) -> Path:
    """Return the fixture of a program."""
    return opencode_database(folder) if program == "opencode" else TRANSCRIPTS / SESSIONS[program]


def conversations_in(path: Path) -> Sequence[Conversation]:
    """Return the conversations of a transcript."""
    program = find_program(path)
    assert program is not None, path
    return [each.conversation for each in load_transcripts(path, program)]


def claude_record(kind: str, number: str, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    """Return a record of Claude Code."""
    message = {"role": kind, "content": content, **more.pop("message", {})}
    return {
        "type": kind,
        "uuid": number,
        "parentUuid": parent,
        "isSidechain": False,
        "sessionId": "s",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": message,
        **more,
    }
