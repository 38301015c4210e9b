"""An answer that a judge could not score has no score, wherever results are read."""

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


def test_exports_of_an_error_have_no_score(agentv: Call) -> None:
    agentv("run", "suite.yaml", "-o", "rows.csv", "-o", "rows.jsonl")
    (row,) = csv.DictReader(io.StringIO(Path("rows.csv").read_text()))
    assert (row["status"], row["score"], row["score: broken"], row["score: fine"]) == ("error", "", "", "1.0")
    exported = json.loads(Path("rows.jsonl").read_text())
    assert (exported["status"], exported["score"]) == ("error", None)
    (stored,) = Path(".agentv/runs").glob("*/results.jsonl")
    assert json.loads(stored.read_text())["score"] is None


def test_show_of_an_error_has_no_score(agentv: Call) -> None:
    agentv("run", "suite.yaml")
    assert [row["score"] for row in json.loads(agentv("show", "latest", "--json"))["rows"]] == [None]
    (case,) = json.loads(agentv("show", "latest", "c1", "--json"))["cases"]
    assert case["row"]["score"] is None


def test_a_report_of_an_error_has_no_score(agentv: Call) -> None:
    report = evaluate("suite.yaml")
    assert [(row.status, row.score) for row in report.results] == [("error", None)]
    assert "0.50" not in str(report)
    assert "0.50" not in str(report.results[0])


@pytest.mark.parametrize("version", ["this", "earlier"])
def test_the_viewer_finds_an_error_by_no_score(agentv: Call, version: str) -> None:
    agentv("run", "suite.yaml")
    (stored,) = Path(".agentv/runs").glob("*/results.jsonl")
    if version == "earlier":  # which stored the mean with the failed judge as 0
        stored.write_text(stored.read_text().replace('"score":null,', '"score":0.5,'))
        assert '"score":0.5,' in stored.read_text()
    with serving_view(Path(".agentv")) as viewer:
        client = viewer.client()
        (row,) = json.loads(client.get(f"/r/{stored.parent.name}/rows.json").text)["rows"]
        found = json.loads(client.get(f"/r/{stored.parent.name}/rows.json?score=0..0.6").text)["rows"]
    assert (row["state"], row["score"], found) == ("error", None, [])
