"""What lists show of a stored case."""

from msgspec.structs import replace
from tests.support.stored import CASE

from agentv.types.messages import Message


def test_last_question_of_a_case_is_its_last_message_of_the_user() -> None:
    messages = (
        Message("system", "Be brief."),
        Message("user", "Hi"),
        Message("assistant", "?"),
        Message("user", "Why?"),
    )
    assert replace(CASE, question="@[System]:\nBe brief. …", input_messages=messages).last_question == "Why?"


def test_last_question_of_a_case_without_text_of_the_user_is_the_whole_request() -> None:
    messages = (Message("system", "Go."), Message("user", " "))
    assert replace(CASE, question="@[System]:\nGo.", input_messages=messages).last_question == "@[System]:\nGo."


def test_last_question_of_a_case_with_one_message_is_its_question_with_its_files() -> None:
    question = 'What is this?\n<file: path="./photo.png">'
    assert replace(CASE, question=question).last_question == question
