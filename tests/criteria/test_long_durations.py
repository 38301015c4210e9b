"""Durations that are no durations, such as a time in milliseconds since 1970, are refused with their place."""

import json
from pathlib import Path

import pytest
from tests.support.stored import make_answer, make_case

from agentv import EvaluationInput, run_evaluation_sync
from agentv.cli.main import main
from agentv.engine.criteria.inputs import input_of
from agentv.storage.run.find import list_run_folders
from agentv.storage.run.stored import StoredRun
from agentv.types.aggregated_result import AggregatedEvaluationResult
from agentv.types.errors import EvalFileError
from agentv.types.records.answer import Answer

CONFIG = {"evaluators": [{"type": "contains", "name": "polite", "value": "please"}]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "judges.yaml").write_text(json.dumps(CONFIG))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("value", [1e15, 1e300, 1_763_899_200_000])
def test_a_duration_of_decades_is_refused(value: float) -> None:
    with pytest.raises(EvalFileError, match=r"duration_ms.*must be at most 1,000,000,000,000"):
        EvaluationInput("Wait.", duration_ms=value)
    with pytest.raises(EvalFileError, match=r"duration_ms.*must be at most 1,000,000,000,000"):
        run_evaluation_sync({"response": "Wait.", "durationMs": value}, CONFIG, store="runs", name="x")


def test_the_line_of_such_a_duration_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [{"response": "Wait.", "durationMs": 1e15}, {"response": "Wait, please.", "durationMs": 5}]
    (folder / "v1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(SystemExit) as left:
        main(["score", "v1.jsonl", "--config", "judges.yaml", "--gate", "none"])
    assert left.value.code == 3
    assert "v1.jsonl:1" in capsys.readouterr().out
    (found,) = list_run_folders(folder / ".agentv")
    assert sorted((row.line, row.status) for row in StoredRun(found).results()) == [(1, "error"), (2, "pass")]


def test_the_first_day_of_the_calendar_has_no_earlier_one(folder: Path) -> None:
    given = EvaluationInput("Wait, please.", timestamp="0001-01-01T00:00:00Z", duration_ms=5)
    assert run_evaluation_sync(given, CONFIG, store="runs", name="early").run_errors == ()
    (found,) = list_run_folders(folder / ".agentv")
    (answer,) = StoredRun(found).answers()
    assert (answer.started_at, answer.duration_ms) == (answer.ended_at, 5)


def test_a_stored_judgement_of_an_older_version_is_read() -> None:
    stored = run_evaluation_sync(EvaluationInput("Wait.", duration_ms=5), CONFIG).to_dict()
    read = AggregatedEvaluationResult.from_dict(
        {**stored, "inputSnapshot": {**stored["inputSnapshot"], "durationMs": 2e12}}  # type: ignore[dict-item]
    )
    assert (read.input_snapshot.text, read.input_snapshot.duration_ms) == ("Wait.", None)


def test_a_stored_duration_of_an_older_version_is_not_known() -> None:
    answer: Answer = make_answer(duration_ms=2e12, output_messages=None)
    assert input_of(make_case(), answer).duration_ms is None
