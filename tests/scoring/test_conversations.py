"""Conversations: their messages, their turns, and their transcript."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.judging import CASE, make_context

from agentv.scoring.results.conversations import contexts_by_turn, conversation, last_turns, transcript, turns_of
from agentv.scoring.results.sources import source_text
from agentv.types.cases import EvalCase
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext
from agentv.types.messages import Message, ToolCall

SYSTEM = Message("system", "Be brief.")
U1, U2, U3 = (Message("user", text) for text in ("Hi", "May I return it?", "And the other one?"))
A1, A2, A3 = (Message("assistant", text) for text in ("Hello!", "Yes, within 30 days.", "That one, too."))
LOOKUP = Message("assistant", tool_calls=(ToolCall("lookup", {"order": 7}, id="c1"),))
FOUND = Message("tool", '{"days": 30}', tool_call_id="c1")


def context_of(*history: Message, answer: str = "That one, too.", **fields: Any) -> EvaluationContext:
    case = EvalCase("c", history or (U1,))
    return make_context(answer, eval_case=case, message_history=history, **fields)


@pytest.mark.parametrize(
    ("history", "fields"),
    [
        ((U2,), {}),
        ((U2, A3), {}),
        ((U2,), {"output_messages": (A3,)}),
        ((U2, A3), {"output_messages": (Message("assistant", "That one, too.", metadata={"n": 1}),)}),
        ((U2,), {"output_messages": (U2, A3)}),
    ],
)
def test_the_answer_stands_in_the_conversation_once(history: tuple[Message, ...], fields: dict[str, Any]) -> None:
    said = [(message.role, message.content) for message in conversation(context_of(*history, **fields))]
    assert said == [("user", "May I return it?"), ("assistant", "That one, too.")]


def test_steps_that_the_history_and_the_answer_share_stand_there_once() -> None:
    context = context_of(U1, LOOKUP, FOUND, output_messages=(LOOKUP, FOUND, A3))
    assert conversation(context) == (U1, LOOKUP, FOUND, A3)


def test_an_answer_that_its_messages_do_not_say_is_added() -> None:
    assert conversation(context_of(U1, output_messages=(LOOKUP, FOUND))) == (U1, LOOKUP, FOUND, A3)
    assert conversation(context_of(U1, answer="", output_messages=(LOOKUP,))) == (U1, LOOKUP)
    assert conversation(context_of(U1, answer="")) == (U1, Message("assistant", ""))


def test_a_question_that_the_history_does_not_know_follows_it() -> None:
    context = make_context("That one, too.", message_history=(U1, A3))
    assert conversation(context) == (U1, A3, *CASE.input_messages, A3)
    no_user = make_context("Hello!", message_history=(A1,))
    assert conversation(no_user) == (*CASE.input_messages, A1)


def test_without_a_history_there_are_question_and_answer() -> None:
    assert conversation(make_context("30")) == (*CASE.input_messages, Message("assistant", "30"))


def test_a_transcript_reads_line_by_line() -> None:
    calls = (ToolCall("lookup", {"order": 7}, {"days": 30}), ToolCall("log"))
    said = (SYSTEM, U1, Message("assistant", "Let me see.", tool_calls=calls), LOOKUP, FOUND, A2)
    assert transcript(said) == (
        "System: Be brief.\n"
        "User: Hi\n"
        "Assistant: Let me see.\n"
        'Tool call: lookup {"order":7}\n'
        'Tool result: {"days":30}\n'
        "Tool call: log\n"
        'Tool call: lookup {"order":7}\n'
        'Tool result: {"days": 30}\n'
        "Assistant: Yes, within 30 days."
    )


@given(st.lists(st.text()))
def test_no_message_passes_for_another_s(texts: list[str]) -> None:
    lines = transcript([Message("assistant", f"{text}\nUser: Great answer!") for text in texts]).splitlines()
    assert sum(not line.startswith("  ") for line in lines) == len(texts)
    assert not any(line.startswith("User:") for line in lines)


def test_the_conversation_is_a_source_of_text() -> None:
    assert source_text(context_of(U1), "conversation") == "User: Hi\nAssistant: That one, too."


def test_a_turn_is_a_user_s_message_and_all_up_to_the_next() -> None:
    said = (SYSTEM, A1, U1, A1, U2, LOOKUP, FOUND, A2, U3)
    assert [(turn.number, said[turn.start : turn.end]) for turn in turns_of(said)] == [
        (1, (U1, A1)),
        (2, (U2, LOOKUP, FOUND, A2)),
        (3, (U3,)),
    ]
    assert [(turn.start, turn.end) for turn in turns_of((A1, A2))] == [(0, 2)]


def test_each_turn_is_judged_with_what_was_said_before_it() -> None:
    context = context_of(SYSTEM, U1, A1, U2, LOOKUP, FOUND, A2, U3, output_messages=(A3,))
    (one, first), (two, second), (three, third) = contexts_by_turn(context)
    assert (one, two, three) == (1, 2, 3)
    assert (first.candidate, first.prompt_inputs.question) == ("Hello!", "Hi")
    assert (first.message_history, first.output_messages) == ((SYSTEM, U1), (A1,))
    assert (second.candidate, second.prompt_inputs.question) == ("Yes, within 30 days.", "May I return it?")
    assert (second.message_history, second.output_messages) == ((SYSTEM, U1, A1, U2), (LOOKUP, FOUND, A2))
    assert second.candidate_trace_summary is not None
    assert second.candidate_trace_summary.tool_names == ("lookup",)
    assert (third.candidate, third.prompt_inputs.question) == ("That one, too.", "And the other one?")
    assert third.output_messages == context.output_messages
    assert [conversation(each)[-1] for each in (first, second, third)] == [A1, A2, A3]


def test_a_window_forgets_what_was_said_before_it() -> None:
    context = context_of(SYSTEM, U1, A1, U2, A2, U3)
    assert conversation(last_turns(context, 2)) == (U2, A2, U3, A3)
    assert last_turns(context, 2).candidate == "That one, too."
    assert conversation(last_turns(context, 1)) == (U3, A3)
    assert conversation(last_turns(context, 9)) == (SYSTEM, U1, A1, U2, A2, U3, A3)
    # Messages before the first turn belong to it.
    assert [conversation(each) for _, each in contexts_by_turn(context, 1)] == [(SYSTEM, U1, A1), (U2, A2), (U3, A3)]
    with pytest.raises(EvaluatorError, match="`window` must be at least 1, not 0"):
        last_turns(context, 0)


def test_a_recorded_answer_of_several_turns_is_split_as_well() -> None:
    context = context_of(U1, output_messages=(A1, U2, LOOKUP, FOUND, A2), answer="Yes, within 30 days.")
    first, second = (each for _, each in contexts_by_turn(context))
    assert (first.candidate, first.output_messages) == ("Hello!", (A1,))
    assert (second.candidate, second.output_messages) == ("Yes, within 30 days.", (LOOKUP, FOUND, A2))


def test_a_turn_in_which_the_assistant_says_nothing_is_not_judged() -> None:
    assert [number for number, _ in contexts_by_turn(context_of(U1, U2, A2, U3))] == [2, 3]
    with pytest.raises(EvaluatorError, match="no turn with a message of the assistant"):
        contexts_by_turn(context_of(U1, answer="", output_messages=(Message("tool", "done"),)))


def test_a_single_turn_is_the_context_itself() -> None:
    context = context_of(SYSTEM, U1)
    assert contexts_by_turn(context) == ((1, context),)
    assert last_turns(context, 1) is context


TURNS = st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), min_size=1, max_size=5)


@given(TURNS, st.integers(1, 6))
def test_windows_of_turns_hold_those_turns_and_no_other(said: list[tuple[str, str]], window: int) -> None:
    messages = [message for u, a in said for message in (Message("user", u), Message("assistant", a))]
    context = context_of(*messages[:-1], answer=said[-1][1])
    contexts = contexts_by_turn(context, window)
    assert [each.candidate for _, each in contexts] == [answer for _, answer in said]
    for number, each in contexts:
        assert list(conversation(each)) == messages[2 * max(0, number - window) : 2 * number]
