"""Runs of an editor's agent: dry runs are never judged, and a batch falls back to one call per case."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agentv import EvalCase, EvaluatorConfig, RunReport, TargetConfig, TurnRules, evaluate
from agentv.cli.main import agentv
from agentv.types.provider import ProviderRequest, ProviderResponse

EDITOR = Path(__file__).parent.parent / "fixtures" / "editor.py"
NOTHING = EvaluatorConfig("nothing", "regex", {"pattern": "x", "expect": "no_match"})


def editor(root: Path, mode: str = "answer", **settings: Any) -> TargetConfig:
    command = f"{sys.executable} -S -E {EDITOR} {mode}"
    return TargetConfig("t", "vscode", {"command": command, "subagent_root": str(root / "agents"), **settings})


def run(tmp_path: Path, target: TargetConfig, *cases: EvalCase, **options: Any) -> RunReport:
    evaluators = options.pop("evaluators", [EvaluatorConfig("has", "contains", {"value": "Answer"})])
    return evaluate(cases, target=target, evaluators=evaluators, folder=tmp_path / ".agentv", **options)


@pytest.mark.parametrize("batches", [False, True])
def test_a_dry_run_is_not_judged_and_does_not_pass(tmp_path: Path, *, batches: bool) -> None:
    judged: list[str] = []

    def judge(context: Any) -> float:
        judged.append(context.candidate)
        return 1.0

    target = editor(tmp_path, dry_run=True, provider_batching=batches)
    turns = [{"input": "one", "evaluators": [judge]}, {"input": "two", "evaluators": [judge]}]
    talk = EvalCase("talk", turns=turns, turn_rules=TurnRules(on_failure="stop"))
    cases = [EvalCase("a", "hi"), EvalCase("b", "ho"), *([] if batches else [talk])]
    report = run(tmp_path, target, *cases, evaluators=[NOTHING, judge])
    assert (judged, report.exit_code) == ([], 3)
    assert {(row.status, row.score, row.verdict) for row in report.results} == {("skipped", None, None)}
    assert not any(row.answer_key for row in report.results)  # so that a later answer is the first
    assert all((row.agent_provider_request or {}).get("dry_run") for row in report.results if row.eval_id != "talk")


def test_a_stored_dry_run_is_not_judged_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    settings = {"name": "t", "provider": "vscode", "subagent_root": "agents", "command": "no-such-editor"}
    nothing = {"name": "nothing", "type": "regex", "pattern": "x", "expect": "no_match"}
    suite = {
        "execution": {"target": "t", "evaluators": [nothing]},
        "evalcases": [{"id": "a", "input_messages": [{"role": "user", "content": "hi"}]}],
    }
    Path("suite.yaml").write_text(json.dumps(suite))
    Path("targets.yaml").write_text(json.dumps({"targets": [{**settings, "dry_run": True}]}))
    assert agentv.main(["run", "suite.yaml"], standalone_mode=False) == 3
    assert agentv.main(["rescore", "latest"], standalone_mode=False) == 3


def test_what_another_target_returns_is_judged(tmp_path: Path) -> None:
    def task(_request: ProviderRequest) -> ProviderResponse:
        return ProviderResponse("", request={"dry_run": True})

    has = EvaluatorConfig("has", "contains", {"value": "Answer"})
    assert evaluate([EvalCase("a", "hi")], task=task, evaluators=[has], folder=tmp_path / ".agentv").exit_code == 1


@pytest.mark.parametrize("mode", ["forgets-last", "fails-batches"])
def test_cases_that_a_batch_does_not_answer_are_sent_alone(tmp_path: Path, mode: str) -> None:
    target = editor(tmp_path, mode, provider_batching=True, timeout_seconds=3)
    report = run(tmp_path, target, EvalCase("a", "one"), EvalCase("b", "two"))
    assert [row.status for row in report.results] == ["pass", "pass"]
    names = "b" if mode == "forgets-last" else "a, b"
    assert any(f"the batch has no answer for {names}" in note for note in report.notes)
    assert any("calling case by case" in note for note in report.notes)
