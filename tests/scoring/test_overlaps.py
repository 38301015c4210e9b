import time

from hypothesis import given
from hypothesis import strategies as st
from tests.support.judging import CASE, make_context

from agentv.scoring.results.conversations import contexts_by_turn, conversation
from agentv.scoring.text.overlaps import overlap
from agentv.scoring.tools.recorded_calls import recorded_messages
from agentv.types.messages import Message


@given(st.text(alphabet="ab"), st.text(alphabet="ab"))
def test_it_is_the_longest_end_that_is_a_beginning(earlier: str, later: str) -> None:
    shared = [n for n in range(len(earlier) + 1) if earlier[len(earlier) - n :] == later[:n]]
    assert overlap(earlier, later) == max(shared)


def test_the_record_of_a_long_answer_is_read_at_once() -> None:
    steps = tuple(Message("assistant", "the same step") for _ in range(4000))
    context = make_context("done", message_history=(*CASE.input_messages, *steps[1:]), output_messages=steps)
    started = time.process_time()
    assert len(conversation(context)) == 4002
    assert len(contexts_by_turn(context)) == 1
    assert len(recorded_messages(context)) == 4001
    assert time.process_time() - started < 3
