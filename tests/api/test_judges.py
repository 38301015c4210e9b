"""Judges given from Python in every form that one might guess, and inline in files."""

import asyncio
import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from openai.types.chat import ChatCompletion
from tests.support.fake_server import serving_fake

from agentv import (
    ConfigError,
    EvalCase,
    EvalFileError,
    EvaluationRunConfig,
    ProviderRequest,
    TargetConfig,
    evaluate,
    run_evaluation,
    run_evaluation_sync,
)
from agentv.fake import FakeServer
from agentv.providers.apis.openai import OpenAISettings, make_dialogue
from agentv.providers.local.vendor_clients import ClientProvider

VERDICT = {"score": 0.9, "hits": ["names the city"], "misses": [], "reasoning": "ok"}
INPUT = {"prompt": "Capital of France?", "response": "Paris"}
CASE = EvalCase("paris", "Capital of France?", expected_outcome="Paris")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for vendor in ("OPENAI", "ANTHROPIC", "GEMINI", "AZURE_OPENAI"):
        for part in ("API_KEY", "BASE_URL"):
            monkeypatch.delenv(f"{vendor}_{part}", raising=False)


def judged_by(judge: Any) -> float | None:
    """Return the score by `judge`, after the same judge judged in the case door."""
    config = EvaluationRunConfig(evaluators=[{"type": "llm_judge"}], judge=judge)
    result = run_evaluation_sync(INPUT, config)
    assert result.run_errors == ()
    report = evaluate([CASE], task=lambda _request: "Paris", judge=judge)
    assert report.results[0].error is None
    assert report.results[0].evaluator_results[0].judge_calls != ()
    return result.overall_score


def says_text(request: ProviderRequest) -> str:
    assert "Paris" in request.question
    return json.dumps(VERDICT)


def says_dict(_request: ProviderRequest) -> dict[str, object]:
    return VERDICT


async def says_later(request: ProviderRequest) -> str:
    await asyncio.sleep(0)
    return says_text(request)


@pytest.mark.parametrize("judge", [says_text, says_dict, says_later, lambda _request: json.dumps(VERDICT)])
def test_a_function_is_a_judge(judge: object) -> None:
    assert judged_by(judge) == 0.9


def test_settings_of_a_target_are_a_judge() -> None:
    settings = {"response": json.dumps(VERDICT)}
    assert judged_by({"provider": "mock", **settings}) == 0.9
    assert judged_by(TargetConfig("canned", "mock", settings)) == 0.9


def test_a_model_is_named_by_provider_and_model(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{fake_server.url}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", fake_server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-key-of-a-test")
    assert judged_by("openai:gpt-4o-mini") is not None
    assert judged_by("anthropic:claude-haiku-4-5") is not None


def test_a_model_is_a_target_and_a_judge_target_by_its_name(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{fake_server.url}/v1")
    monkeypatch.chdir(tmp_path)
    found = {"type": "length", "min": 1}
    report = evaluate([CASE], target="openai:gpt-4o-mini", evaluators=[found])
    assert (report.results[0].target, report.results[0].error) == ("openai:gpt-4o-mini", None)
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: t, provider: mock, response: Paris, judge_target: 'openai:gpt-4o-mini'}]"
    )
    (tmp_path / "suite.yaml").write_text(
        "evalcases: [{id: a, input_messages: [{role: user, content: q}], expected_outcome: Paris}]"
    )
    report = evaluate("suite.yaml", target="t")
    assert report.results[0].evaluator_results[0].judge_calls[0].judge == "openai:gpt-4o-mini"


def test_a_model_without_its_key_is_refused_by_the_variables_name() -> None:
    config = EvaluationRunConfig(evaluators=[{"type": "llm_judge"}], judge="openai:gpt-4o-mini")
    with pytest.raises(EvalFileError, match="OPENAI_API_KEY is not set"):
        run_evaluation_sync(INPUT, config)


def test_the_vendors_key_is_not_sent_to_another_address(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key-of-a-test")
    judge = {"provider": "openai", "model": "fake", "base_url": f"{fake_server.url}/v1"}
    config = EvaluationRunConfig(evaluators=[{"type": "llm_judge"}], judge=judge)
    result = run_evaluation_sync(INPUT, config)
    assert result.overall_score is not None
    stored = json.dumps(result.evaluation_config_snapshot)
    assert "OPENAI_API_KEY" not in stored
    assert "secret-key-of-a-test" not in stored


def test_without_a_judge_the_environments_key_decides(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"evaluators": [{"type": "llm_judge"}]}
    with pytest.raises(EvalFileError, match=r"needs a judge.*or set OPENAI_API_KEY or ANTHROPIC_API_KEY"):
        run_evaluation_sync(INPUT, config)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{fake_server.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key-of-a-test")
    result = run_evaluation_sync(INPUT, config)
    assert result.overall_score is not None
    assert result.evaluation_config_snapshot["config"]["judge"] == "openai:gpt-4o-mini"  # type: ignore[index,call-overload]


def test_a_case_is_never_judged_by_a_key_that_happens_to_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key-of-a-test")
    report = evaluate([CASE], task=lambda request: json.dumps(VERDICT) if request.system_prompt else "Paris")
    assert report.results[0].score == 0.9, "a task judges its own answers (decisions: who judges)"


def test_a_client_of_openai_is_a_judge(fake_server: FakeServer) -> None:
    with openai.OpenAI(base_url=f"{fake_server.url}/v1", api_key="k", max_retries=0) as client:
        assert judged_by(client) is not None
        assert judged_by({"client": client, "model": "fake"}) is not None


def test_a_client_of_anthropic_is_a_judge(fake_server: FakeServer) -> None:
    with anthropic.Anthropic(base_url=fake_server.url, api_key="k", max_retries=0) as client:
        assert judged_by(client) is not None


def test_an_async_client_is_called_in_the_callers_event_loop(fake_server: FakeServer) -> None:
    async def judged() -> list[float | None]:
        async with (
            openai.AsyncOpenAI(base_url=f"{fake_server.url}/v1", api_key="k", max_retries=0) as one,
            anthropic.AsyncAnthropic(base_url=fake_server.url, api_key="k", max_retries=0) as other,
        ):
            configs = [EvaluationRunConfig(evaluators=[{"type": "llm_judge"}], judge=client) for client in (one, other)]
            return [(await run_evaluation(INPUT, config)).overall_score for config in configs]

    assert None not in asyncio.run(judged())


def test_a_connection_of_an_event_loop_that_ended_is_dropped() -> None:
    calls: list[str] = []

    async def create(**_body: object) -> ChatCompletion:
        calls.append("call")
        if len(calls) < 3:
            raise RuntimeError("Event loop is closed")  # as httpcore does, before anything is sent
        return ChatCompletion.model_validate(
            {
                "id": "c1",
                "object": "chat.completion",
                "created": 0,
                "model": "m",
                "choices": [
                    {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Paris"}}
                ],
            }
        )

    dialogue = make_dialogue(OpenAISettings(model="m", api_key="k"))
    provider = ClientProvider("openai", create, dialogue)
    assert asyncio.run(provider.invoke(ProviderRequest("Capital?"))).text == "Paris"


def test_a_client_that_fails_is_a_judge_error() -> None:
    with serving_fake() as server:
        url = server.url
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
    judge = {"client": client, "model": "fake"}
    result = run_evaluation_sync(INPUT, EvaluationRunConfig(evaluators=[{"type": "llm_judge"}], judge=judge))
    assert result.overall_score is None
    assert "judge" in result.run_errors[0].message


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        (3, "judge= takes a target's name, provider:model, .* a function, or a client of OpenAI or Anthropic; got int"),
        ({"model": "gpt-4o-mini"}, "needs a `provider`, such as openai, "),
        ({"provider": "opena"}, "Did you mean 'openai'"),
        ({"client": object()}, "takes clients of OpenAI and Anthropic; got object"),
        ("opnai:gpt-4o-mini", "no target named 'opnai:gpt-4o-mini'.*provider:model, such as openai:gpt-4o-mini"),
    ],
)
def test_a_wrong_judge_is_refused_with_what_is_allowed(judge: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run_evaluation_sync(INPUT, EvaluationRunConfig(evaluators=[{"type": "llm_judge"}], judge=judge))
    with pytest.raises(ConfigError, match=message):
        evaluate([CASE], task=lambda _request: "Paris", judge=judge)


def test_judges_stand_inline_in_files(tmp_path: Path) -> None:
    def reply(score: float) -> str:
        return json.dumps({**VERDICT, "score": score})

    (tmp_path / "judges.yaml").write_text(
        f"""
evaluators:
  - {{type: llm_judge}}
  - {{type: llm_judge, name: own, judge: {{provider: mock, response: '{reply(0.5)}'}}}}
  - {{type: llm_judge, name: panel, judges: [{{provider: mock, response: '{reply(0.2)}'}}]}}
judge: {{provider: mock, response: '{reply(1)}'}}
"""
    )
    result = run_evaluation_sync(INPUT, EvaluationRunConfig.load(tmp_path / "judges.yaml"))
    assert [each.value for each in result.results] == [1.0, 0.5, 0.2]
    (tmp_path / "suite.yaml").write_text(
        f"""
evalcases:
  - id: paris
    input_messages: [{{role: user, content: q}}]
    expected_outcome: Paris
    evaluators:
      - {{type: llm_judge, name: own, judge: {{provider: mock, response: '{reply(0.5)}'}}}}
"""
    )
    report = evaluate(tmp_path / "suite.yaml", task=lambda _request: "Paris", folder=tmp_path / ".agentv")
    assert report.results[0].score == 0.5


def test_judges_that_differ_in_a_setting_only_stay_apart() -> None:
    def judge(score: float) -> dict[str, object]:
        return {"provider": "mock", "response": json.dumps({**VERDICT, "score": score})}

    evaluators = [{"type": "llm_judge", "name": name, "judge": judge(score)} for name, score in (("a", 0.2), ("b", 1))]
    result = run_evaluation_sync(INPUT, {"evaluators": evaluators})
    assert [each.value for each in result.results] == [0.2, 1.0]


def test_a_judge_of_the_same_provider_does_not_answer_for_the_target() -> None:
    says = {"provider": "mock", "response": "Paris"}
    report = evaluate([CASE], target=says, judge={"provider": "mock", "response": json.dumps(VERDICT)})
    (result,) = report.results
    assert result.candidate_answer == "Paris"
    assert result.score == 0.9
    assert result.target == "mock"
    assert result.evaluator_results[0].judge_calls[0].judge == "mock (judge)"


def test_one_target_may_answer_and_judge() -> None:
    both = {"provider": "mock", "response": json.dumps(VERDICT)}
    report = evaluate([CASE], target=both, judge=dict(both))
    assert report.results[0].evaluator_results[0].judge_calls[0].judge == "mock"


def test_a_judge_with_the_name_of_another_target_is_refused(tmp_path: Path) -> None:
    judge = TargetConfig("agent", "mock", {"response": json.dumps(VERDICT)})
    with pytest.raises(ConfigError, match="two targets with different settings have the name 'agent'"):
        evaluate([CASE], target={"name": "agent", "provider": "mock", "response": "Paris"}, judge=judge)
    (tmp_path / "targets.yaml").write_text("targets: [{name: agent, provider: mock, response: Paris}]\n")
    (tmp_path / "paris.yaml").write_text(
        "evalcases: [{id: paris, input_messages: [{role: user, content: 'Where?'}], expected_outcome: Paris}]\n"
    )
    with pytest.raises(ConfigError, match="two targets with different settings have the name 'agent'"):
        evaluate(tmp_path / "paris.yaml", judge=judge, folder=tmp_path / ".agentv")


def test_judges_of_two_evaluators_with_one_name_and_different_settings_are_refused() -> None:
    def judge(score: float) -> TargetConfig:
        return TargetConfig("strict", "mock", {"response": json.dumps(VERDICT | {"score": score})})

    evaluators = [{"type": "llm_judge", "name": str(score), "judge": judge(score)} for score in (0.2, 0.8)]
    with pytest.raises(EvalFileError, match=r"\$.evaluators\[1\].judge  two targets .* have the name 'strict'"):
        run_evaluation_sync(INPUT, EvaluationRunConfig(evaluators=evaluators))
    same = [{"type": "llm_judge", "name": name, "judge": judge(0.2)} for name in ("one", "two")]
    assert run_evaluation_sync(INPUT, EvaluationRunConfig(evaluators=same)).overall_score == 0.2


def test_a_judge_of_the_same_provider_stands_beside_the_given_targets() -> None:
    target = {"name": "mock", "provider": "mock", "response": json.dumps(VERDICT | {"score": 0.1})}
    judge = {"provider": "mock", "response": json.dumps(VERDICT)}
    evaluators = [{"type": "llm_judge"}, {"type": "llm_judge", "name": "other", "target": "mock"}]
    result = run_evaluation_sync(INPUT, EvaluationRunConfig(evaluators=evaluators, judge=judge, targets=[target]))
    assert [each.value for each in result.results] == [0.9, 0.1]


def test_a_python_target_judges_with_a_dict_as_a_function_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judge.py").write_text(f"def judge(request):\n    return {VERDICT!r}\n")
    judge = {"provider": "python", "callable": "judge.py:judge"}
    assert judged_by(judge) == 0.9
    assert judged_by(TargetConfig("own", "python", {"callable": "judge.py:judge"})) == 0.9
