"""compare(): two reports, runs, files or lists of results, compared as `agentv compare` does."""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentv import Comparison, ConfigError, EvalCase, EvaluatorConfig, ProviderRequest, RunReport, compare, evaluate
from agentv.cli.main import agentv

CASES = [EvalCase(f"q{number}", f"{number}?") for number in range(12)]
ECHO = [EvaluatorConfig("echo", "contains", {"value": "?"})]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def old_agent(request: ProviderRequest) -> str:
    return request.question


def new_agent(request: ProviderRequest) -> str:
    return "" if int(request.question[:-1]) % 3 == 0 else request.question


def run(task: object, folder: str | None = None, cases: list[EvalCase] = CASES) -> RunReport:
    return evaluate(cases, task=task, evaluators=ECHO, folder=folder)


def regressed(comparison: Comparison) -> list[str]:
    return [case.pair.after.eval_id for case in comparison.changed("regressed")]


def test_reports_in_memory_are_compared_case_by_case() -> None:
    comparison = compare(run(old_agent), run(new_agent))
    assert comparison.finding == "worse"
    assert comparison.is_paired
    assert regressed(comparison) == ["q0", "q3", "q6", "q9"]


def test_stored_runs_and_files_give_what_the_command_gives(capsys: pytest.CaptureFixture[str]) -> None:
    old, new = run(old_agent, ".agentv"), run(new_agent, ".agentv")
    new.save("results.jsonl")
    assert old.folder is not None
    agentv.main(["compare", old.run_id, new.run_id, "--json"], standalone_mode=False)
    shown = json.loads(capsys.readouterr().out)
    pairs: list[tuple[Any, Any]] = [(old, new), (Path(old.folder), new.run_id), ("latest~1", "results.jsonl")]
    for before, after in pairs:
        comparison = compare(before, after)
        assert comparison.score is not None
        assert comparison.score.difference == pytest.approx(shown["measures"][0]["difference"])
        assert regressed(comparison) == [case["eval_id"] for case in shown["regressed"]]


def test_lists_of_results_are_compared() -> None:
    comparison = compare(run(old_agent).results, [*run(new_agent).results])
    assert regressed(comparison) == ["q0", "q3", "q6", "q9"]


def test_a_comparison_prints_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    old, new = run(old_agent, ".agentv"), run(new_agent, ".agentv")
    agentv.main(["compare", old.run_id, new.run_id], standalone_mode=False)
    printed = capsys.readouterr().out
    comparison = compare(old, new)
    for shown in (f"{comparison}", f"{pickle.loads(pickle.dumps(comparison))!r}"):
        assert shown == printed.rstrip("\n")
    assert "  before   │ 0?\n  after    │ (empty)\n" in printed
    html = comparison._repr_html_()
    assert "4 cases fell, none rose" in html
    assert html.count("(empty)") == 4


@pytest.mark.parametrize("folder", [".agentv", None], ids=["stored", "in memory"])
def test_a_comparison_has_the_texts_of_each_case(folder: str | None) -> None:
    cases = [EvalCase(f"q{number}", f"{number}?", expected_outcome="repeats it") for number in range(12)]
    old, new = (run(task, folder, cases) for task in (old_agent, new_agent))
    comparison = compare(old, new)
    (told,) = comparison.explain(comparison.fell()[1:2])
    assert (told.question, told.expected) == ("3?", "repeats it")
    assert (told.before.answer, told.after.answer) == ("3?", "")
    assert told.after.reason == 'echo: expected "?", got ""'
    frame = comparison.to_dataframe()
    row = frame[frame["case"] == "q3"].iloc[0]
    assert (row["change"], row["difference"], row["expected"]) == ("regressed", -1.0, "repeats it")
    assert (row["question"], row["answer_before"], row["answer_after"]) == ("3?", "3?", "")
    assert row["reason_after"] == told.after.reason


def test_a_comparison_of_deleted_runs_keeps_its_numbers() -> None:
    comparison = compare(run(old_agent, ".agentv"), run(new_agent, ".agentv"))
    shutil.rmtree(".agentv")
    assert "fell: 4" in str(comparison)
    assert comparison.explain(comparison.fell()[:1])[0].after.answer is None


def test_runs_with_other_cases_are_compared_unpaired() -> None:
    comparison = compare(run(old_agent), run(old_agent, cases=[EvalCase(f"x{i}", f"{i}?") for i in range(9)]))
    assert not comparison.is_paired
    assert compare(run(old_agent), run(new_agent), unpaired=True).is_paired is False


def test_what_cannot_be_compared_is_refused() -> None:
    report = run(old_agent)
    with pytest.raises(ConfigError, match="got int"):
        compare(report, 7)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ConfigError, match="got str"):
        compare(report, ["q0"])  # type: ignore[list-item]  # on purpose
    with pytest.raises(ConfigError, match="latest"):
        compare(report, "latest")

    def fails(_request: ProviderRequest) -> str:
        raise ValueError

    with pytest.raises(ConfigError, match="no case has a score in both"):
        compare(report, run(fails))
