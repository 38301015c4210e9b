"""`agentv score`: what a service logged is judged as it comes, and nothing of it is lost or passed by mistake."""

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import Call, call_agentv
from tests.support.spans import export
from tests.telemetry.test_joining import assistant, call, user

from agentv.storage.run.find import list_run_folders
from agentv.storage.run.stored import StoredRun

AGENTV = [sys.executable, "-m", "agentv"]
CONFIG = """
criteria: [{name: polite}, {name: short, weight: 3}]
evaluators:
  - {type: contains, value: please, criterion: polite}
  - {type: length, max: 4, unit: words, criterion: short}
"""
GOOD, RUDE, LONG = "Wait, please.", "Wait.", "Wait here a moment longer, please."


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "config.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def score(folder: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*arguments: str, config: str | None = None) -> tuple[int, str, str]:
        if config is not None:
            (folder / "config.yaml").write_text(config)
        return call_agentv(capsys, "score", "--config", "config.yaml", *arguments)

    return call


def write_lines(path: Path, *lines: str | dict[str, Any]) -> None:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))


def answers(*texts: str) -> list[dict[str, Any]]:
    return [{"response": text} for text in texts]


def kept(path: Path) -> list[dict[str, Any]]:
    """Return judgements by their place: with several workers they stand in the order in which they were finished."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(rows, key=lambda row: (row["source"]["file"], row["source"]["line"]))


def last_line(text: str) -> str:
    return text.splitlines()[-1]


def test_rates_and_means_stand_with_their_intervals(folder: Path, score: Call) -> None:
    write_lines(folder / "log.jsonl", *answers(*[GOOD] * 4, *[RUDE] * 4))
    output = json.loads(score("log.jsonl", "--json", "--gate", "mean >= 0.5 with 95%")[1])
    for rate in (output, *output["criteria"]):
        for value, name in ((rate["pass_rate"], "pass_rate"), (rate.get("mean", output["mean_score"]), "mean")):
            interval = rate[f"{name}_interval"]
            assert interval["low"] < value < interval["high"] or value == 1.0 == interval["high"]
    assert f"{output['mean_interval']['low']:.4g}" in output["verdict"]
    shown = score("log.jsonl")[1]
    assert "50 % of 8  21.5 to 78.5 %" in shown
    assert max(len(line) for line in shown.splitlines() if not line.startswith("Saved to")) <= 80


def test_every_line_is_judged_kept_with_its_place_and_counted(folder: Path, score: Call) -> None:
    write_lines(folder / "log.jsonl", *answers(GOOD, LONG), "", {"response": RUDE, "sessionId": "s-1"})
    code, out, _ = score("log.jsonl", "-o", "out.jsonl")
    rows = kept(folder / "out.jsonl")
    assert [(row["source"]["line"], row["overallScore"], row["verdict"]) for row in rows] == [
        (1, 1.0, "pass"),
        (2, 0.25, "fail"),
        (4, 0.75, "borderline"),
    ]
    assert rows[2]["source"] == {"file": "log.jsonl", "line": 4}
    assert rows[2]["inputSnapshot"]["response"] == RUDE
    assert code == 1
    assert last_line(out) == "FAIL: 1 of 3 judged lines passed (33.33 %). Exit code 1."
    assert "3 of 3" in out
    assert out.index("✗ log.jsonl:2  0.25") < out.index("~ log.jsonl:4  0.75  session s-1  polite: expected")


@pytest.mark.parametrize(
    ("gates", "code"),
    [
        (["mean >= 0.6"], 0),
        (["mean >= 0.9"], 1),
        (["pass_rate >= 30%", "criterion(short).mean >= 0.6", "criterion(polite).pass_rate >= 60%"], 0),
        (["criterion(polite).mean > 0.7"], 1),
        (["p95(duration_s) <= 30"], 0),
        (["none"], 0),
    ],
)
def test_the_gate_decides(folder: Path, score: Call, gates: list[str], code: int) -> None:
    write_lines(folder / "log.jsonl", *answers(GOOD, LONG, RUDE))
    assert score("log.jsonl", *(part for gate in gates for part in ("--gate", gate)))[0] == code


def test_a_gate_on_the_cost_counts_the_lines_that_were_logged_without_one(folder: Path, score: Call) -> None:
    priced = [{**each, "costUsd": 0.25} for each in answers(GOOD, GOOD)]
    write_lines(folder / "log.jsonl", *priced)
    code, out, _ = score("log.jsonl", "--gate", "cost_usd <= 0.5")
    assert (code, last_line(out)) == (0, "PASS: cost_usd is 0.5, as required (<= 0.5). Exit code 0.")
    write_lines(folder / "log.jsonl", *priced, *answers(GOOD, GOOD))
    code, out, _ = score("log.jsonl", "--gate", "cost_usd <= 0.5")
    wanted = "cost_usd could not be measured (2 results have no known cost), so 'cost_usd <= 0.5' is undecided"
    assert (code, last_line(out)) == (3, f"INCOMPLETE: {wanted}. Exit code 3.")


def test_gates_of_the_configuration_apply_unless_overridden(folder: Path, score: Call) -> None:
    write_lines(folder / "log.jsonl", *answers(GOOD, LONG))
    config = CONFIG + 'gates: ["mean >= 0.6"]\n'
    assert score("log.jsonl", config=config)[0] == 0
    assert score("log.jsonl", "--gate", "mean >= 0.7")[0] == 1


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        '{"response": "please"',
        '{"response": 3}',
        '{"prompt": "no answer"}',
        '{"response": "please", "promt": "x"}',
        '{"response": "please", "response": "twice"}',
        '{"response": "please", "criteria": [{"name": "never scored"}]}',
        "[1]",
    ],
)
def test_a_bad_line_is_an_error_with_its_place_and_never_passes(folder: Path, score: Call, line: str) -> None:
    write_lines(folder / "log.jsonl", *answers(GOOD), line, *answers(GOOD))
    code, out, _ = score("log.jsonl", "-o", "out.jsonl")
    first, bad, third = kept(folder / "out.jsonl")
    assert (first["verdict"], third["verdict"]) == ("pass", "pass")
    assert (bad["error"]["kind"], bad["source"]) == ("config_error", {"file": "log.jsonl", "line": 2})
    assert bad["error"]["message"]
    assert "! log.jsonl:2  " in out
    assert (code, last_line(out)[:37]) == (3, "INCOMPLETE: 1 line with an error; the")
    assert score("log.jsonl", "--max-errors", "1")[0] == 0
    write_lines(folder / "log.jsonl", line)
    assert score("log.jsonl", "--max-errors", "1")[0] == 3


def test_a_broken_judge_is_never_a_wrong_answer(folder: Path, score: Call) -> None:
    config = CONFIG.replace("unit: words", "unit: words, source: context.answer")
    write_lines(folder / "log.jsonl", {"response": RUDE, "context": {"answer": RUDE}}, {"response": RUDE})
    code, out, _ = score("log.jsonl", "-o", "out.jsonl", "--gate", "mean >= 0.7", config=config)
    good, broken = kept(folder / "out.jsonl")
    assert (good["overallScore"], broken["overallScore"], "verdict" in broken) == (0.75, 0.0, False)
    assert (code, last_line(out)) == (
        3,
        "INCOMPLETE: 1 line with an error; the gate holds on the 1 judged line. Exit code 3.",
    )
    assert "! log.jsonl:2  short: " in out


def test_judgements_are_appended_and_a_torn_line_is_removed(folder: Path, score: Call) -> None:
    write_lines(folder / "log.jsonl", *answers(GOOD))
    (folder / "out.jsonl").write_text('{"torn":')
    score("log.jsonl", "-o", "out.jsonl")
    score("log.jsonl", "-o", "out.jsonl")
    rows = (folder / "out.jsonl").read_text().splitlines()
    assert [json.loads(row)["overallScore"] for row in rows] == [1.0, 1.0]


def test_several_files_and_gzip_are_read_in_turn(folder: Path, score: Call) -> None:
    write_lines(folder / "a.jsonl", *answers(GOOD))
    packed = [gzip.compress(json.dumps(answer).encode() + b"\n") for answer in answers(RUDE, LONG)]
    (folder / "b.jsonl.gz").write_bytes(b"".join(packed))
    score("a.jsonl", "b.jsonl.gz", "-o", "out.jsonl")
    assert [
        (row["source"]["file"], row["source"]["line"], row["overallScore"]) for row in kept(folder / "out.jsonl")
    ] == [
        ("a.jsonl", 1, 1.0),
        ("b.jsonl.gz", 1, 0.75),
        ("b.jsonl.gz", 2, 0.25),
    ]


def test_a_file_that_breaks_off_is_an_error_and_the_next_one_is_read(folder: Path, score: Call) -> None:
    (folder / "a.gz").write_bytes(gzip.compress(json.dumps({"response": GOOD}).encode() + b"\n")[:-6])
    write_lines(folder / "b.jsonl", *answers(GOOD))
    code, out, _ = score("a.gz", "b.jsonl")
    assert "cannot be read: the gzip data is truncated" in out
    assert (code, "2 judged" in last_line(out)) == (3, True)


def test_a_session_is_kept_or_left_whole_and_the_seed_says_which(folder: Path, score: Call) -> None:
    rows = [{"response": GOOD, "sessionId": f"s-{number % 50}", "metadata": {"n": number}} for number in range(200)]
    write_lines(folder / "log.jsonl", *rows)

    def sessions(seed: int) -> list[str]:
        (folder / "out.jsonl").unlink(missing_ok=True)
        score("log.jsonl", "-o", "out.jsonl", "--sample", "20%", "--sample-by", "session_id", "--seed", str(seed))
        return [row["sessionId"] for row in kept(folder / "out.jsonl")]

    drawn = sessions(1)
    assert {drawn.count(session) for session in drawn} == {4}
    assert 3 <= len(set(drawn)) <= 20
    assert sessions(1) == drawn
    assert sessions(2) != drawn


def test_a_sampling_key_that_no_line_has_is_reported(folder: Path, score: Call) -> None:
    rows = [{"response": GOOD, "sessionId": f"s-{number % 5}"} for number in range(50)]
    write_lines(folder / "log.jsonl", *rows)
    note = "no line has the sampling key 'sesion_id': each line was sampled independently"
    assert note in score("log.jsonl", "--sample", "50%", "--sample-by", "sesion_id")[1]
    assert note not in score("log.jsonl", "--sample", "50%", "--sample-by", "session_id")[1]


def test_a_gate_may_ask_for_criteria_that_lines_bring(folder: Path, score: Call) -> None:
    write_lines(folder / "log.jsonl", {"response": GOOD, "criteria": [{"name": "kind"}]})
    config = "evaluators: [{type: contains, value: please}]\n"
    code, out, _ = score("log.jsonl", "--gate", "criterion(kind).mean >= 1", config=config)
    assert (code, last_line(out)) == (0, "PASS: criterion(kind).mean is 1, as required (>= 1). Exit code 0.")


def test_a_number_of_lines_is_drawn_from_all_of_them(folder: Path, score: Call) -> None:
    rows = [{"response": GOOD, "metadata": {"n": number}} for number in range(200)]
    write_lines(folder / "log.jsonl", *rows)
    _, out, _ = score("log.jsonl", "-o", "out.jsonl", "--sample", "10")
    numbers = [row["source"]["line"] for row in kept(folder / "out.jsonl")]
    assert (len(numbers), numbers) == (10, sorted(numbers))
    assert max(numbers) > 100
    assert "10 of 200" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sample", "many"], "write a share"),
        (["--sample", "2.0"], "a share must be above 0"),
        (["--sample", "10", "--sample-by", "session_id"], "--sample-by needs a share"),
        (["--gate", "evaluator(x).mean >= 1"], "'evaluator' cannot be measured here; known: mean"),
        (
            ["--gate", "criterion(polit).mean >= 1"],
            "unknown criterion 'polit'; known: polite, short. Did you mean 'polite'?",
        ),
        (["--gate", "none", "--gate", "mean > 0"], "--gate none disables all gates"),
        (["--judge", "unknown"], "unknown"),
        (["-o", "log.jsonl"], "is also an input file"),
        (["-o", "config.yaml/x.jsonl"], "cannot write"),
        (["missing.jsonl"], "no such file"),
        (["empty"], "is a folder without transcripts of coding agents and without logs"),
        (["-", "-"], "only once"),
        (["--config", "missing.yaml"], "does not exist"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_judged(
    folder: Path, score: Call, arguments: list[str], said: str
) -> None:
    write_lines(folder / "log.jsonl", *answers(GOOD))
    (folder / "empty").mkdir()
    before = (folder / "log.jsonl").read_text()
    code, out, err = score("log.jsonl", *arguments)
    assert (code, out) == (4, "")
    assert said in err
    assert (folder / "log.jsonl").read_text() == before


def test_all_problems_of_the_configuration_are_reported_at_once(folder: Path, score: Call) -> None:
    write_lines(folder / "log.jsonl", *answers(GOOD))
    code, _, err = score(
        "log.jsonl", config="gates: [tag(x).mean > 1]\nevaluators: [{type: contians}, {type: regex, pattern: '('}]\n"
    )
    assert code == 4
    for part in ("'tag' cannot be measured here", "did you mean 'contains'?", "is not a valid regular expression"):
        assert part in err


def test_a_missing_judge_is_reported_with_the_file_that_needs_it(
    folder: Path, score: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    write_lines(folder / "log.jsonl", *answers(GOOD))
    code, _, err = score("log.jsonl", config="evaluators: [{type: llm_judge}]\n")
    assert code == 4
    assert err.startswith(
        "error: config.yaml  $.evaluators[0]  evaluator 'llm_judge' needs a judge; give one with `judge:"
    )
    assert "EvaluationRunConfig" not in err


def test_an_answer_of_null_is_not_reported_as_missing(folder: Path, score: Call) -> None:
    write_lines(folder / "log.jsonl", '{"id": "1", "response": null}')
    _, out, _ = score("log.jsonl")
    assert (
        "! log.jsonl:1  $.response is null or an empty cell; if the agent answered nothing, write an empty text in JSON"
        in out
    )


@pytest.mark.parametrize(
    ("lines", "arguments", "said"),
    [
        ([], [], "NOTHING SELECTED: there are no lines. Exit code 5."),
        ([""], [], "NOTHING SELECTED: there are no lines. Exit code 5."),
        (answers(GOOD), ["--sample", "0.000001"], "NOTHING SELECTED: no line is in the sample (1 read). Exit code 5."),
        (answers(GOOD), ["--only", "free"], "NOTHING SELECTED: no evaluator selected. Exit code 5."),
    ],
)
def test_nothing_to_judge_is_no_success(
    folder: Path, score: Call, lines: list[Any], arguments: list[str], said: str
) -> None:
    write_lines(folder / "log.jsonl", *lines)
    config = "judge: j\nevaluators: [{type: llm_judge}]\n" if "--only" in arguments else None
    (folder / "targets.yaml").write_text("targets: [{name: j, provider: mock, response: x}]")
    code, out, _ = score("log.jsonl", *arguments, config=config)
    assert (code, last_line(out)) == (5, said)


def test_a_judge_is_named_on_the_command_line_and_its_cost_is_shown(folder: Path, score: Call) -> None:
    (folder / "targets.yaml").write_text(
        'targets: [{name: kind, provider: mock, response: \'{"score": 1.0, "hits": [], "misses": []}\'}]'
    )
    write_lines(folder / "log.jsonl", *answers(GOOD))
    code, out, _ = score("log.jsonl", "--judge", "kind", config="evaluators: [{type: llm_judge}]\n")
    assert code == 0, out


def test_the_report_is_one_json_object(folder: Path, score: Call) -> None:
    write_lines(folder / "log.jsonl", *answers(GOOD, LONG), "no json")
    code, out, _ = score("log.jsonl", "--json", "--gate", "mean >= 0.9")
    report = json.loads(out)
    assert (report["schema"], report["exit_code"], code) == ("agentv-score-1", 1, 1)
    assert (report["lines_read"], report["counts"]) == (3, {"pass": 1, "fail": 1, "error": 1})
    assert report["mean_score"] == 0.625
    assert [(each["name"], each["mean"]) for each in report["criteria"]] == [("polite", 1.0), ("short", 0.5)]
    assert (report["worst"][0]["line"], report["errors"][0]["line"]) == (2, 3)
    assert report["gates"][0]["sentence"] == "mean is 0.625, not >= 0.9"


def test_text_of_answers_reaches_the_terminal_without_control_characters(folder: Path, score: Call) -> None:
    write_lines(folder / "log.jsonl", {"response": "\x1b[2J\x07rude", "sessionId": "\x1b]0;x\x07"})
    for arguments in ([], ["--json"], ["-o", "-"]):
        _, out, err = score("log.jsonl", *arguments)
        assert "rude" in out
        assert not {"\x1b", "\x07"} & set(out + err)


def test_a_storage_that_fails_leaves_the_run_incomplete(folder: Path, score: Call) -> None:
    write_lines(folder / "log.jsonl", *answers(GOOD))
    config = CONFIG + "storage: {type: json_file, path: config.yaml/kept.jsonl}\n"
    code, out, _ = score("log.jsonl", config=config)
    assert code == 3
    assert last_line(out).startswith("INCOMPLETE: storage lost 1 of 1 judgement")


@contextmanager
def scoring(folder: Path, *options: str, file: str = "-") -> Iterator[subprocess.Popen[str]]:
    arguments = [*AGENTV, "score", file, "--config", "config.yaml", *options]
    with subprocess.Popen(
        arguments, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def say(running: subprocess.Popen[str], *lines: dict[str, Any]) -> None:
    assert running.stdin is not None
    running.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
    running.stdin.flush()


def next_judgement(running: subprocess.Popen[str]) -> dict[str, Any]:
    assert running.stdout is not None
    judgement: dict[str, Any] = json.loads(running.stdout.readline())
    return judgement


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_endless_stream_is_scored_as_it_arrives_until_a_signal(
    folder: Path, number: signal.Signals, code: int
) -> None:
    with scoring(folder, "-o", "-", "--gate", "mean >= 0.9") as running:
        for text, expected in ((GOOD, 1.0), (LONG, 0.25)):
            say(running, {"response": text})
            assert next_judgement(running)["overallScore"] == expected
        running.send_signal(number)
        assert running.stderr is not None
        report = running.stderr.read()
    assert running.returncode == code
    assert "Gate: mean is 0.625, not >= 0.9" in report
    assert last_line(report) == f"INTERRUPTED: 2 lines are stored. Exit code {code}."


HANGING = """
import sys
with open("began", "w") as began:
    began.write("x")
with open("go") as go:
    go.read()
print('{"score": 1.0}')
"""


@contextmanager
def judging(folder: Path, file: str = "-") -> Iterator[subprocess.Popen[str]]:
    """Start a stream, or a file, whose only line is in progress until `go` is written."""
    for name in ("began", "go"):
        os.mkfifo(folder / name)
    (folder / "hanging.py").write_text(HANGING)
    (folder / "config.yaml").write_text(
        f"evaluators: [{{type: code_judge, script: ['{sys.executable}', hanging.py]}}]\n"
    )
    with scoring(folder, "-o", "out.jsonl", file=file) as running:
        say(running, {"response": GOOD})
        (folder / "began").read_text()
        running.send_signal(signal.SIGTERM)
        assert running.stdout is not None
        assert running.stdout.readline() == "stopping: SIGTERM; finishing the lines in progress\n"
        yield running


def test_an_interrupted_run_of_files_says_how_to_go_on(folder: Path) -> None:
    write_lines(folder / "log.jsonl", *answers(GOOD))
    with judging(folder, "log.jsonl") as running:
        (folder / "go").write_text("x")
        report, _ = running.communicate()
    run_id = next(iter((folder / ".agentv" / "runs").iterdir())).name
    assert f"\nResume: agentv resume {run_id}\n" in report


def test_a_line_that_was_begun_is_finished_and_kept(folder: Path) -> None:
    with judging(folder) as running:
        (folder / "go").write_text("x")
        out, _ = running.communicate()
    assert running.returncode == 143
    assert [row["overallScore"] for row in kept(folder / "out.jsonl")] == [1.0]
    assert last_line(out) == "INTERRUPTED: 1 line is stored. Exit code 143."


def test_a_second_signal_leaves_at_once(folder: Path) -> None:
    with judging(folder) as running:
        running.send_signal(signal.SIGTERM)
        running.communicate()
    assert running.returncode == 143
    assert kept(folder / "out.jsonl") == []


def test_a_stream_to_a_closed_pipe_ends_quietly(folder: Path) -> None:
    with scoring(folder, "-o", "-", "--gate", "none") as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        say(running, {"response": GOOD})
        next_judgement(running)
        running.stdout.close()
        say(running, {"response": GOOD})
        report = running.stderr.read()
        running.wait()
    assert running.returncode == 2
    assert "Traceback" not in report
    assert "error" not in report.replace("errors", "")
    assert last_line(report).startswith("STOPPED: standard output was closed; 2 lines are complete.")


def test_a_closed_screen_costs_no_score(folder: Path) -> None:
    with scoring(folder, "-o", "out.jsonl") as running:
        assert running.stdout is not None
        running.stdout.close()
        say(running, *answers(GOOD, GOOD))
        assert running.stdin is not None
        running.stdin.close()
        running.wait()
    assert running.returncode == 0
    assert len(kept(folder / "out.jsonl")) == 2


def test_without_a_gate_a_failure_says_how_to_only_measure(folder: Path, score: Call) -> None:
    write_lines(folder / "log.jsonl", *answers(GOOD, RUDE))
    code, out, _ = score("log.jsonl")
    assert (code, "off with --gate none or `gates: none`" in out) == (1, True)
    assert "gates: none" not in score("log.jsonl", "--gate", "mean >= 1")[1]
    assert "gates: none" not in score("log.jsonl", config=CONFIG + 'gates: ["mean >= 1"]')[1]


def test_a_configuration_without_gates_only_measures(folder: Path, score: Call) -> None:
    write_lines(folder / "log.jsonl", *answers(GOOD, RUDE))
    code, out, _ = score("log.jsonl", config=CONFIG + "gates: none")
    assert (code, last_line(out)) == (0, "NO GATE: 1 of 2 judged lines passed (50 %). Exit code 0.")
    assert score("log.jsonl", "--gate", "mean >= 1")[0] == 1


def test_gates_that_are_no_list_are_refused(folder: Path, score: Call) -> None:
    write_lines(folder / "log.jsonl", *answers(GOOD))
    code, _, problems = score("log.jsonl", config=CONFIG + "gates: off")
    assert (code, "gates" in problems, "none or a list" in problems) == (4, True, True)


def run_of(folder: Path) -> StoredRun:
    return StoredRun(list_run_folders(folder / ".agentv")[-1])


def killed_after(folder: Path, judgements: int, *lines: str | dict[str, Any]) -> None:
    """Score a stream from a pipe, and kill the process when it has printed that number of judgements."""
    with scoring(folder, "-o", "-", "--name", "live", "--workers", "1", "--gate", "none") as running:
        assert running.stdin is not None
        for line in lines[:judgements]:
            running.stdin.write(line if isinstance(line, str) else json.dumps(line) + "\n")
            running.stdin.flush()
            next_judgement(running)
        running.send_signal(signal.SIGKILL)
        running.wait()


def piped(folder: Path, *lines: str | dict[str, Any]) -> "subprocess.CompletedProcess[str]":
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    return subprocess.run(
        [*AGENTV, "resume", "live"], cwd=folder, input=text, capture_output=True, text=True, check=False
    )


STREAM: tuple[str | dict[str, Any], ...] = (
    {"id": "a", "prompt": "Where?", "response": GOOD},
    {"response": RUDE},
    "no JSON\n",
    {"id": "a", "prompt": "Where?", "response": LONG},
    {"prompt": "When?", "response": GOOD},
    {"id": "a", "prompt": "Where?", "response": RUDE},
    {"response": GOOD},
)
"""A stream in which ids repeat, and lines have none."""


@pytest.mark.parametrize("judgements", [1, 4, 6])
def test_a_stream_that_was_killed_is_resumed_from_the_same_stream(folder: Path, judgements: int) -> None:
    (folder / "own.py").write_text(
        "from pathlib import Path\n"
        "def judge(context):\n"
        "    with Path('calls.txt').open('a') as calls:\n"
        "        calls.write(context['candidate_answer'] + '\\n')\n"
        "    return 1.0\n"
    )
    (folder / "config.yaml").write_text("evaluators: [{type: code_judge, name: own, python: 'own.py:judge'}]")
    killed_after(folder, judgements, *STREAM)
    assert len(list(run_of(folder).results())) in (judgements - 1, judgements)
    done = piped(folder, *STREAM)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "7 of 7" in done.stdout
    rows = sorted(run_of(folder).results(), key=lambda row: row.line or 0)
    assert [(row.line, row.slot.trial, row.status) for row in rows] == [
        (1, 0, "pass"),
        (2, 0, "pass"),
        (3, 0, "error"),
        (4, 1, "pass"),
        (5, 0, "pass"),
        (6, 2, "pass"),
        (7, 0, "pass"),
    ]
    calls = (folder / "calls.txt").read_text().splitlines()
    assert len(calls) in (6, 7)  # the kill may have come between a judgement and its row
    assert len(list(run_of(folder).answers())) == 6


def test_a_stream_that_went_on_is_resumed_by_its_new_ids(folder: Path) -> None:
    killed_after(folder, 3, *({"id": each, "response": GOOD} for each in "abc"))
    assert "standard input was empty" in piped(folder).stdout
    done = piped(folder, {"id": "b", "response": RUDE}, {"id": "c", "response": GOOD})
    assert "1 skipped line has the id of a stored line, but another answer" in done.stdout
    assert [row.eval_id for row in run_of(folder).results()] == ["a", "b", "c"]


def test_resuming_a_stream_from_a_terminal_says_what_to_pipe(folder: Path) -> None:
    killed_after(folder, 1, {"id": "a", "response": GOOD})
    terminal, other = os.openpty()
    with os.fdopen(terminal), os.fdopen(other) as screen:
        done = subprocess.run(
            [*AGENTV, "resume", "live"], cwd=folder, stdin=screen, capture_output=True, text=True, check=False
        )
    assert done.returncode == 4
    assert "pipe the same stream into it again, as in: cat log.jsonl | agentv resume" in done.stderr


def test_an_interrupted_stream_says_how_to_resume_it(folder: Path) -> None:
    with scoring(folder, "-o", "-") as running:
        say(running, {"response": GOOD})
        next_judgement(running)
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        report = running.stderr.read()
    assert "Resume: pipe the same stream into agentv resume 2" in report


NO_APOLOGY = (
    "criteria: [{name: calm}]\nevaluators: [{type: regex, pattern: sorry, expect: no_match, criterion: calm}]\n"
)


def test_empty_answers_are_counted_in_a_note(folder: Path, score: Call) -> None:
    write_lines(folder / "log.jsonl", *answers("", "Fine.", " "))
    code, out, _ = score("log.jsonl", config=NO_APOLOGY)
    assert (code, "Note: 2 answers are empty\n" in out) == (0, True)


def test_an_empty_answer_of_traces_is_noted_once(folder: Path, score: Call) -> None:
    (folder / "traces.json").write_text(json.dumps(export(call(1, [user("Where?")], assistant("")))))
    _, out, _ = score("traces.json", "--json", config=NO_APOLOGY)
    (note,) = json.loads(out)["notes"]
    assert note.startswith("1 answer is empty in the traces of")
