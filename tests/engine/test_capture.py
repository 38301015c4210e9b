import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.engine.capture import Cleaner, Redactor
from agentv.messages.shapes.objects import MAX_LEVELS, TOO_DEEP
from agentv.templating.secrets import REDACTED
from agentv.types.errors import ConfigError
from agentv.types.failures import Failure
from agentv.types.messages import Message, ToolCall
from agentv.types.provider import ProviderResponse


def test_secret_is_redacted_in_every_text_of_an_answer() -> None:
    response = ProviderResponse(
        text="key sk-12345678!",
        output_messages=(Message("assistant", tool_calls=(ToolCall("call", {"auth": "sk-12345678"}),)),),
        request={"headers": ["Bearer sk-12345678"]},
    )
    assert "sk-12345678" not in repr(Cleaner(Redactor(["sk-12345678"])).clean(response))


def test_secret_is_redacted_in_an_error() -> None:
    failure = Failure("auth", "refused sk-12345678", details={"body": "sk-12345678"})
    assert "sk-12345678" not in repr(Cleaner(Redactor(["sk-12345678"])).clean(failure))


def test_the_longer_of_two_secrets_leaves_no_tail() -> None:
    assert Redactor(["abcdefgh", "abcdefgh-tail"]).text("abcdefgh-tail") == "***"


def test_pattern_of_the_project_redacts_its_matches() -> None:
    assert Redactor(patterns=[r"\b\d{4}-\d{4}\b"]).text("card 1234-5678.") == "card ***."


def test_lone_surrogate_is_replaced_and_reported() -> None:
    cleaner = Cleaner(Redactor())
    assert cleaner.text("a\ud800b") == "a\ufffdb"
    assert cleaner.repaired


def test_what_is_cleaned_next_is_not_called_repaired() -> None:
    cleaner = Cleaner(Redactor())
    cleaner.clean_all("a\ud800b", {})
    assert cleaner.repaired
    cleaner.clean_all("ab", {})
    assert not cleaner.repaired


def test_two_halves_that_belong_together_become_their_character() -> None:
    assert Cleaner(Redactor()).text("\ud83d\ude00") == "\U0001f600"


@given(st.text(st.characters(codec=None)))
def test_clean_text_can_always_be_written(text: str) -> None:
    Cleaner(Redactor()).text(text).encode()


@given(st.text(st.characters(codec="utf-8")))
def test_good_text_is_left_as_it_is(text: str) -> None:
    cleaner = Cleaner(Redactor())
    assert cleaner.text(text) == text
    assert not cleaner.repaired


def test_invalid_pattern_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"redact: '\(' is not a valid regular expression"):
        Redactor(patterns=["("])


def test_a_pattern_with_flags_of_its_own_stands_beside_others() -> None:
    assert Redactor(patterns=["(?i)hello", "x"]).text("HELLO xy") == "*** ***y"


def test_pattern_with_too_many_repeats_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"redact: 'a\{99999999\}' is too large: it requires at least 99,999,999"):
        Redactor(patterns=["a{99999999}"])


@pytest.mark.parametrize(("pattern", "text"), [(r"(a|aa)+$", "a" * 5000 + "b"), ("(?R)", "a")])
def test_text_that_takes_a_pattern_too_much_time_or_memory_is_redacted_whole(pattern: str, text: str) -> None:
    assert Redactor(patterns=[pattern]).text(text) == REDACTED


def test_numbers_that_are_not_finite_are_left_out() -> None:
    assert Cleaner(Redactor()).clean({"a": [float("nan"), 1.5], "b": float("inf")}) == {"a": [None, 1.5], "b": None}


def test_what_is_nested_deeper_than_anything_reads_is_cut_off() -> None:
    value: object = "bottom"
    for _ in range(5000):
        value = {"deeper": value}
    cleaned = Cleaner(Redactor()).clean(value)
    depth = 0
    while isinstance(cleaned, dict):
        cleaned, depth = cleaned["deeper"], depth + 1
    assert (cleaned, depth) == (TOO_DEEP, MAX_LEVELS)


def test_keys_that_are_no_texts_become_texts() -> None:
    assert Cleaner(Redactor()).clean({1: "x", None: "y"}) == {"1": "x", "None": "y"}


def test_what_needs_no_cleaning_is_not_copied() -> None:
    value = {"a": ("b", [1, 2.5, True]), "c": ProviderResponse("x", request={"q": 1})}
    assert Cleaner(Redactor(["secret-value"])).clean(value) is value


def test_a_long_list_is_not_deep_and_a_secret_in_it_is_found() -> None:
    many = [{"step": number, "said": "ok"} for number in range(500)]
    assert Cleaner(Redactor(["hunter2"])).clean(many) is not None
    assert Cleaner(Redactor(["hunter2"])).clean([*many, {"said": "my hunter2"}])[-1] == {"said": f"my {REDACTED}"}


@given(st.recursive(st.floats() | st.text() | st.integers() | st.none(), lambda parts: st.lists(parts, max_size=4)))
def test_whatever_is_cleaned_can_be_written_and_is_finite(value: object) -> None:
    cleaned = Cleaner(Redactor()).clean(value)
    json.dumps(cleaned, allow_nan=False).encode()
    assert Cleaner(Redactor()).clean(cleaned) == cleaned
