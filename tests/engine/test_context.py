"""The context of an answer has all that the target reported, and nothing of other answers."""

from typing import Any

import pytest
from tests.support.judging import judge_saying
from tests.support.stored import NOON, SLOT

from agentv.engine.running.context import build_context, unanswered_context
from agentv.types.cases import EvalCase
from agentv.types.evaluation import EvaluationContext, PromptInputs
from agentv.types.messages import Message, Role, ToolCall, TraceEvent
from agentv.types.records.answer import Answer
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

PROVIDER, JUDGE = judge_saying("the answer"), judge_saying("the verdict")
UNANSWERED = unanswered_context(ResolvedTarget("agent", "mock", None), PROVIDER, JUDGE)
MESSAGES = (Message("assistant", tool_calls=(ToolCall("search"),)), Message("assistant", "Yes."))
TRACE = (TraceEvent("tool_call", name="search"),)


def context_of(
    workspace_path: str | None = None, *, messages: tuple[Message, ...] = (Message("user", "May I?"),), **reported: Any
) -> EvaluationContext:
    answer = Answer(
        slot=SLOT, answer_key="v1:aa", text="Yes.", started_at=NOON, ended_at=NOON, duration_ms=2.5, **reported
    )
    return build_context(
        UNANSWERED,
        EvalCase("a", messages, expected_messages=(Message("assistant", "Yes."),)),
        answer,
        prompt=PromptInputs("May I?"),
        criteria=(),
        now=NOON,
        workspace_path=workspace_path,
    )


def test_the_context_of_a_text_has_its_target_case_and_times() -> None:
    context = context_of()
    assert (context.provider, context.judge_provider, context.target.name) == (PROVIDER, JUDGE, "agent")
    assert (context.candidate, context.reference_answer, context.ground_truth) == ("Yes.", "Yes.", "Yes.")
    assert (context.duration_ms, context.suite, context.trial, context.now) == (2.5, SLOT.suite, 0, NOON)
    assert (context.output_messages, context.trace, context.candidate_trace_summary) == (None, None, None)
    assert (context.usage, context.cost_usd, context.diff, context.workspace_path) == (None, None, None, None)


@pytest.mark.parametrize(
    ("reported", "found"),
    [
        ({"usage": Usage(input=3)}, {"usage": Usage(input=3)}),
        ({"cost_usd": 0.25}, {"cost_usd": 0.25}),
        ({"workspace": {"diff": "+ a line"}}, {"diff": "+ a line"}),
        ({"output_messages": MESSAGES}, {"output_messages": MESSAGES}),
        ({"trace": TRACE}, {"trace": TRACE, "candidate_trace": TRACE}),
        ({"workspace_path": "/tmp/a"}, {"workspace_path": "/tmp/a"}),
    ],
    ids=["usage", "cost", "workspace", "messages", "trace", "path"],
)
def test_the_context_has_each_thing_that_a_target_reported(reported: dict[str, Any], found: dict[str, Any]) -> None:
    context = context_of(**reported)
    assert {name: getattr(context, name) for name in found} == found


@pytest.mark.parametrize(("role", "has_history"), [("system", False), ("assistant", True)])
def test_a_prompt_alone_is_not_a_recorded_conversation(role: Role, has_history: bool) -> None:
    messages = (Message("user", "Hello."), Message(role, "Be kind."), Message("user", "May I?"))
    assert context_of(messages=messages).message_history == (messages if has_history else ())


@pytest.mark.parametrize("reported", [{"output_messages": MESSAGES}, {"trace": TRACE}], ids=["messages", "trace"])
def test_the_steps_of_an_answer_are_counted(reported: dict[str, Any]) -> None:
    summary = context_of(**reported).candidate_trace_summary
    assert summary is not None
    assert summary.tool_calls_by_name == {"search": 1}


def test_contexts_of_two_answers_share_no_dict() -> None:
    first, second = context_of(), context_of()
    assert first.context is not second.context
