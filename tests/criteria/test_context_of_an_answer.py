"""Identity and context of an input: who answered, when, and what it took."""

import pytest

from agentv import EvaluationInput
from agentv.types.errors import EvalFileError
from agentv.types.usage import Usage


def test_an_input_keeps_what_is_known_of_the_call() -> None:
    given = EvaluationInput.from_dict(
        {
            "response": "Yes.",
            "id": "q-1",
            "target": "shop",
            "model": "m-1",
            "durationMs": 812,
            "usage": {"prompt_tokens": 31, "completion_tokens": 14},
            "costUsd": 0.002,
            "tags": ["refund"],
        }
    )
    assert (given.target, given.model, given.duration_ms, given.cost_usd) == ("shop", "m-1", 812, 0.002)
    assert given.usage == Usage(input=31, output=14, total=45)
    assert given.tags == ("refund",)
    assert EvaluationInput.from_dict(given.to_dict()) == given


def test_the_new_fields_are_keywords_and_the_old_ones_keep_their_places() -> None:
    assert EvaluationInput("a", (), "q").prompt == "q"
    with pytest.raises(TypeError, match="positional"):
        EvaluationInput("a", (), "q", {}, None, None, (), None, None, None, {}, "id", "target")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("name", "value"),
    [("duration_ms", -1), ("cost_usd", float("nan")), ("usage", {"words": 1}), ("tags", [1]), ("model", 4)],
)
def test_a_wrong_value_is_refused_with_its_place(name: str, value: object) -> None:
    with pytest.raises(EvalFileError, match=name):
        EvaluationInput("a", **{name: value})  # type: ignore[call-overload]
