"""The ends of conversations that later calls continue: which is found, and how many are remembered."""

import pytest

from agentv.telemetry.joining.history import End, OpenEnds
from agentv.types.messages import Message, ToolCall

SECOND = 10**9
QUESTION, ANSWER, MORE = Message("user", "ping"), Message("assistant", "pong"), Message("user", "again")
ASKS, RESULT = Message("assistant", None, tool_calls=(ToolCall("find", id="c1"),)), Message("tool", "here")


def test_the_newest_end_before_the_call_is_continued_and_taken_away() -> None:
    ends = OpenEnds()
    for moment in (3, 1, 2, 9):
        ends.add("", (QUESTION, ANSWER), End(moment * SECOND, f"at {moment}", session=f"of {moment}"))
    found = [ends.find("", (QUESTION, ANSWER, MORE), 5 * SECOND) for _ in range(4)]
    assert [link and (link.end.name, link.end.session, link.length) for link in found] == [
        ("at 3", "of 3", 2),
        ("at 2", "of 2", 2),
        ("at 1", "of 1", 2),
        None,
    ]
    assert ends.ambiguous == 2


@pytest.mark.parametrize(
    ("ended", "continuing"),
    [((QUESTION, ANSWER), (QUESTION, ANSWER, MORE)), ((QUESTION, ASKS), (QUESTION, RESULT))],
    ids=["by messages", "by results of tools"],
)
def test_the_newest_thousand_of_equal_ends_are_remembered(
    ended: tuple[Message, ...], continuing: tuple[Message, ...]
) -> None:
    ends = OpenEnds()
    for number in range(1_100):
        ends.add("", ended, End(number, f"{number}"), given=ended[:1])
    found = [ends.find("", continuing, 2_000) for _ in range(1_001)]
    assert [link.end.name for link in found if link is not None] == [f"{number}" for number in range(1_099, 99, -1)]
    assert found[-1] is None
