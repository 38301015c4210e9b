"""Agents of real frameworks as commands, whose tool calls and tokens are known by their spans, without glue.

They need an environment each (tests/telemetry/record.py), and about ten seconds: AGENTV_TRACED_FRAMEWORKS=1 makes the
environments and runs these tests.
"""

import os
import shlex
from pathlib import Path

import pytest
from tests.support.fake_server import serving_fake
from tests.telemetry.agents import shop
from tests.telemetry.record import RECORDINGS, prepare

from agentv import EvalCase, EvaluatorConfig, evaluate

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("AGENTV_TRACED_FRAMEWORKS") != "1",
        reason="runs 13 agents in environments of their own: set AGENTV_TRACED_FRAMEWORKS=1",
    ),
    pytest.mark.timeout(600),
]
NAMES = (
    "pydantic-ai",
    "openinference-openai-agents-chat",
    "openinference-openai-agents-responses",
    "official-openai-agents-chat",
    "official-openai-agents-responses",
    "openinference-langchain",
    "official-langchain",
    "openllmetry-langchain",
    "openllmetry-openai",
    "openinference-openai",
    "openai-v2",
    "genai-openai",
    "logfire",
)
ORDER, THANKS, _ = shop.QUESTIONS


@pytest.mark.parametrize("name", NAMES)
def test_a_framework_without_glue_is_scored_by_its_calls(name: str, tmp_path: Path) -> None:
    expected = [{"tool": "find_order", "args": {"order": "7"}}]
    cases = [
        EvalCase("order", ORDER, evaluators=(_calls(mode="exact", expected=expected), _says("on its way"))),
        EvalCase("thanks", THANKS, evaluators=(_calls(maximums={"find_order": 0}), _says("welcome"))),
    ]
    with serving_fake() as model:
        target = {
            "provider": "cli",
            "name": name,
            "command_template": f"env QUESTION={{PROMPT}} {shlex.join(prepare(RECORDINGS[name]))}",
            "otel": True,
            "env": {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "none"},
        }
        report = evaluate(cases, target=target, folder=tmp_path / ".agentv", gates="none")
        billed = [call for call in model.calls if call.billed]

    assert [(row.verdict, row.error) for row in report.results] == [("pass", None)] * 2
    usages = [row.target_usage for row in report.results if row.target_usage is not None]
    assert sum(usage.input for usage in usages) == sum(call.input_tokens for call in billed)
    assert sum(usage.output for usage in usages) == sum(call.output_tokens for call in billed)
    assert report.notes == ()


def _calls(**settings: object) -> EvaluatorConfig:
    return EvaluatorConfig("calls", "tool_trajectory", settings)  # type: ignore[arg-type] # plain JSON


def _says(text: str) -> EvaluatorConfig:
    return EvaluatorConfig("says", "contains", {"value": text})
