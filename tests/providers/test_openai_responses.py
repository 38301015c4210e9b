import json

import pytest

from agentv.providers.apis.dialogue import Turn, parse_turn
from agentv.providers.apis.http import HttpResponse
from agentv.providers.apis.openai import OpenAISettings, make_dialogue
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ToolCall
from agentv.types.provider import ProviderError
from agentv.types.usage import Usage

DIALOGUE = make_dialogue(OpenAISettings(model="m", api_key="k", api="responses"))


def said(*texts: str) -> JsonObject:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text} for text in texts],
    }


def parse(value: JsonValue) -> Turn:
    return parse_turn(DIALOGUE, HttpResponse(200, {}, json.dumps(value).encode()))


def failure_in(value: JsonValue) -> Failure:
    with pytest.raises(ProviderError) as raised:
        parse(value)
    return raised.value.failure


def test_a_response_is_parsed_completely() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "lookup", "arguments": '{"order": 7}'}
    thought: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": []}
    turn = parse(
        {
            "id": "resp_1",
            "status": "completed",
            "model": "m-dated",
            "output": [thought, said("One ", "moment."), call],
            "usage": {
                "input_tokens": 100,
                "output_tokens": 40,
                "total_tokens": 140,
                "input_tokens_details": {"cached_tokens": 60},
                "output_tokens_details": {"reasoning_tokens": 30},
            },
        }
    )

    assert turn.text == "One moment."
    assert turn.tool_calls == (ToolCall("lookup", {"order": 7}, id="call_1"),)
    assert turn.items == (thought, said("One ", "moment."), call)
    assert (turn.finish_reason, turn.is_cut, turn.request_id, turn.model) == ("completed", False, "resp_1", "m-dated")
    assert turn.usage == Usage(input=100, output=40, cached_input=60, reasoning=30, total=140, requests=1)


def test_a_refusal_of_the_model_is_what_it_said() -> None:
    refusal: JsonObject = {"type": "message", "content": [{"type": "refusal", "refusal": "I cannot."}]}

    assert parse({"output": [refusal]}).text == "I cannot."


def test_a_reply_that_was_cut_off_says_so() -> None:
    turn = parse({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []})

    assert (turn.text, turn.finish_reason, turn.is_cut) == ("", "max_output_tokens", True)


def test_a_filtered_reply_is_none() -> None:
    value: JsonValue = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []}

    assert failure_in(value).kind == "content_filter"


@pytest.mark.parametrize(
    ("error", "kind", "retryable", "message"),
    [
        ({"code": "server_error", "message": "broke"}, "server_error", True, "the response failed: broke"),
        ({"code": "rate_limit_exceeded"}, "rate_limited", True, "the response failed: rate_limit_exceeded"),
        ({"code": "invalid_image", "message": "no"}, "bad_request", False, "the response failed: no"),
        ({"code": "image_content_policy_violation"}, "content_filter", False, "the response failed: image_content"),
        (None, "bad_request", False, "the response failed: no reason given"),
    ],
)
def test_a_failure_in_a_good_status_is_a_failure(error: JsonValue, kind: str, *, retryable: bool, message: str) -> None:
    failure = failure_in({"status": "failed", "error": error, "output": []})

    assert (failure.kind, failure.retryable) == (kind, retryable)
    assert failure.message.startswith(message)


@pytest.mark.parametrize(
    "output",
    [None, {}, "text", [None], [{"type": 4}], [{}], [{"type": "message", "content": [{"type": "output_text"}]}]],
)
def test_output_of_another_shape_is_no_reply(output: JsonValue) -> None:
    failure = failure_in({"id": "resp_1", "output": output})

    assert failure.kind == "unexpected_shape"
    assert failure.message.startswith("the response has no list of output items: ")
