import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.test_model_faults import KINDS
from tests.support.asking import ask, failure_of, make_request, make_target, with_provider
from tests.support.fake_server import serving_fake
from tests.support.loopback import Answer, Server, endless, hang_up, never_answer, reply, serving

from agentv.loading.models.settings import read_settings
from agentv.providers import PROVIDERS
from agentv.providers.healthchecks import CommandHealthcheck, HttpHealthcheck
from agentv.providers.local.http_provider import HttpSettings
from agentv.providers.local.http_template import parse_body, parse_url
from agentv.types.errors import EvalFileError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ChatMessage, Message, ToolCall
from agentv.types.provider import CheckedProvider, Provider, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

BODY: JsonObject = {"question": "{{ question }}"}
JSON = {"Content-Type": "application/json"}


def target_at(server: Server, path: str = "", **settings: Any) -> ResolvedTarget:
    return make_target("http", HttpSettings(f"{server.url}{path}", **{"body": BODY, **settings}))


def sent_with(request: ProviderRequest, path: str = "", **settings: Any) -> tuple[str, bytes, dict[str, str]]:
    """The request line, body and headers that a service gets."""
    with serving(reply("ok")) as server:
        ask(target_at(server, path, **settings), request)
    (received,) = server.requests
    return received.line, received.body, dict(received.headers)


def answered(body: JsonValue | bytes, **settings: Any) -> ProviderResponse:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with serving(reply(content, headers=JSON)) as server:
        return ask(target_at(server, **settings))


def failed(answer: Answer, **settings: Any) -> Failure:
    with serving(answer) as server:
        return failure_of(target_at(server, **settings), make_request(timeout_s=1.0))


def refusal(**settings: JsonValue) -> str:
    with pytest.raises(EvalFileError) as raised:
        read_settings(PROVIDERS.get("http"), {"url": "http://h/", "body": dict(BODY), **settings}, where="here")
    return str(raised.value)


# --- requests ---------------------------------------------------------------------------------------------------


def test_a_case_is_one_post_of_json() -> None:
    line, body, headers = sent_with(make_request("Where is it?"), "/ask", headers={"X-Key": "k"})
    assert line == "POST /ask HTTP/1.1"
    assert json.loads(body) == {"question": "Where is it?"}
    assert (headers["content-type"], headers["x-key"]) == ("application/json", "k")


def test_every_variable_has_its_value_with_its_type() -> None:
    request = make_request(
        "Q", guidelines="G", input_files=("/a", "/b"), attempt=2, trial=1, metadata={"user": {"id": 7}}
    )
    body: JsonValue = {
        "q": "{{ question }} / {{guidelines}} / {{ attempt }}",
        "all": ["{{ input_files }}", "{{ attempt }}", "{{ trial }}", "{{ eval_case_id }}", "{{ system_prompt }}"],
        "user": "{{ metadata.user }}",
        "fixed": [1, None, True, 0.5],
    }
    assert json.loads(sent_with(request, body=body)[1]) == {
        "q": "Q / G / 2",
        "all": [["/a", "/b"], 2, 1, "case-1", None],
        "user": {"id": 7},
        "fixed": [1, None, True, 0.5],
    }


def test_a_body_may_be_json_as_text_with_bare_and_quoted_variables() -> None:
    body = '{"q": "Question: {{ question }}", "n": {{ attempt }}, "as_text": "{{ attempt }}", "meta": {{ metadata }}}'
    request = make_request('say "hi"', attempt=3, metadata={"a": "{{ question }}"})
    assert json.loads(sent_with(request, body=body)[1]) == {
        "q": 'Question: say "hi"',
        "n": 3,
        "as_text": "3",
        "meta": {"a": "{{ question }}"},
    }


def test_the_chat_prompt_is_a_list_of_messages_for_every_case() -> None:
    plain = make_request("Q", system_prompt="S", guidelines="G")
    marked = make_request("Q", chat_prompt=(ChatMessage("system", "G"), ChatMessage("user", "Hello")))
    body: JsonValue = {"messages": "{{ chat_prompt }}"}
    assert json.loads(sent_with(plain, body=body)[1])["messages"] == [
        {"role": "system", "content": "S\n\n[[ ## Guidelines ## ]]\n\nG"},
        {"role": "user", "content": "Q"},
    ]
    assert json.loads(sent_with(marked, body=body)[1])["messages"] == [
        {"role": "system", "content": "G"},
        {"role": "user", "content": "Hello"},
    ]


texts = st.text(st.characters(exclude_categories=["Cs"]))
TEMPLATES: tuple[JsonValue, ...] = (
    {"q": "{{ question }}"},
    {"q": "a {{ question }} b"},
    '{"q": "{{ question }}"}',
    '{"q": {{ question }}}',
)


@pytest.mark.parametrize("template", TEMPLATES, ids=str)
@given(value=texts | st.sampled_from(['", "x": "', '"}', "\\", "{{ attempt }}", "\ue0000"]))
def test_no_value_breaks_out_of_its_string(template: JsonValue, value: str) -> None:
    values: dict[str, JsonValue] = {"question": value, "attempt": 1}
    filled = json.loads(parse_body(template, "application/json").fill(values.__getitem__))
    assert filled in ({"q": value}, {"q": f"a {value} b"})


@given(value=texts.filter(lambda text: text not in ("", ".", "..")))
def test_no_value_leads_to_another_place(value: str) -> None:
    filled = parse_url("http://h/cases/{{ question }}/x?q={{ question }}").fill(lambda _: value)
    assert filled.startswith("http://h/cases/")
    assert filled.count("/") == 5
    assert filled.count("?") == 1
    assert not set(filled) & set("&#@ ;\n")


def test_a_question_may_stand_in_the_url() -> None:
    line, body, headers = sent_with(make_request("a&b=c ü+"), "/ask?q={{ question }}", method="GET", body=None)
    assert line == "GET /ask?q=a%26b%3Dc%20%C3%BC%2B HTTP/1.1"
    assert body == b""
    assert "content-type" not in headers


@pytest.mark.parametrize("value", [".", ".."])
def test_a_value_that_would_climb_up_the_path_is_refused(value: str) -> None:
    with serving(reply("ok")) as server:
        failure = failure_of(target_at(server, "/cases/{{ question }}", body=None), make_request(value))
    assert failure.kind == "bad_request"
    assert server.requests == []


def test_a_form_and_plain_text_are_sent_as_their_header_says() -> None:
    form = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
    assert sent_with(make_request("a&b=c"), headers=form, body="q={{ question }}&n=1")[1] == b"q=a%26b%3Dc&n=1"
    assert sent_with(make_request('"x"'), headers={"Content-Type": "text/plain"}, body="{{ question }}!")[1] == b'"x"!'


def test_a_value_that_a_case_does_not_have_is_a_bad_request() -> None:
    with serving(reply("ok")) as server:
        failure = failure_of(target_at(server, body={"u": "{{ metadata.user }}"}))
    assert (failure.kind, failure.message) == (
        "bad_request",
        "the request needs metadata.user, which is missing from this case",
    )
    assert server.requests == []


# --- responses --------------------------------------------------------------------------------------------------


def test_the_answer_stands_where_the_path_leads() -> None:
    reply_body: JsonValue = {
        "output": [{"type": "reasoning"}, {"type": "message", "content": [{"text": "It"}, {"text": "is."}]}]
    }
    path = "$.output[?@.type == 'message'].content[*].text"
    assert answered(reply_body, response=path).text == "It\nis."
    assert answered({"a": {"n": 1}}, response="$.a").text == '{"n":1}'


def test_usage_and_cost_stand_where_their_paths_lead() -> None:
    spent: JsonValue = {"a": "x", "usage": {"prompt_tokens": 3, "completion_tokens": 4, "cost": 0.5}}
    found = answered(spent, response="$.a", usage="$.usage", cost="$.usage.cost")
    assert (found.text, found.usage, found.cost_usd, found.notes) == ("x", Usage(input=3, output=4, total=7), 0.5, ())
    assert answered({"text": "x", "cost": 0.25}, cost="$.cost").cost_usd == 0.25


def test_usage_and_cost_that_are_missing_are_unknown_and_noted() -> None:
    found = answered({"a": "x", "usage": "7", "cost": -1}, response="$.a", usage="$.usage", cost="$.price")
    assert (found.text, found.usage, found.cost_usd) == ("x", None, None)
    assert found.notes == (
        "usage: the response has no token counts at $.usage",
        "cost: the response has no amount in dollars at $.price",
    )


def test_messages_stand_where_their_path_leads_and_hold_tool_calls() -> None:
    steps: JsonValue = [
        {"role": "assistant", "tool_calls": [{"tool": "lookup", "input": {"id": 7}, "output": "found"}]},
        {"role": "assistant", "content": "Found it."},
    ]
    messages = (
        Message("assistant", tool_calls=(ToolCall("lookup", {"id": 7}, "found"),)),
        Message("assistant", "Found it."),
    )
    for path in ("$.steps", "$.steps[*]"):
        response = answered({"steps": steps, "answer": "Short."}, output_messages=path)
        assert (response.text, response.output_messages) == ("Found it.", messages)
    both = answered({"steps": steps, "answer": "Short."}, output_messages="$.steps", response="$.answer")
    assert (both.text, both.output_messages) == ("Short.", messages)
    assert answered({"steps": [], "answer": "x"}, output_messages="$.steps", response="$.answer").output_messages == ()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"text": "Hello."}, "Hello."),
        ({"output_messages": [{"role": "assistant", "content": "Hello."}]}, "Hello."),
        ({"reasoning": "r", "answer": "Hello."}, "Hello."),
        ({"result": {"text": "Hello."}}, "Hello."),
        ("Hello.", "Hello."),
        ([1], "[1]"),
    ],
)
def test_without_paths_a_reply_is_read_by_its_keys(body: JsonValue, text: str) -> None:
    assert answered(body).text == text


@pytest.mark.parametrize("body", [{"other": 1}, {"error": "no quota"}, {"answer": "a", "output": "b"}])
def test_without_paths_an_object_without_a_clear_answer_is_refused_with_its_keys(body: dict[str, JsonValue]) -> None:
    with pytest.raises(ProviderError) as raised:
        answered(body)
    failure = raised.value.failure
    assert failure.kind == "unexpected_shape"
    assert f"its keys: {', '.join(map(repr, body))}; name the answer with `response: $.KEY`" in failure.message
    assert json.loads(answered(body, response="$").text) == body


def test_a_byte_order_mark_before_json_does_not_matter() -> None:
    assert answered(b'\xef\xbb\xbf{"answer": "Hello."}', response="$.answer").text == "Hello."


def test_a_plain_text_reply_is_the_answer() -> None:
    with serving(reply("Hello: {not json\n", headers={"Content-Type": "text/plain", "X-Request-Id": "r1"})) as server:
        response = ask(target_at(server))
    assert (response.text, response.request_id) == ("Hello: {not json", "r1")


GZIP_BOMB = bytes.fromhex("1f8b08000000000002ff") + b"\0" * 20

FAULTS = {
    "no answer": (never_answer, "deadline"),
    "hang up": (hang_up, "transport"),
    "drip": (endless(b" ", head="Content-Length: 1000\r\n", pause_s=0.3), "deadline"),
    "429": (reply("", status="429 Too Many", headers={"Retry-After": "7"}), "rate_limited"),
    "503": (reply("", status="503 Busy"), "server_error"),
    "401": (reply("", status="401 No"), "auth"),
    "422": (reply("", status="422 No"), "bad_request"),
    "redirect": (reply("", status="302 Found", headers={"Location": "http://elsewhere/"}), "transport"),
    "truncated": (reply('{"answer": "x', headers=JSON), "malformed_reply"),
    "cut off": (reply('{"answer"', headers=JSON, length=100), "transport"),
    "empty": (reply("", headers=JSON), "malformed_reply"),
    "null": (reply("null", headers=JSON), "unexpected_shape"),
    "wrong type": (reply('"x"', headers=JSON), "unexpected_shape"),
    "missing": (reply('{"other": 1}', headers=JSON), "unexpected_shape"),
    "null answer": (reply('{"answer": null}', headers=JSON), "unexpected_shape"),
    "no UTF-8": (reply(b'{"answer": "\xff"}', headers=JSON), "malformed_reply"),
    "nested": (reply("[" * 100_000, headers=JSON), "malformed_reply"),
    "bad gzip": (reply(GZIP_BOMB, headers={**JSON, "Content-Encoding": "gzip"}), "malformed_reply"),
    "huge": (endless(b" " * 2**20, head="X: y\r\n"), "too_large"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_of_a_service_has_its_kind(fault: str) -> None:
    answer, kind = FAULTS[fault]
    failure = failed(answer, response="$.answer")
    assert failure.kind == kind
    assert failure.message


UNSEEN = ("content-filter", "blocked-prompt", "wrong-leaves")  # what only a client of the specific API can recognize


@pytest.mark.parametrize("fault", [fault for fault in KINDS if fault not in UNSEEN])
def test_a_faulty_model_server_ends_as_it_does_for_who_knows_its_api(fault: str) -> None:
    timeout_s = 0.5 if KINDS[fault] == "deadline" else 20.0
    with serving_fake() as server:
        settings = HttpSettings(
            f"{server.url}/v1/chat/completions",
            body={"model": f"m@{fault}", "messages": "{{ chat_prompt }}"},
            response="$.choices[0].message.content",
        )
        failure = failure_of(make_target("http", settings), make_request(timeout_s=timeout_s))
    assert failure.kind == KINDS[fault]


@pytest.mark.parametrize("body", [b"", b"null", b'"', b"\xff"])
def test_without_paths_a_broken_json_reply_is_no_answer(body: bytes) -> None:
    assert failed(reply(body, headers=JSON)).kind in ("malformed_reply", "unexpected_shape")


@pytest.mark.parametrize("body", [b"", b"\xff"])
def test_a_text_reply_that_is_empty_or_no_text_is_no_answer(body: bytes) -> None:
    assert failed(reply(body)).kind == "malformed_reply"


def test_a_response_nested_too_deeply_is_a_failure() -> None:
    deep = '{"a":' * 500 + "1" + "}" * 500
    assert failed(reply(deep, headers=JSON), response="$..x").kind == "unexpected_shape"


def test_invalid_messages_are_reported() -> None:
    failure = failed(reply('{"steps": ["a"]}', headers=JSON), output_messages="$.steps")
    assert failure.message.startswith("the response cannot be read: output_messages[0] is not a message, but a text; ")
    failure = failed(reply('{"steps": [{"role": "user", "content": "x"}]}', headers=JSON), output_messages="$.steps")
    assert failure.kind == "unexpected_shape"


# --- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"response": "$.choices[0.message"}, "response is not a valid JSONPath: error at character 12, '.message'"),
        ({"response": "answer"}, "response is not a valid JSONPath: it must begin with $"),
        ({"usage": "usage"}, "usage is not a valid JSONPath: it must begin with $"),
        ({"output_messages": "$.a["}, "output_messages is not a valid JSONPath: it is incomplete"),
        ({"response": "$.a[?nofn(@.b)]"}, "at character 6, 'nofn(@.b)]': function 'nofn' is not defined"),
        ({"response": "$[" * 3000}, "response is"),
        ({"body": {"q": "{{ querstion }}"}}, "body has the unknown variable {{ querstion }}; known: question, "),
        ({"body": '{"q": {{ question }}, }'}, "body is not valid JSON at line 1, column 23"),
        ({"body": {"q": "always the same"}}, "body or url must contain {{ question }}"),
        ({"method": "GET"}, "body is not allowed with GET"),
        ({"url": "ftp://h/"}, "url must start with http:// or https://"),
        ({"url": "http://{{ question }}.example.com/"}, "url may have variables in its path and query"),
        ({"headers": {"Content-Type": "application/xml"}}, "body cannot be sent as application/xml"),
        ({"headers": {"Content-Type": "text/plain"}}, "body must be a string when it is sent as text/plain"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_before_the_run(settings: dict[str, JsonValue], said: str) -> None:
    assert said in refusal(**settings)


# --- healthcheck -------------------------------------------------------------------------------------------------


async def check(provider: Provider) -> None:
    assert isinstance(provider, CheckedProvider)
    await provider.healthcheck()


def test_a_healthcheck_asks_its_own_url() -> None:
    with serving(reply("ok")) as server:
        with_provider(target_at(server, healthcheck=HttpHealthcheck("http", f"{server.url}/health")), check)
    assert [request.line for request in server.requests] == ["GET /health HTTP/1.1"]


@pytest.mark.parametrize(
    "probe", [HttpHealthcheck("http", "http://127.0.0.1:9/", 5.0), CommandHealthcheck("command", "false")]
)
def test_a_healthcheck_that_fails_says_so(probe: HttpHealthcheck | CommandHealthcheck) -> None:
    with serving(reply("ok")) as server, pytest.raises(ProviderError) as raised:
        with_provider(target_at(server, healthcheck=probe), check)
    assert raised.value.failure.kind == "healthcheck"
