"""`run_evaluation(store="runs")`: the judgements of a program are a run."""

import asyncio
import gc
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from agentv import EvaluationInput, EvaluationRunConfig, run_evaluation, run_evaluation_sync
from agentv.storage.run.find import list_run_folders
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError

CONFIG = [{"type": "contains", "name": "polite", "value": "please"}]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".agentv"


def runs(home: Path) -> list[StoredRun]:
    return [StoredRun(folder) for folder in list_run_folders(home)]


def test_judgements_of_a_process_are_one_run(home: Path) -> None:
    config = EvaluationRunConfig(evaluators=CONFIG)
    for number in range(3):
        given = EvaluationInput("Wait, please.", prompt=f"Where {number}?", agent_id="shop", session_id="s")
        assert run_evaluation_sync(given, config, store="runs").overall_score == 1.0
    (run,) = runs(home)
    rows = list(run.results())
    assert [(row.slot.target, row.session_id, row.score) for row in rows] == [("shop", "s", 1.0)] * 3
    assert [case.question for case in run.cases()] == ["Where 0?", "Where 1?", "Where 2?"]


def test_a_run_ends_with_its_configuration_and_keeps_no_file_open(home: Path) -> None:
    def judge_once() -> None:
        config = EvaluationRunConfig(evaluators=CONFIG)
        assert run_evaluation_sync(EvaluationInput("Wait, please."), config, store="runs").overall_score == 1.0
        assert runs(home)[-1].state() != "finished"
        assert vars(config) == {}

    judge_once()
    gc.collect()
    before = psutil.Process().num_fds()
    for _ in range(3):
        judge_once()
    gc.collect()
    assert psutil.Process().num_fds() <= before
    assert [run.state() for run in runs(home)] == ["finished"] * 4


def test_many_at_once_are_all_stored(home: Path) -> None:
    async def judge_all() -> None:
        config = EvaluationRunConfig(evaluators=CONFIG)
        inputs = [EvaluationInput("Wait.", prompt="Where?", id=f"q-{number % 10}") for number in range(50)]
        await asyncio.gather(*(run_evaluation(each, config, store="runs") for each in inputs))

    asyncio.run(judge_all())
    (run,) = runs(home)
    keys = [(row.eval_id, row.slot.trial) for row in run.results()]
    assert sorted(keys) == [(f"q-{number}", trial) for number in range(10) for trial in range(5)]


def test_a_named_run_goes_on_in_the_next_process(home: Path) -> None:
    program = (
        "from agentv import *\n"
        f"config = EvaluationRunConfig(evaluators={CONFIG!r}, gates=['mean >= 0.4'])\n"
        "for text in ('Wait, please.', 'No.'):\n"
        "    run_evaluation_sync(EvaluationInput(text, prompt='Where?'), config, store='runs', name='shop')\n"
    )
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    (run,) = runs(home)
    assert (run.run.name, run.state()) == ("shop", "finished")
    assert [row.slot.trial for row in run.results()] == [0, 1, 2, 3]
    shown = subprocess.run(
        [sys.executable, "-m", "agentv", "report", "shop"], capture_output=True, text=True, check=False
    )
    assert "PASS: mean is 0.5" in shown.stdout


def test_an_unknown_store_is_refused() -> None:
    config = EvaluationRunConfig(evaluators=CONFIG)
    with pytest.raises(ConfigError, match="must be 'runs'"):
        run_evaluation_sync(EvaluationInput("a"), config, store="files")  # type: ignore[arg-type]


def test_a_name_without_a_store_is_refused() -> None:
    config = EvaluationRunConfig(evaluators=CONFIG)
    with pytest.raises(ConfigError, match="`store` must be 'runs', not None; `name` is"):
        run_evaluation_sync(EvaluationInput("a"), config, name="shop")


def test_a_named_run_is_continued_by_its_own_configuration_only(home: Path) -> None:
    for value in ("please", "thanks", "please"):
        program = (
            "from agentv import *\n"
            f"config = EvaluationRunConfig(evaluators=[{{'type': 'contains', 'name': 'polite', 'value': {value!r}}}])\n"
            "run_evaluation_sync(EvaluationInput('Wait.', prompt='Where?'), config, store='runs', name='shop')\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert [[row.slot.trial for row in run.results()] for run in runs(home)] == [[0, 1], [0]]


def test_an_unreadable_named_run_is_noted_in_the_new_run(home: Path) -> None:
    program = (
        "from agentv import *\n"
        f"config = EvaluationRunConfig(evaluators={CONFIG!r})\n"
        "run_evaluation_sync(EvaluationInput('Wait.', prompt='Where?'), config, store='runs', name='shop')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    (broken,) = runs(home)
    (broken.folder / "results.jsonl").write_text('{"broken\n')
    subprocess.run([sys.executable, "-c", program], check=True)
    assert len(runs(home)) == 2
    new = next(run for run in runs(home) if run.run_id != broken.run_id)
    (reported,) = (event for event in new.events() if event.type == "reported")
    assert f"run {broken.run_id} of the same name is not continued: " in str(reported.fields["notes"])
