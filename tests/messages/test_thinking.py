"""What a model thought stands apart from what it answered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agentv.messages.shapes.thinking import reasoning_of
from agentv.types.messages import DataPart, FilePart, Message, TextPart
from agentv.types.messages_json import content_text
from agentv.types.provider import ProviderResponse
from agentv.types.thinking import split_thinking


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("<think>2 + 2</think>\n\n4", "4", "2 + 2"),
        ("\n<thinking>\n2 + 2\n</thinking>4\n", "4\n", "2 + 2"),
        ("<think></think>4", "4", None),
        ("<think>cut off", "", "cut off"),
        ("4", "4", None),
        ("Write <think>x</think>.", "Write <think>x</think>.", None),
        ("<thinker>4", "<thinker>4", None),
    ],
)
def test_thoughts_at_the_start_of_a_text_are_not_its_answer(text: str, answer: str, reasoning: str | None) -> None:
    assert split_thinking(text) == (answer, reasoning)


@given(st.text())
def test_a_text_without_thoughts_is_unchanged(text: str) -> None:
    if "<think" not in text:
        assert split_thinking(text) == (text, None)


def test_reasoning_of_the_last_answer_is_found_in_its_parts() -> None:
    first = Message("assistant", (DataPart("thinking", {"thinking": "early"}),))
    last = Message("assistant", (DataPart("reasoning", {"text": "a"}), DataPart("thinking", {"thinking": "b"})))
    assert reasoning_of((first, last, Message("user", "x"))) == "a\nb"
    assert reasoning_of((first, Message("assistant", "4"))) is None


def test_text_parts_are_joined_as_they_are_and_files_stand_on_their_own() -> None:
    file = FilePart("a.txt", "/a.txt", "file", "0", 4, "text/plain")
    assert content_text((TextPart("The cap"), TextPart("ital: "), file, TextPart("Paris"))) == (
        "The capital: \nfile\nParis"
    )


@pytest.mark.parametrize(("said", "text"), [("<think>hm</think>", ""), ("<think>hm</think>Paris", "Paris")])
def test_thoughts_in_messages_never_become_the_answer(said: str, text: str) -> None:
    response = ProviderResponse("", output_messages=(Message("assistant", said),))
    assert (response.text, replace(response, reasoning="hm").text) == (text, text)
