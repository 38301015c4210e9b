"""The score of an answer that a judge could not score is no low score where people and tables read results."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.viewer import serving_view

from agentv.api import evaluate
from agentv.cli.main import main

SUITE = """
evaluators:
  - {name: broken, type: llm_judge, judge: mute}
  - {name: fine, type: contains, value: Paris}
evalcases:
  - {id: c1, input: "Where is the tower?", expected_outcome: Paris}
"""
TARGETS = """
targets:
  - {name: default, provider: mock, response: Paris}
  - {name: mute, provider: mock, response: "no verdict"}
"""
Call = Callable[..., str]


@pytest.fixture
def agentv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that calls the command line in a project of one case, whose first judge fails."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".agentv").mkdir()
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "targets.yaml").write_text(TARGETS)

    def call(*arguments: str) -> str:
        with pytest.raises(SystemExit):
            main(arguments)
        return capsys.readouterr().out

    return call


def test_a_table_has_no_score_of_an_error(agentv: Call) -> None:
    agentv("run", "suite.yaml", "-o", "rows.csv")
    (row,) = csv.DictReader(io.StringIO(Path("rows.csv").read_text()))
    assert (row["status"], row["score"], row["score: broken"], row["score: fine"]) == ("error", "", "", "1.0")


@pytest.mark.usefixtures("agentv")
def test_a_printed_report_has_no_score_of_an_error() -> None:
    report = evaluate("suite.yaml")
    assert [row.status for row in report.results] == ["error"]
    assert "0.50" not in str(report)


def test_the_viewer_finds_an_error_by_no_score(agentv: Call) -> None:
    agentv("run", "suite.yaml")
    (run,) = Path(".agentv/runs").iterdir()
    with serving_view(Path(".agentv")) as viewer:
        client = viewer.client()
        (row,) = json.loads(client.get(f"/r/{run.name}/rows.json").text)["rows"]
        found = json.loads(client.get(f"/r/{run.name}/rows.json?score=0..0.6").text)["rows"]
    assert (row["state"], row["score"], found) == ("error", None, [])
