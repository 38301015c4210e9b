"""`skill_trigger`: the use of a named skill in the tool calls of an answer."""

import pytest
from tests.support.judging import evaluator_of, make_context

from agentv.types.evaluation import EvaluationScore
from agentv.types.messages import Message, ToolCall

USES = [
    ToolCall("Skill", {"skill": "shop:refunds"}),
    ToolCall("read", {"file_path": "/x/skills/refunds/SKILL.md"}),
    ToolCall("Read", {"path": "skills/refunds/a.md"}),
    ToolCall("bash", {"command": "ls"}, "skills/refunds/SKILL.md"),
    ToolCall("bash", {"command": "ls"}, {"files": ["skills/refunds/SKILL.md"]}),
]
OTHERS = [ToolCall("Skill", {"skill": "billing"}), ToolCall("write", {"path": "skills/refunds/a.md"}), ToolCall("read")]


def score(*calls: ToolCall, should_trigger: bool = True) -> EvaluationScore:
    messages = (Message("assistant", "Done.", tool_calls=calls),)
    evaluator = evaluator_of("skill_trigger", skill="refunds", should_trigger=should_trigger)
    made = evaluator.evaluate(make_context(output_messages=messages))
    assert isinstance(made, EvaluationScore)
    return made


@pytest.mark.parametrize("call", USES)
def test_a_skill_is_found_in_any_call(call: ToolCall) -> None:
    assert score(*OTHERS, call).score == 1.0
    assert score(*OTHERS, call, should_trigger=False).score == 0.0


@pytest.mark.parametrize("call", OTHERS)
def test_other_calls_do_not_use_the_skill(call: ToolCall) -> None:
    assert score(call).misses == ("the skill 'refunds' is in none of 1 tool calls",)
    assert score(call, should_trigger=False).score == 1.0


def test_no_call_is_no_use() -> None:
    assert score().misses == ("no tool call recorded",)
