"""Commands on logs that are given files which are no logs."""

import gzip
from pathlib import Path

import pytest
from tests.support.command_line import Call, command_line

COMMANDS = [("traces", "show"), ("score", "--config", "config.yaml", "-o", "out.jsonl")]


@pytest.fixture
def agentv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    (tmp_path / ".git").mkdir()
    (tmp_path / "config.yaml").write_text("evaluators: [{type: contains, name: way, value: way}]\ngates: none\n")
    monkeypatch.chdir(tmp_path)

    return command_line(capsys)


@pytest.fixture
def run(agentv: Call) -> Path:
    Path("log.jsonl").write_text('{"prompt": "Where?", "response": "On its way."}\n')
    assert agentv("score", "log.jsonl", "--config", "config.yaml")[0] == 0
    [folder] = Path(".agentv/runs").iterdir()
    return folder


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("place", "what"),
    [
        (".agentv", "contains runs of agentv, so name the logs"),
        (".agentv/runs", "contains runs of agentv, so name the logs"),
        (".agentv/runs/{}", "is a run of agentv, not a folder of logs"),
        (".agentv/runs/{}/run.json", "is a file of a run of agentv, not a log"),
        (".agentv/runs/{}/results.jsonl", "is a file of a run of agentv, not a log"),
    ],
)
def test_runs_of_agentv_are_one_error_that_names_what_reads_them(
    agentv: Call, run: Path, command: tuple[str, ...], place: str, what: str
) -> None:
    place = place.format(run.name)
    advice = f"to show the run: agentv show {run}; to judge its answers again: agentv rescore {run}"
    assert agentv(*command, place) == (4, "", f"error: {place}: {what}; {advice}\n")
    assert agentv("show", str(run))[0] == agentv("rescore", str(run))[0] == 0


def test_a_copied_file_of_results_is_not_a_log(agentv: Call, run: Path) -> None:
    Path("old.jsonl").write_bytes((run / "results.jsonl").read_bytes())
    code, _, err = agentv("traces", "show", "old.jsonl")
    assert (code, err) == (
        4,
        "error: old.jsonl: has records of a run of agentv (result), not of a log; agentv show RUN shows a run\n",
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_are_no_logs_are_reported_together(agentv: Call, command: tuple[str, ...]) -> None:
    Path("agent.py").write_text("import os\n\nprint(os.name)\n")
    Path("evals.yml").write_text("{cases: []}\n")
    Path("notes.txt").write_text("To do:\n* logs\n")
    Path("photo.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x01")
    code, out, err = agentv(*command, "agent.py", "evals.yml", "notes.txt", "photo.png")
    assert (code, out) == (4, "")
    assert [line.partition(";")[0] for line in err.splitlines()] == [
        "error: agent.py: is Python code, not a log",
        "evals.yml: is a YAML file, not a log",
        "notes.txt: is not a log: no line at its start is a JSON object",
        "photo.png: is not a log: no line at its start is a JSON object",
    ]


@pytest.mark.parametrize("name", ["app.log", "app.log.gz", "app"])
def test_a_log_that_begins_with_other_lines_is_read(agentv: Call, name: str) -> None:
    data = b'Service started\n\n{"prompt": "Where?", "response": "On its way."}\n'
    Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    code, out, _ = agentv("traces", "show", name)
    assert (code, out.splitlines()[-3]) == (3, f"! {name}:1  this line is not valid JSON: a value is missing here")
    assert out.endswith("\n1 answer\n")


def test_an_empty_file_is_a_log_without_answers(agentv: Call) -> None:
    Path("app.log").write_text("\n")
    assert agentv("traces", "show", "app.log") == (5, "0 answers\n", "")


def test_equal_errors_of_a_file_are_shown_once(agentv: Call) -> None:
    Path("a.jsonl").write_text('{"text": 1}\n' * 4 + "x\n")
    code, out, _ = agentv("traces", "show", "a.jsonl")
    first, second, *_ = out.splitlines()
    assert code == 3
    assert first.startswith("! a.jsonl:1  the answer, `response`, is missing")
    assert first.endswith(" (the same in 3 more lines)")
    assert second == "! a.jsonl:5  this line is not valid JSON: a value is missing here"


def test_parts_of_traces_without_their_root_are_counted(agentv: Call) -> None:
    Path("a.jsonl").write_text(
        '{"id": "1", "trace_id": "t", "parent_run_id": "0", "run_type": "tool", "inputs": {}, "outputs": {}, '
        '"session_id": "s", "start_time": "2026-01-01T00:00:00Z", "name": "find"}\n'
    )
    code, out, _ = agentv("traces", "show", "a.jsonl")
    assert (code, out) == (5, "0 answers\nnote: no answer, because they are parts of a trace: 1 LangSmith tool run\n")
