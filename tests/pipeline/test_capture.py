from hypothesis import given
from hypothesis import strategies as st

from agentv.pipeline.capture import Cleaner
from agentv.types.failures import Failure
from agentv.types.messages import Message, ToolCall
from agentv.types.provider import ProviderResponse


def test_a_secret_is_struck_from_every_text_of_an_answer() -> None:
    response = ProviderResponse(
        text="key sk-12345678!",
        output_messages=(Message("assistant", tool_calls=(ToolCall("call", {"auth": "sk-12345678"}),)),),
        request={"headers": ["Bearer sk-12345678"]},
    )
    assert "sk-12345678" not in repr(Cleaner(["sk-12345678"]).response(response))


def test_a_secret_is_struck_from_an_error_too() -> None:
    failure = Failure("auth", "refused sk-12345678", details={"body": "sk-12345678"})
    assert "sk-12345678" not in repr(Cleaner(["sk-12345678"]).failure(failure))


def test_the_longer_of_two_secrets_leaves_no_tail() -> None:
    assert Cleaner(["abcdefgh", "abcdefgh-tail"]).text("abcdefgh-tail") == "***"


def test_a_pattern_of_the_project_strikes_what_it_matches() -> None:
    assert Cleaner(patterns=[r"\b\d{4}-\d{4}\b"]).text("card 1234-5678.") == "card ***."


def test_a_lone_surrogate_becomes_the_replacement_character_and_is_told() -> None:
    cleaner = Cleaner()
    assert cleaner.text("a\ud800b") == "a\ufffdb"
    assert cleaner.repaired


def test_two_halves_that_belong_together_become_their_character() -> None:
    assert Cleaner().text("\ud83d\ude00") == "\U0001f600"


@given(st.text(st.characters(codec=None)))
def test_clean_text_can_always_be_written(text: str) -> None:
    Cleaner().text(text).encode()


@given(st.text(st.characters(codec="utf-8")))
def test_good_text_is_left_as_it_is(text: str) -> None:
    cleaner = Cleaner()
    assert cleaner.text(text) == text
    assert not cleaner.repaired
