"""`run_evaluation(store="runs", name=…)`: one run for each name and configuration, however often both are given."""

from pathlib import Path
from typing import Any

import pytest

from agentv import EvaluationInput, EvaluationRunConfig, run_evaluation_sync
from agentv.storage.run.find import list_run_folders
from agentv.storage.run.stored import StoredRun


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".agentv"


def config(value: str = "please") -> dict[str, Any]:
    return {"evaluators": [{"type": "contains", "name": "polite", "value": value}]}


def rows(home: Path) -> list[list[int]]:
    """Return the trials of each run."""
    return [[row.slot.trial for row in StoredRun(folder).results()] for folder in list_run_folders(home)]


def test_equal_dicts_are_one_configuration(home: Path) -> None:
    for _ in range(3):
        run_evaluation_sync({"response": "Wait, please."}, config(), store="runs", name="shop")
    assert [len(trials) for trials in rows(home)] == [3]


def test_equal_configurations_are_one_run(home: Path) -> None:
    for _ in range(2):
        made = EvaluationRunConfig.from_dict(config())
        run_evaluation_sync(EvaluationInput("Wait.", prompt="Where?"), made, store="runs", name="shop")
    assert rows(home) == [[0, 1]]


def test_another_configuration_begins_another_run_of_the_name(home: Path) -> None:
    given = EvaluationInput("Wait, please.", prompt="Where?")
    for value in ("please", "thanks", "please"):
        run_evaluation_sync(given, config(value), store="runs", name="shop")
    assert rows(home) == [[0, 1], [0]]


def test_a_changed_copy_judges_by_its_own_evaluators(home: Path) -> None:
    first = EvaluationRunConfig(evaluators=config()["evaluators"])
    given = EvaluationInput("Wait, please.", prompt="Where?")
    assert run_evaluation_sync(given, first, store="runs").overall_score == 1.0
    changed = first.with_values(evaluators=config("thanks")["evaluators"])
    assert run_evaluation_sync(given, changed, store="runs").overall_score == 0.0
    assert rows(home) == [[0], [0]]


def test_a_copy_still_knows_its_file(home: Path) -> None:
    file = home.parent / "judges.yaml"
    file.write_text("evaluators: [{type: contains, name: polite, value: please}]\n")
    loaded = EvaluationRunConfig.load(file)
    assert loaded.with_values(only="free").path == loaded.path == str(file)
