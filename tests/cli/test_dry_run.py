"""`agentv run --dry-run` and `--dump-prompts`: the plan and the prompts, without any call."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click
import pytest

from agentv.cli.main import agentv
from agentv.types.errors import ConfigError

CASE = '{"id": "NAME", "expected_outcome": "x", "input_messages": [{"role": "user", "content": "hi"}]}'


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    Path("targets.yaml").write_text("targets: [{name: mock, provider: mock, response: hi}]")
    Path("lines.jsonl").write_text("".join(CASE.replace("NAME", name) + "\n" for name in "abc"))
    Path("lines.yaml").write_text("execution: {evaluators: [{name: greets, type: contains, value: hi}]}")
    Path("suite.yaml").write_text(f"evalcases: [{CASE}]")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert agentv.main(["run", *arguments], standalone_mode=False) == 0
    return capsys.readouterr().out


def test_a_streams_evaluators_are_those_of_its_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "lines.jsonl", "--dry-run", "--gate", "mean >= 0.5") == (
        "lines.jsonl: a stream of cases against mock\n"
        "results planned: unknown (a stream); target calls: unknown (a stream)\n"
        "Cost estimate: none (no earlier run of these eval files); run with --sample 5 to get one\n"
        "evaluators: greets (contains); cases of a stream may name others\n"
        "gate: mean >= 0.5\n"
    )


def test_the_plan_comes_as_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(run(capsys, "suite.yaml", "lines.jsonl", "--dry-run", "--json", "--trials", "2"))
    assert shown.pop("forecast")["basis"] == "unknown"
    assert shown == {
        "schema": "agentv-plan-1",
        "suites": [
            {"suite": "suite.yaml", "cases": 1, "rows": 2, "trials": 2, "prompts": [], "targets": ["mock"]},
            {"suite": "lines.jsonl", "cases": None, "rows": None, "trials": 2, "prompts": [], "targets": ["mock"]},
        ],
        "rows": None,
        "evaluators": [{"name": "llm_judge", "type": "llm_judge"}, {"name": "greets", "type": "contains"}],
        "gates": ["every judged result passes"],
        "warnings": [],
        "prompts": None,
    }


def test_prompts_are_written_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "suite.yaml", "--dump-prompts", "out").endswith("\n1 prompt written to out\n")
    assert [path.name for path in Path("out").iterdir()] == ["suite.yaml.a.mock.md".replace(".a.", ".NAME.")]


def test_a_file_in_place_of_the_prompts_folder_is_refused() -> None:
    Path("out").write_text("mine")
    with pytest.raises(ConfigError, match=r"--dump-prompts needs a writable folder; .*out: File exists"):
        agentv.main(["run", "suite.yaml", "--dump-prompts", "out"], standalone_mode=False)
    assert Path("out").read_text() == "mine"


AGENT = 'def answer(question):\n    return {"text": "hi", "usage": {"input": 2000, "output": 500}}\n'
TARGETS = "targets: [{name: shop, provider: python, callable: agent.py:answer%s}]"
PRICE = ", price: {input_per_million: 2.5, output_per_million: 10}"


@pytest.fixture
def shop() -> None:
    Path("agent.py").write_text(AGENT)
    Path("targets.yaml").write_text(TARGETS % PRICE)
    cases = ", ".join(CASE.replace("NAME", name) for name in "abcd")
    Path("suite.yaml").write_text(
        "execution: {target: shop, evaluators: [{name: greets, type: contains, value: hi}]}\n" + f"evalcases: [{cases}]"
    )


def forecast(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(run(capsys, "suite.yaml", "--dry-run", "--json", *arguments))["forecast"]


@pytest.mark.usefixtures("shop")
def test_what_a_run_will_cost_is_drawn_from_what_it_cost_before(capsys: pytest.CaptureFixture[str]) -> None:
    assert forecast(capsys)["cost_usd"] is None
    run(capsys, "suite.yaml", "--sample", "2", "--display", "none")
    found = forecast(capsys, "--trials", "3")
    assert (found["basis"], len(found["runs"]), found["changed_targets"]) == ("history", 1, [])
    assert (found["cost_usd"], found["tokens"], found["judge_calls"]) == (pytest.approx(0.12), 30_000, 0)
    assert [(part["rows"], part["measured_rows"]) for part in found["parts"]] == [(12, 2)]
    shown = run(capsys, "suite.yaml", "--dry-run", "--budget-usd", "0.02")
    assert "Cost estimate: about $0.0400, 10.0 k tokens, " in shown
    assert "based on 2 results of 1 stored run, the latest 20" in shown
    assert "more than the budget of $0.02" in shown


@pytest.mark.usefixtures("shop")
def test_changed_settings_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "suite.yaml", "--display", "none")
    Path("targets.yaml").write_text(TARGETS % f"{PRICE}, timeout_seconds: 9")
    assert "the settings of target 'shop' have changed since" in run(capsys, "suite.yaml", "--dry-run")


@pytest.mark.usefixtures("shop")
def test_an_unknown_cost_is_not_zero(capsys: pytest.CaptureFixture[str]) -> None:
    Path("targets.yaml").write_text(TARGETS % "")
    run(capsys, "suite.yaml", "--display", "none")
    found = forecast(capsys)
    assert (found["cost_usd"], found["tokens"]) == (None, 10_000)
    assert "Cost estimate: cost unknown, 10.0 k tokens" in run(capsys, "suite.yaml", "--dry-run")


@pytest.mark.usefixtures("shop")
def test_a_pilot_runs_a_few_cases_and_the_forecast_is_drawn_from_them(capsys: pytest.CaptureFixture[str]) -> None:
    found = forecast(capsys, "--pilot", "2")
    assert found["cost_usd"] == pytest.approx(0.04)
    assert [part["measured_rows"] for part in found["parts"]] == [2]
    assert len(list(Path(".agentv/runs").iterdir())) == 1


def test_a_pilot_goes_with_a_dry_run() -> None:
    with pytest.raises(click.UsageError, match="--pilot requires --dry-run"):
        agentv.main(["run", "suite.yaml", "--pilot", "2"], standalone_mode=False)


@pytest.mark.usefixtures("shop")
def test_an_unreadable_stored_run_gives_no_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "suite.yaml", "--display", "none")
    (folder,) = Path(".agentv/runs").iterdir()
    (folder / "run.json").write_text("{")
    assert forecast(capsys)["basis"] == "unknown"


def test_a_forecasts_work_per_eval_file_does_not_grow_with_their_number(capsys: pytest.CaptureFixture[str]) -> None:
    def calls_with(files: int) -> int:
        folder = Path(f"of-{files}")
        folder.mkdir()
        for number in range(files):
            (folder / f"{number}.yaml").write_text(f"evalcases: [{CASE}]")
        with counted_calls() as counted:
            run(capsys, str(folder), "--dry-run")
        return len(counted) - counted.index("load_forecast")

    calls_with(1)  # imports, and caches are filled
    few, more, most = (calls_with(files) for files in (10, 20, 40))
    assert most - more == pytest.approx(2 * (more - few), rel=0.05)


def test_a_folders_settings_are_read_once_for_all_its_eval_files(capsys: pytest.CaptureFixture[str]) -> None:
    Path(".agentv.yaml").write_text("max_errors: 1")
    Path("evals").mkdir()

    def reads_with(files: int) -> int:
        for number in range(files):
            Path(f"evals/{number}.yaml").write_text(f"evalcases: [{CASE}]")
        with counted_calls() as counted:
            run(capsys, "--dry-run")
        return counted.count("read_project")

    assert reads_with(2) == reads_with(10)


@contextmanager
def counted_calls() -> Iterator[list[str]]:
    """Collect the names of all functions that are called in the block, one name for each call."""
    names: list[str] = []

    def note(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        yield names
    finally:
        sys.setprofile(None)
