"""`agentv convert LOG.eval -o FOLDER`: a stored run that other commands read."""

import json
import shutil
from pathlib import Path

import click
import pytest

from agentv.cli.main import agentv
from agentv.types.errors import ConfigError, EvalFileError

LOGS = Path(__file__).parents[1] / "fixtures" / "inspect"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".agentv").mkdir()


def call(*arguments: str) -> int:
    code: int = agentv.main(list(arguments), standalone_mode=False) or 0
    return code


def convert(name: str, capsys: pytest.CaptureFixture[str], folder: str = ".agentv/runs") -> str:
    call("convert", str(LOGS / name), "-o", folder, "--json")
    told = json.loads(capsys.readouterr().out)
    return Path(told["written"][0]).name


def test_two_converted_logs_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = convert("capitals.eval", capsys), convert("better.eval", capsys)
    call("compare", before, after)
    out = capsys.readouterr().out
    assert "paired  3 cases scored in both" in out
    assert "2 wins, 0 losses, 1 tie" in out
    assert "content changed" not in out


def test_a_converted_log_is_shown_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    run = convert("capitals.eval", capsys)
    call("show", run, "fr")
    assert "tool" in capsys.readouterr().out
    call("runs", "list")
    assert "66.7 % of 6" in capsys.readouterr().out
    call("report", run)
    assert "FAIL: 4 of 6 judged results passed" in capsys.readouterr().out


def test_a_killed_log_is_an_interrupted_run(capsys: pytest.CaptureFixture[str]) -> None:
    call("convert", str(LOGS / "killed.eval"), "-o", "here")
    out = capsys.readouterr().out
    assert "Converted from inspect: 2 results of 3 planned, interrupted" in out


def test_a_log_is_converted_once(capsys: pytest.CaptureFixture[str]) -> None:
    convert("capitals.eval", capsys)
    with pytest.raises(click.UsageError, match=r"exists already, converted from \S*/capitals\.eval; remove it, or"):
        convert("capitals.eval", capsys)


def log_without_ids(name: str, **results: object) -> None:
    log = json.loads((LOGS / "capitals.json").read_text())
    log["eval"].update(eval_id=None, run_id=None)
    log["results"].update(results)
    Path(name).write_text(json.dumps(log))


def test_a_log_with_the_ids_of_another_names_the_log_of_the_run() -> None:
    log_without_ids("before.json")
    log_without_ids("after.json")
    call("convert", "before.json", "-o", ".agentv/runs")
    with pytest.raises(click.UsageError, match=r"exists already, converted from before\.json; remove it, or"):
        call("convert", "after.json", "-o", ".agentv/runs")


def test_a_log_that_was_scored_again_is_another_run() -> None:
    log_without_ids("before.json")
    log_without_ids("after.json", completed_samples=2)
    for name in ("before.json", "after.json"):
        call("convert", name, "-o", ".agentv/runs")
    assert len(list(Path(".agentv/runs").iterdir())) == 2


def test_a_log_with_a_damaged_sample_leaves_nothing() -> None:
    data = bytearray((LOGS / "capitals.eval").read_bytes())
    at = data.index(b"samples/3_epoch_2.json") + 100
    data[at : at + 30] = b"\x00" * 30
    Path("damaged.eval").write_bytes(bytes(data))
    with pytest.raises(EvalFileError, match=r"samples/3_epoch_2\.json is damaged"):
        call("convert", "damaged.eval", "-o", ".agentv/runs")
    assert list(Path(".agentv/runs").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "status", "verdict"),
    [
        ("capitals.eval", "success", "FAIL: 4 of 6 judged results passed (66.67 %). Exit code 1."),
        (
            "failing.eval",
            "error",
            "INCOMPLETE: inspect 0.3.285 recorded the failure ValueError('the tool broke'). 3 of 3",
        ),
        (
            "failing.json",
            "error",
            "INCOMPLETE: inspect 0.3.285 recorded the failure ValueError('the tool broke'). 3 of 3",
        ),
        ("cancelled.json", "cancelled", "INTERRUPTED: 3 of 3 planned results are stored. Exit code 130."),
        ("killed.json", "started", "INTERRUPTED: 2 of 3 planned results are stored. Exit code 130."),
    ],
)
def test_a_report_says_what_a_converted_run_is(
    name: str, status: str, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = convert(name, capsys)
    call("report", run)
    out = capsys.readouterr().out
    assert f"note    converted from a log of inspect 0.3.285 (status {status})" in out
    assert verdict in out
    assert "older agentv" not in out
    assert "agentv resume" not in out
    assert "agentv retry" not in out


@pytest.mark.parametrize("command", ["resume", "rescore", "retry"])
def test_a_converted_run_is_not_continued(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = convert("failing.eval", capsys)
    with pytest.raises(ConfigError, match=r"was converted from a log of inspect .* its cases and evaluators are not"):
        call(command, run)


@pytest.mark.parametrize("suffix", ["html", "md", "junit.xml", "sarif", "csv", "jsonl", "yaml", "json"])
@pytest.mark.parametrize("name", ["capitals.json", "failing.eval", "cancelled.eval", "killed.json"])
def test_a_converted_run_has_every_report(name: str, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = convert(name, capsys)
    assert call("report", run, "-o", f"report.{suffix}") == 0
    text = Path(f"report.{suffix}").read_text()
    assert "scored" in text or "broke" in text or "Cancelled" in text or run in text
    assert "older agentv" not in text


def test_failed_samples_become_a_suite(capsys: pytest.CaptureFixture[str]) -> None:
    run = convert("failing.eval", capsys)
    call("runs", "export", run, "--failed", "-o", "failed.yaml")
    assert "2 cases" in capsys.readouterr().out
    assert call("check", "failed.yaml") == 0
    assert "eval_id: jp" in Path("failed.yaml").read_text()


def test_a_trend_has_a_gap_where_a_converted_run_failed(capsys: pytest.CaptureFixture[str]) -> None:
    convert("failing.eval", capsys)
    call("trend")
    assert "the run failed" in capsys.readouterr().out


@pytest.mark.parametrize("command", [("show",), ("report",), ("compare", "latest")])
def test_a_log_in_place_of_a_run_names_the_command(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    convert("capitals.eval", capsys)
    shutil.copy(LOGS / "better.eval", "better.eval")
    with pytest.raises(ConfigError, match=r"convert it to a run with: agentv convert better\.eval -o"):
        call(*command, "better.eval")
