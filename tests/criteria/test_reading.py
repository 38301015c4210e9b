"""Invalid inputs and judgements are rejected with all their problems at once."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from agentv import (
    AggregatedEvaluationResult,
    EvalFileError,
    EvaluationCriteria,
    EvaluationInput,
    EvaluationRunConfig,
    Message,
    ToolCall,
    run_evaluation_sync,
)
from agentv.messages.logs.reading import LoggedAnswer, read_logged
from agentv.messages.shapes.answers import TEXT_KEYS

CONFIG = EvaluationRunConfig(evaluators=[{"type": "contains", "value": "please"}])


def record(**changes: Any) -> dict[str, Any]:
    return {**run_evaluation_sync(EvaluationInput("please"), CONFIG).to_dict(), **changes}


def test_an_input_of_the_wrong_sorts_is_refused_all_at_once() -> None:
    wrong: dict[str, Any] = {
        "criteria": ("polite", {"nam": "polite"}),
        "prompt": 3,
        "context": [1],
        "message_history": ["x", {"role": "usr", "content": "x"}],
        "timestamp": True,
    }
    with pytest.raises(EvalFileError) as caught:
        EvaluationInput(None, **wrong)  # type: ignore[call-overload]
    said = str(caught.value)
    for part in (
        "$.response  must be a string or a message, got NoneType",
        "$.criteria[0]  must be an object, but is a string",
        "$.criteria[1].nam  unknown key 'nam'",
        "$.prompt  must be a string, got int",
        "$.context  must be an object, got list",
        "$.message_history[0]  is not a message, but a text",
        "$.message_history[1]  has the unknown role 'usr'",
        "$.timestamp  must be milliseconds since 1970",
    ):
        assert part in said, f"{part!r} is not in\n{said}"


def test_messages_of_other_programs_are_read_in_the_response_and_the_history() -> None:
    request = {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Delete it."}]}
    called = {"type": "ai", "content": "", "tool_calls": [{"name": "delete", "args": {"id": 7}, "id": "c1"}]}
    given = EvaluationInput.from_dict({"response": called, "messageHistory": [request, {"role": "developer"} | SAID]})
    assert given.response == Message("assistant", "", tool_calls=(ToolCall("delete", {"id": 7}, id="c1"),))
    assert given.message_history == (Message("user", "Delete it."), Message("system", "Be brief."))
    assert EvaluationInput.from_dict(given.to_dict()) == given


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"reasoning": "r", "answer": "Paris"}, "Paris"),
        *(({key: "Paris", "other": 1}, "Paris") for key in TEXT_KEYS),
        ({"answer": "Paris", "text": "Paris"}, "Paris"),
        ({"answer": 5}, "5"),
        ({"answer": False}, "false"),
        ({"answer": {"city": "Paris"}}, '{"city":"Paris"}'),
        ({"answer": {"text": "Paris", "language": "fr"}}, "Paris"),
        ({"message": {"content": "Paris"}}, "Paris"),
        ({"output": [{"type": "output_text", "text": "Paris"}]}, "Paris"),
        ({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "Paris"}]}, "Paris"),
        ({"text": "", "output_messages": [{"role": "assistant", "content": "Paris"}]}, "Paris"),
        ({"choices": [{"message": {"role": "assistant", "content": "Paris"}}]}, "Paris"),
        ({"content": None, "answer": "Paris"}, "Paris"),
        ({"answer": ""}, ""),
    ],
)
def test_an_object_is_read_by_the_key_of_its_answer(response: dict[str, Any], text: str) -> None:
    assert EvaluationInput.from_dict({"response": response}).text == text
    assert EvaluationInput(response).text == text
    logged = read_logged({"id": "a", "prompt": "q", "response": response})
    assert isinstance(logged, LoggedAnswer)
    assert logged.given.text == text


def test_calls_beside_an_answer_are_kept() -> None:
    given = EvaluationInput.from_dict({"response": {"answer": "Paris", "tool_calls": [{"tool": "find", "input": {}}]}})
    assert given.response == Message("assistant", "Paris", tool_calls=(ToolCall("find", {}),))


FIND: list[Any] = [{"tool": "find", "input": {}}]
CALLS: list[Any] = [{"role": "assistant", "tool_calls": FIND}]
SAYS: list[Any] = [{"role": "assistant", "content": "Paris"}]


@pytest.mark.parametrize(
    "response",
    [
        {"text": "", "output_messages": [*CALLS, *SAYS]},
        {"text": "Paris", "output_messages": [*CALLS, *SAYS]},
        {"answer": "Paris", "messages": [*CALLS, *SAYS]},
        {"text": "Paris", "output_messages": CALLS},
        {"text": "", "output_messages": SAYS, "tool_calls": FIND},
        {"text": "Paris", "output_messages": [*CALLS, *SAYS], "tool_calls": FIND},
    ],
)
def test_an_answer_has_the_tool_calls_of_messages_next_to_its_text(response: dict[str, Any]) -> None:
    given = EvaluationInput.from_dict({"response": response})
    assert given.response == Message("assistant", "Paris", tool_calls=(ToolCall("find", {}),))


def test_a_logged_object_without_an_answer_is_one_problem_with_its_keys_and_the_option() -> None:
    with pytest.raises(EvalFileError) as caught:
        read_logged({"id": "a", "prompt": "q", "response": {"city": "Paris", "at": 1}})
    (problem,) = caught.value.problems
    assert problem.message == "holds no answer; its keys: 'city', 'at'"
    assert "--map response=response.KEY" in str(caught.value)
    logged = read_logged({"id": "a", "response": {"city": "Paris"}}, paths={"response": "response.city"})
    assert isinstance(logged, LoggedAnswer)
    assert logged.given.text == "Paris"


SAID = {"content": "Be brief."}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"response": {"role": "assistant", "text": "hi"}}, "$.response  has no content, and its 'text' is not "),
        (
            {"response": {"role": "assistant", "reasoning": "r", "answer": "hi"}},
            "has no content, and its 'answer' is not",
        ),
        (
            {"response": {"city": "hi", "at": 1}},
            "$.response  holds no answer; its keys: 'city', 'at'; write the answer",
        ),
        ({"response": {"reasoning": "r"}}, "$.response  holds no answer; its keys: 'reasoning'"),
        ({"response": {"text": "a", "answer": "b"}}, "has several answers that differ, under 'answer' and 'text'"),
        ({"response": {"text": "", "answer": "b"}}, "has several answers that differ, under 'answer' and 'text'"),
        (
            {"response": {"messages": [{"role": "user", "content": "hi"}]}},
            "$.response.messages  has no message of the ",
        ),
        ({"response": {}}, "$.response  holds no answer; its keys: none"),
        ({"response": {"content": [{"type": "hum"}]}}, "$.response.content[0]  has the unknown type 'hum'"),
        ({"response": ["hi"]}, "$.response  must be a string or a message, got list"),
        ({"response": "x", "message_history": [SAID]}, "$.message_history[0]  has no role; its keys: 'content'; write"),
        ({"response": "x", "message_history": ["hi"]}, "$.message_history[0]  is not a message, but a text; write"),
    ],
)
def test_messages_that_are_not_understood_are_problems_with_their_place(given: dict[str, Any], said: str) -> None:
    with pytest.raises(EvalFileError) as caught:
        EvaluationInput.from_dict(given)
    assert said in str(caught.value)


@pytest.mark.parametrize("moment", [datetime(2026, 1, 1), "2026-01-01T00:00:00Z", "2026-01-01", 1_767_225_600_000])  # noqa: DTZ001 - it is read as UTC
def test_a_moment_always_has_a_time_zone(moment: Any) -> None:
    assert EvaluationInput("x", timestamp=moment).timestamp == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("moment", [10**400, float("nan"), float("inf"), -1e300, "soon"])
def test_what_is_no_moment_is_refused(moment: Any) -> None:
    with pytest.raises(EvalFileError, match=r"\$.timestamp"):
        EvaluationInput.from_dict({"response": "x", "timestamp": moment})


def test_a_judgement_with_fields_of_the_wrong_sort_is_refused_all_at_once() -> None:
    with pytest.raises(EvalFileError) as caught:
        AggregatedEvaluationResult.from_dict(
            record(overallScore="high", scored=float("nan"), expected=1.5, agentId=5, metadata=[1], inputSnapshot={})
        )
    said = str(caught.value)
    for part in (
        "overall_score",
        "scored",
        "expected",
        "agent_id",
        "metadata",
        "input_snapshot  the answer, `response`, is missing",
    ):
        assert f"$.{part}" in said, f"{part!r} is not in\n{said}"


def test_a_judgement_of_a_later_version_is_read() -> None:
    later = record(newKey=1)
    later["results"][0]["newKey"] = 1
    later["inputSnapshot"]["newKey"] = 1
    later["inputSnapshot"]["criteria"] = [{"name": "polite", "newKey": 1, "weight": 2}]
    read = AggregatedEvaluationResult.from_dict(later)
    assert read.input_snapshot.criteria == (EvaluationCriteria("polite", weight=2),)
    without = replace(read, input_snapshot=replace(read.input_snapshot, criteria=()))
    assert without.to_dict() == record(timestamp=later["timestamp"], durationMs=later["durationMs"])


@pytest.mark.parametrize("criterion", [{}, {"name": "x", "weight": "heavy"}, 3])
def test_a_criterion_of_a_stored_judgement_that_cannot_be_one_is_refused_with_its_place(criterion: object) -> None:
    broken = record()
    broken["inputSnapshot"]["criteria"] = [criterion]
    with pytest.raises(EvalFileError, match=r"input_snapshot\.criteria\[0\]"):
        AggregatedEvaluationResult.from_dict(broken)


def test_the_names_of_other_tools_lead_to_ours() -> None:
    with pytest.raises(EvalFileError) as caught:
        EvaluationInput.from_dict({"input": "q", "actualOutput": "a", "expected_output": "e", "timestamp": "yesterday"})
    said = str(caught.value)
    assert said.count("allowed: response") == 1
    for key, ours in (("input", "prompt"), ("actualOutput", "response"), ("expected_output", "ground_truth")):
        assert f"unknown key {key!r}" in said
        assert f"did you mean {ours!r}?" in said
    assert "a time such as 2026-01-31T12:00:00Z" in said
