"""`agentv score` on transcripts of coding agents: folders, `--since`, `--new`, and what is not understood."""

import gzip
import json
import os
import random
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.loading.test_mutated_transcripts import mutated
from tests.support.spans import export
from tests.support.transcripts import SESSIONS, TRANSCRIPTS, claude_record, opencode_database
from tests.telemetry.test_joining import assistant, call, user

from agentv.cli.main import main

Call = Callable[..., tuple[int, str]]


@pytest.fixture
def agentv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    (tmp_path / ".git").mkdir()
    (tmp_path / "config.yaml").write_text("evaluators: [{type: contains, name: yes, value: Yes}]\ngates: none\n")
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out + said.err

    return call


@pytest.fixture
def score(agentv: Call) -> Call:
    def call(*arguments: str) -> tuple[int, str]:
        return agentv("score", "sessions", "--config", "config.yaml", *arguments)

    return call


def rows_of_latest() -> list[dict[str, Any]]:
    """Return the results of the latest run."""
    latest = max(Path(".agentv/runs").iterdir())
    return [json.loads(line) for line in (latest / "results.jsonl").read_text().splitlines()]


def write_session(*prompts: str, name: str = "s", at: datetime | None = None, more: Sequence[object] = ()) -> Path:
    """Write a session of Claude Code in which each prompt is answered by Yes."""
    records: list[object] = []
    moment = (at or datetime.now(UTC)).isoformat()
    parent = None
    for number, prompt in enumerate(prompts):
        ids = f"{name}-u{number}", f"{name}-a{number}"
        told = {"sessionId": name, "timestamp": moment}
        records.append(claude_record("user", ids[0], parent, prompt, **told))
        content = [{"type": "text", "text": f"Yes, {prompt}"}]
        records.append(claude_record("assistant", ids[1], ids[0], content, **told, message={"id": ids[1]}))
        parent = ids[1]
    path = Path("sessions") / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in [*records, *more]))
    return path


def test_a_folder_of_all_programs_is_scored_with_places_and_sessions(score: Call) -> None:
    shutil.copytree(TRANSCRIPTS, "sessions", ignore=shutil.ignore_patterns("*.sql", "*.md"))
    opencode_database(Path("sessions"))
    code, out = score()

    assert code == 0, out
    rows = {(row["slot"]["target"], row["file"], row["line"]): row for row in rows_of_latest()}
    assert {(target, file) for target, file, _ in rows} == {
        *((program, f"sessions/{file}") for program, file in SESSIONS.items()),
        ("claude", "sessions/claude-subagent/session.jsonl"),
        ("opencode", "sessions/opencode.db"),
    }
    assert len(rows) == 10
    first = min((key for key in rows if key[0] == "codex"), key=lambda key: key[2])
    usage = rows[first]["usage_by"]["target"]
    assert (usage["input"], usage["output"]) == (400, 40)
    assert "Note" not in out


def test_each_prompt_is_scored_once_by_all_runs_of_a_name(score: Call) -> None:
    write_session("one", "two")
    assert score("--name", "nightly", "--new")[0] == 0
    code, out = score("--name", "nightly", "--new")
    assert code == 5
    assert "all 2 answers were judged by earlier runs named 'nightly'" in out

    write_session("one", "two", "three")
    code, out = score("--name", "nightly", "--new")
    assert code == 0
    assert [row["candidate_answer"] for row in rows_of_latest()] == ["Yes, three"]
    assert "earlier runs named 'nightly' judged them: 2 answers" in out
    assert score("--name", "other", "--new")[0] == 0
    assert len(rows_of_latest()) == 3


@pytest.mark.parametrize(
    ("name", "later", "line"),
    [
        ("app.jsonl", "app.jsonl.1", {"id": "x", "prompt": "q", "response": "Yes"}),
        ("app.jsonl", "app.jsonl-20261201", export(call(1, [user("q")], assistant("Yes")))),
        ("app.jsonl", "monday.jsonl", export(call(1, [user("q")], assistant("Yes")))),
        ("app.jsonl", "monday.jsonl", export({**call(1, [user("q")], assistant("Yes")), "status": {"code": 2}})),
    ],
    ids=["a log", "traces", "another name", "a failed span"],
)
def test_an_answer_in_a_log_that_was_rotated_or_renamed_is_not_new(
    score: Call, name: str, later: str, line: dict[str, Any]
) -> None:
    Path("sessions").mkdir()
    path = Path("sessions", name)
    path.write_text(f"{json.dumps(line)}\n")
    assert score("--name", "nightly", "--new")[0] in (0, 3)
    path.rename(path.with_name(later))
    assert score("--name", "nightly", "--new")[0] == 5


def write_agents(*ages_s: float, failed: Sequence[int] = ()) -> None:
    """Write the spans of agents that have worked for two hours and ended at these ages."""
    Path("sessions").mkdir()
    now = datetime.now(UTC).timestamp()
    lines = []
    for number, age_s in enumerate(ages_s, start=1):
        made = call(number, [user(f"Question {number}?")], assistant("Yes"))
        made["startTimeUnixNano"] = str(int((now - age_s - 7200) * 1e9))
        made["endTimeUnixNano"] = str(int((now - age_s) * 1e9))
        lines.append(export({**made, "status": {"code": 2}} if number in failed else made))
    Path("sessions/traces.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_since_counts_from_the_end_of_an_answer_in_traces(score: Call) -> None:
    write_agents(60, 90_000, 60, 90_000, failed=(3, 4))
    code, out = score("--since", "1h", "--name", "nightly")
    assert code == 3
    assert "older than --since: 2 answers" in out
    rows = {row["span_id"]: row["status"] for row in rows_of_latest()}
    _, told = score("--json", "--no-store", "--since", "1h")
    (error,) = json.loads(told)["errors"]
    assert (error["trace_id"], error["span_id"]) == (f"{3:032x}", f"{3:016x}")
    assert rows == {f"{1:016x}": "pass", f"{3:016x}": "error"}


def test_answers_that_failed_do_not_fill_a_sample(score: Call) -> None:
    write_agents(*[60] * 200, failed=range(1, 101))
    score("--sample", "50")
    errors = sum(row["status"] == "error" for row in rows_of_latest())
    assert len(rows_of_latest()) == 50
    assert 10 < errors < 40


def test_a_result_that_a_killed_run_did_not_write_is_new(score: Call) -> None:
    write_session("one", "two", "three")
    score("--name", "nightly", "--new")
    (path,) = Path(".agentv/runs").glob("*/results.jsonl")
    path.write_bytes(path.read_bytes()[:-40])

    assert score("--name", "nightly", "--new")[0] == 0
    assert len(rows_of_latest()) == 1


def test_only_prompts_since_a_time_are_scored(score: Call) -> None:
    now = datetime.now(UTC)
    write_session("new", name="new")
    write_session("old", name="old", at=now - timedelta(days=2))
    unopened = write_session("untouched", name="untouched")
    two_days_ago = (now - timedelta(days=2)).timestamp()
    os.utime(unopened, (two_days_ago, two_days_ago))
    code, out = score("--since", "1d")

    assert code == 0
    assert [row["candidate_answer"] for row in rows_of_latest()] == ["Yes, new"]
    assert "ended before --since: 1 prompt (sessions/old.jsonl:1)" in out
    assert "have not changed since --since: 1 file (sessions/untouched.jsonl)" in out


def test_a_database_is_opened_although_its_file_has_not_changed(score: Call) -> None:
    """SQLite writes to a log beside the file first."""
    Path("sessions").mkdir()
    os.utime(opencode_database(Path("sessions")), (0, 0))
    code, out = score("--since", "2000w")
    assert code == 0, out
    assert len(rows_of_latest()) == 2


def test_lines_of_logs_are_selected_by_their_time_too(agentv: Call) -> None:
    now = datetime.now(UTC)
    lines = [
        {"prompt": "a", "response": "Yes", "timestamp": now.isoformat()},
        {"prompt": "b", "response": "Yes", "timestamp": (now - timedelta(days=2)).isoformat()},
        {"prompt": "c", "response": "Yes"},
    ]
    Path("log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    code, out = agentv("score", "log.jsonl", "--config", "config.yaml", "--since", "1d")
    assert code == 0
    assert sorted(row["line"] for row in rows_of_latest()) == [1, 3]
    assert "older than --since: 1 answer" in out
    assert "because they have no time: 1 answer" in out


def test_a_failed_prompt_is_an_error_that_new_runs_do_not_repeat(score: Call) -> None:
    error = claude_record("assistant", "e", "u", [{"type": "text", "text": "API Error: 500"}], isApiErrorMessage=True)
    write_session("one", more=[claude_record("user", "u", "s-a0", "two"), error])
    code, out = score("--name", "nightly", "--new")
    assert code == 3
    assert "! sessions/s.jsonl:3  has no answer, because it failed: API Error: 500" in out
    assert [row["slot"]["target"] for row in rows_of_latest()] == ["claude", "claude"]
    assert score("--name", "nightly", "--new")[0] == 5


def test_what_is_not_judged_is_named_with_its_place(score: Call) -> None:
    more = [
        {"type": "news", "sessionId": "s"},
        claude_record("user", "left", "s-a0", "abandoned"),
        claude_record("user", "last", "s-a1", "unanswered"),
    ]
    write_session("one", "two", more=more)
    write_session("one", "two", name="copy")
    path = Path("sessions/copy.jsonl")
    path.write_text(path.read_text().replace("copy-", "s-"))
    (Path("sessions") / "notes.md").write_text("x")
    code, out = score()

    assert code == 0
    for said in (
        "not read in transcripts of Claude Code: record of unknown type 'news': 1 (sessions/s.jsonl:5)",
        "because the user took them back: 1 prompt (sessions/s.jsonl:6)",
        "the agent was interrupted or is still at work: 1 prompt (sessions/s.jsonl:7)",
        "although resumed or forked sessions repeat them: 2 prompts (sessions/s.jsonl:1, sessions/s.jsonl:3)",
        "because they are not transcripts: 1 file (sessions/notes.md)",
    ):
        assert said in out
    assert len(rows_of_latest()) == 2


def test_transcripts_of_subagents_are_named_unless_their_session_includes_them(score: Call) -> None:
    shutil.copytree(TRANSCRIPTS / "claude-subagent", "sessions")
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "main"}}}
    lines = (TRANSCRIPTS / "codex.jsonl").read_text().splitlines()
    meta = json.loads(lines[0])
    meta["payload"]["source"] = spawn
    Path("sessions/codex.jsonl").write_text("\n".join([json.dumps(meta), *lines[1:]]))
    code, out = score()
    assert code == 0
    assert len(rows_of_latest()) == 2
    assert "because a subagent wrote them: 1 transcript (sessions/codex.jsonl)" in out

    Path("sessions/session.jsonl").unlink()
    assert "because a subagent wrote them: 2 transcripts (sessions/codex.jsonl, sessions/session/" in score()[1]


def test_a_broken_compressed_transcript_is_an_error(score: Call) -> None:
    whole = gzip.compress((TRANSCRIPTS / "pi.jsonl").read_bytes() * 200)
    Path("sessions").mkdir()
    Path("sessions/cut.gz").write_bytes(whole[: len(whole) // 2])
    code, out = score()
    assert code == 3
    assert "! sessions/cut.gz:1  cannot be read: " in out


def test_a_resumed_run_scores_sessions_added_since(score: Call, agentv: Call) -> None:
    write_session("one", name="a")
    score()
    write_session("two", name="b")
    code, out = agentv("resume", "latest")
    assert code == 0, out
    assert [row["candidate_answer"] for row in rows_of_latest()] == ["Yes, one", "Yes, two"]


def test_a_resumed_run_refuses_an_answer_that_changed(score: Call, agentv: Call) -> None:
    path = write_session("one")
    score()
    path.write_text(path.read_text().replace("Yes, one", "No"))
    code, out = agentv("resume", "latest")
    assert code == 4
    assert "sessions/s.jsonl:1: has changed since run" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--new"], "--new compares with earlier runs of the same name; add --name NAME"),
        (["--new", "--name", "x", "--no-store"], "exclude each other"),
        (["--since", "soon"], "is not a time span"),
        (["--since", "99999999d"], "'99999999d' is too long; a time span is at most 36500d"),
        (["--since", "1d", "--sample", "5"], "--sample 5 draws from all lines, before --since"),
    ],
)
def test_wrong_usage_is_refused(score: Call, arguments: list[str], said: str) -> None:
    write_session("one")
    code, out = score(*arguments)
    assert code == 4
    assert said in " ".join(out.split())


def test_broken_transcripts_are_scored_without_a_traceback(score: Call) -> None:
    Path("sessions").mkdir()
    for number in range(60):
        program = sorted(SESSIONS)[number % len(SESSIONS)]
        lines = (TRANSCRIPTS / SESSIONS[program]).read_text().splitlines()
        text = mutated(lines, random.Random(number).getrandbits(32))
        (Path("sessions") / f"{number}.jsonl").write_text(text, encoding="utf-8", errors="surrogatepass")
    code, out = score("--max-errors", "1000")
    assert code == 0, out
    assert "Traceback" not in out
    assert rows_of_latest()
