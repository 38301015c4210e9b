"""A judge prompt with an unknown name, or without the answer, is refused before a run through every door."""

from pathlib import Path

import pytest

from agentv import (
    EvalCase,
    EvaluationInput,
    EvaluationRunConfig,
    EvaluatorConfig,
    TargetConfig,
    evaluate,
    run_evaluation_sync,
)
from agentv.cli.main import main
from agentv.types.errors import AgentvError
from agentv.types.json_value import JsonObject

PROMPTS = ("Rate {{ anwser }} and {{ response }}", "Rate {{ question }}")
JUDGE = TargetConfig("judge", "mock", {"response": '{"score": 1.0}'})


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_run_is_refused(prompt: str) -> None:
    case = EvalCase("a", "hi", "ok", evaluators=(EvaluatorConfig("tone", "llm_judge", {"prompt": prompt}),))
    with pytest.raises(AgentvError, match=r"evaluator 'tone': prompt: .*(unknown variable|shows the judge no answer)"):
        evaluate([case], task=lambda _request: "x", judge=JUDGE)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_prompt_for_criteria_is_refused(prompt: str) -> None:
    config = EvaluationRunConfig(evaluators=[EvaluatorConfig("tone", "llm_judge", {"prompt": prompt})], judge=JUDGE)
    with pytest.raises(AgentvError, match=r"evaluator 'tone': .*(unknown variable|shows the judge no answer)"):
        run_evaluation_sync(EvaluationInput("x"), config)


def test_score_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.jsonl").write_text('{"response": "x"}\n')
    Path("criteria.yaml").write_text("evaluators: [{name: tone, type: llm_judge, prompt: 'Rate {{ question }}'}]\n")
    with pytest.raises(SystemExit) as left:
        main(["score", "--config", "criteria.yaml", "log.jsonl"])
    assert left.value.code == 4
    assert "the prompt shows the judge no answer" in capsys.readouterr().err


@pytest.mark.parametrize("prompt", ["Rate {{response}} for {{ mood }}", "Rate {{ evaluator_results }}"])
def test_what_the_settings_allow_is_run(prompt: str) -> None:
    settings: JsonObject = {"prompt": prompt, "allow_unknown": True}
    evaluator = EvaluatorConfig("tone", "llm_judge", settings)
    if "evaluator_results" in prompt:
        members = (EvaluatorConfig("x", "contains", {"value": "x"}),)
        aggregator = {"type": "llm_judge", "prompt": prompt}
        evaluator = EvaluatorConfig("tone", "composite", {"evaluators": members, "aggregator": aggregator})  # type: ignore[dict-item]
    case = EvalCase("a", "hi", "ok", evaluators=(evaluator,))
    report = evaluate([case], task=lambda _request: "x", judge=JUDGE)
    assert report.counts["pass"] == 1
