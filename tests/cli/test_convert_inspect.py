"""`agentv convert LOG.eval -o FOLDER`: a stored run that other commands read."""

import json
from pathlib import Path

import click
import pytest

from agentv.cli.main import agentv
from agentv.types.errors import EvalFileError

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
    assert "6 results: 4 pass, 2 fail" in capsys.readouterr().out
    call("report", run)
    assert "FAIL: 4 of 6 judged results passed" in capsys.readouterr().out


def test_a_killed_log_is_an_interrupted_run(capsys: pytest.CaptureFixture[str]) -> None:
    call("convert", str(LOGS / "killed.eval"), "-o", "here")
    out = capsys.readouterr().out
    assert "Converted from inspect: 2 results of 3 planned, interrupted" in out


def test_a_log_is_converted_once(capsys: pytest.CaptureFixture[str]) -> None:
    convert("capitals.eval", capsys)
    with pytest.raises(click.UsageError, match="exists already"):
        convert("capitals.eval", capsys)


def test_a_log_with_a_damaged_sample_leaves_nothing() -> None:
    data = bytearray((LOGS / "capitals.eval").read_bytes())
    at = data.index(b"samples/3_epoch_2.json") + 100
    data[at : at + 30] = b"\x00" * 30
    Path("damaged.eval").write_bytes(bytes(data))
    with pytest.raises(EvalFileError, match=r"samples/3_epoch_2\.json is damaged"):
        call("convert", "damaged.eval", "-o", ".agentv/runs")
    assert list(Path(".agentv/runs").iterdir()) == []
