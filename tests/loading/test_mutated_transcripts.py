"""Broken transcripts: each problem has a place, and nothing is raised."""

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.transcripts import SESSIONS, TRANSCRIPTS, opencode_database

from agentv.loading.datasets.transcripts import find_program, load_transcripts
from agentv.messages.transcripts.turns import answers_of

JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**70,
    1e300,
    "",
    "x",
    "\ud800",
    [],
    [1],
    ["a"],
    {},
    {"a": {}},
    [{"type": []}],
    "9999-99-99",
)
CHANGES = ("drop", "repeat", "swap", "cut", "value", "key", "text")


def mutated(lines: list[str], seed: int) -> str:
    """Return the lines of a transcript with one to four changes."""
    draw = random.Random(seed)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(lines))
        match draw.choice(CHANGES):
            case "drop" if len(lines) > 1:
                del lines[at]
            case "repeat":
                lines.insert(draw.randrange(len(lines)), lines[at])
            case "swap":
                other = draw.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case "cut":
                lines[at] = lines[at][: draw.randrange(len(lines[at]) + 1)]
            case "text":
                lines[at] = draw.choice(("", "null", "[]", "not JSON", '{"type": ["user"]}', "[" * 100_000, "{\x00}"))
            case "value" | "key" as change:
                lines[at] = _changed(lines[at], draw, change)
            case _:
                pass
    return "".join(f"{line}\n" for line in lines)


def _changed(line: str, draw: random.Random, change: str) -> str:
    """Return a record in which one value is junk, or one key is gone, at any depth."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return line
    inner: Any = record if isinstance(record, dict | list) else []
    while True:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        if not keys:
            break
        key = draw.choice(keys)
        if isinstance(inner[key], dict | list) and inner[key] and draw.random() < 0.8:
            inner = inner[key]
            continue
        if change == "key":
            del inner[key]
        else:
            inner[key] = draw.choice(JUNK)
        break
    return json.dumps(record)


@pytest.mark.parametrize("program", SESSIONS)
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 2**32))
def test_mutated_transcripts_are_read_without_an_exception(program: str, tmp_path: Path, seed: int) -> None:
    lines = (TRANSCRIPTS / SESSIONS[program]).read_text().splitlines()
    path = tmp_path / "session.jsonl"
    path.write_text(mutated(lines, seed), encoding="utf-8", errors="surrogatepass")
    find_program(path)
    read_all(path, program)


def read_all(path: Path, program: str) -> None:
    for transcript in load_transcripts(path, program):  # type: ignore[arg-type] # one of the programs
        for answer in answers_of(transcript.conversation):
            json.dumps(None if answer.given is None else answer.given.to_dict(), allow_nan=False)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 2**32))
def test_mutated_rows_of_a_database_are_read_without_an_exception(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    path = tmp_path / "opencode.db"
    path.unlink(missing_ok=True)
    opencode_database(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        for table in ("message", "part"):
            for number, data in database.execute(f"SELECT id, data FROM {table}").fetchall():
                if draw.random() < 0.3:
                    text = mutated([data], draw.getrandbits(32)).encode(errors="replace").decode()
                    database.execute(f"UPDATE {table} SET data = ? WHERE id = ?", (text, number))
        database.execute("UPDATE session SET revert = ?", (draw.choice((None, "[]", "{", 5, '{"messageID": []}')),))
        database.commit()
    read_all(path, "opencode")
