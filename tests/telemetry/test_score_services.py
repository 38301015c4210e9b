"""Langfuse and Phoenix: how they are named by variables, and what is done about their answers."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from aiohttp import web
from msgspec.structs import replace
from tests.support.loopback import reply, serving
from tests.support.rows import make_row
from tests.support.score_services import (
    API_KEY,
    PUBLIC_KEY,
    SECRET_KEY,
    Service,
    keeping_scores,
    take_annotations,
    take_batch,
)

from agentv.telemetry.sending.destination import Delivered
from agentv.telemetry.sending.langfuse import LangfuseDestination
from agentv.telemetry.sending.phoenix import PhoenixDestination
from agentv.telemetry.sending.post import Refused
from agentv.telemetry.sending.scores import Score
from agentv.types.errors import ConfigError
from agentv.types.evaluation import EvaluatorResult, JudgeCall

KEYS = {"LANGFUSE_PUBLIC_KEY": PUBLIC_KEY, "LANGFUSE_SECRET_KEY": SECRET_KEY}
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def langfuse(url: str, *, with_reasons: bool = False, **env: str) -> LangfuseDestination:
    return LangfuseDestination({**KEYS, "LANGFUSE_BASE_URL": url, **env}, with_reasons=with_reasons)


def phoenix(url: str, *, with_reasons: bool = False) -> PhoenixDestination:
    env = {"PHOENIX_ENDPOINT": url, "PHOENIX_API_KEY": API_KEY}
    return PhoenixDestination(env, with_reasons=with_reasons)


def scores(
    service: LangfuseDestination | PhoenixDestination, *names: str, trace: str = TRACE, span: str = SPAN
) -> tuple[Score, ...]:
    """Return what a service is sent for a result with these evaluators."""
    call = JudgeCall("openai:x", "sample", "{}")
    results = tuple(
        EvaluatorResult(
            name=name, type="llm_judge", score=0.5, verdict="fail", reasoning=f"why {name}", judge_calls=(call,)
        )
        for name in names or ("tone",)
    )
    row = replace(make_row("refund", score=0.5), evaluator_results=results, trace_id=trace, span_id=span)
    prepared = service.prepare(row, "nightly", None)
    assert isinstance(prepared, tuple)
    return prepared


@pytest.mark.parametrize(
    ("env", "shown"),
    [
        pytest.param({}, "https://cloud.langfuse.com", id="default"),
        pytest.param({"LANGFUSE_HOST": "https://lf.example.com/"}, "https://lf.example.com", id="host"),
        pytest.param(
            {"LANGFUSE_BASE_URL": "https://a.example.com/lf", "LANGFUSE_HOST": "https://b.example.com"},
            "https://a.example.com/lf",
            id="base-url-first",
        ),
    ],
)
def test_langfuse_is_named_by_its_variables(env: Mapping[str, str], shown: str) -> None:
    assert LangfuseDestination({**KEYS, **env}).shown == shown


@pytest.mark.parametrize(
    ("env", "shown"),
    [
        pytest.param({}, "http://localhost:6006", id="default"),
        pytest.param({"PHOENIX_HOST": "0.0.0.0", "PHOENIX_PORT": "7"}, "http://127.0.0.1:7", id="bound"),
        pytest.param({"PHOENIX_HOST": "px.example.com"}, "http://px.example.com:6006", id="host"),
        pytest.param({"PHOENIX_HOST": "https://px.example.com/base/"}, "https://px.example.com/base", id="host-url"),
        pytest.param(
            {"PHOENIX_COLLECTOR_ENDPOINT": "https://app.phoenix.arize.com/s/me/v1/traces"},
            "https://app.phoenix.arize.com/s/me",
            id="collector",
        ),
        pytest.param(
            {"PHOENIX_ENDPOINT": "http://a:1", "PHOENIX_COLLECTOR_ENDPOINT": "http://b:2"}, "http://a:1", id="order"
        ),
    ],
)
def test_phoenix_is_named_by_its_variables(env: Mapping[str, str], shown: str) -> None:
    assert PhoenixDestination(env).shown == shown


@pytest.mark.parametrize(
    ("env", "said"),
    [
        pytest.param({"LANGFUSE_PUBLIC_KEY": "pk"}, "needs LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY", id="key"),
        pytest.param({**KEYS, "LANGFUSE_HOST": "lf.example.com"}, "LANGFUSE_HOST must be a URL", id="url"),
    ],
)
def test_variables_of_langfuse_that_cannot_be_used_are_named(env: Mapping[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        LangfuseDestination(env)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        pytest.param({"PHOENIX_ENDPOINT": "px"}, "PHOENIX_ENDPOINT must be the URL", id="url"),
        pytest.param({"PHOENIX_HOST": "px", "PHOENIX_PORT": "none"}, "PHOENIX_HOST must be", id="port"),
        pytest.param({"PHOENIX_API_KEY": "hush\nhush"}, "PHOENIX_API_KEY has a character", id="key"),
        pytest.param({"PHOENIX_CLIENT_HEADERS": "hush"}, "PHOENIX_CLIENT_HEADERS must be a list", id="headers"),
    ],
)
def test_variables_of_phoenix_that_cannot_be_used_are_named(env: Mapping[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        PhoenixDestination(env)
    assert "hush" not in str(raised.value)


def test_the_headers_of_phoenix_may_replace_the_key() -> None:
    with serving(reply('{"data": []}')) as server:
        env = {"PHOENIX_ENDPOINT": server.url, "PHOENIX_CLIENT_HEADERS": "api_key=k", "PHOENIX_API_KEY": "b"}
        service = PhoenixDestination(env)
        assert service.send("scores", [scores(service)]) == Delivered()
    assert server.requests[0].headers["api_key"] == "k"
    assert server.requests[0].headers["authorization"] == "Bearer b"


def test_langfuse_gets_a_numeric_score_of_trace_and_observation() -> None:
    with keeping_scores(take_batch) as kept:
        service = langfuse(kept.url, with_reasons=True, LANGFUSE_TRACING_ENVIRONMENT="staging")
        assert service.send("scores", [scores(service)]) == Delivered()
    (score,) = kept.scores.values()
    assert (score.trace_id, score.span_id, score.name, score.value) == (TRACE, SPAN, "tone", 0.5)
    assert score.reasons == "why tone"
    assert score.metadata["agentv.score.verdict"] == "fail"
    assert score.metadata["agentv.run.name"] == "nightly"
    (event,) = json.loads(kept.bodies[0])["batch"]
    assert event["body"]["environment"] == "staging"


def test_phoenix_gets_an_annotation_of_the_span() -> None:
    with keeping_scores(take_annotations) as kept:
        service = phoenix(kept.url, with_reasons=True)
        assert service.send("scores", [scores(service)]) == Delivered()
    (score,) = kept.scores.values()
    assert (score.span_id, score.trace_id, score.kind) == (SPAN, "", "LLM")
    assert (score.name, score.value, score.reasons) == ("tone", 0.5, "why tone")


def test_phoenix_gets_an_annotation_of_the_trace_if_no_span_is_known() -> None:
    with keeping_scores(take_annotations) as kept:
        service = phoenix(kept.url)
        assert service.send("scores", [scores(service, span=""), scores(service)]) == Delivered()
    assert {(score.span_id, score.trace_id) for score in kept.scores.values()} == {(SPAN, ""), ("", TRACE)}


def test_the_name_that_phoenix_reserves_is_changed() -> None:
    with keeping_scores(take_annotations) as kept:
        service = phoenix(kept.url)
        assert service.send("scores", [scores(service, "note", "tone")]) == Delivered()
    assert {score.name for score in kept.scores.values()} == {"agentv note", "tone"}


def test_spans_that_phoenix_lacks_are_counted_and_the_others_are_sent() -> None:
    def take(service: Service, request: web.Request, body: bytes) -> web.Response:
        return take_annotations(service, request, body, knows=lambda known: known in (SPAN, TRACE))

    with keeping_scores(take) as kept:
        service = phoenix(kept.url)
        results = [
            scores(service, "a", "b"),
            scores(service, "a", "b", span="1" * 16),
            scores(service, "a", span="", trace="2" * 32),
            scores(service, "a", span=""),
        ]
        outcome = service.send("scores", results)
    assert outcome == Delivered(3, 2, f"it has no trace or span {'1' * 16} and 1 more")
    assert len(kept.scores) == 3


def test_a_page_that_is_not_found_is_no_unknown_span() -> None:
    with serving(reply("Not Found", status="404 Not Found")) as server:
        service = phoenix(server.url)
        outcome = service.send("scores", [scores(service)])
    assert isinstance(outcome, Refused)
    assert outcome.reason == "HTTP 404: check PHOENIX_ENDPOINT"


@pytest.mark.parametrize("name", ["PHOENIX_COLLECTOR_ENDPOINT", "PHOENIX_HOST"])
def test_the_variable_to_check_is_the_one_that_gave_the_address(name: str) -> None:
    with serving(reply("Not Allowed", status="405 Method Not Allowed")) as server:
        service = PhoenixDestination({name: server.url})
        outcome = service.send("scores", [scores(service)])
    assert isinstance(outcome, Refused)
    assert outcome.reason == f"HTTP 405: check {name}"


@pytest.mark.parametrize("page", ["", "<html>sign in</html>", "[]", '{"data": 1}', "{}"])
def test_an_answer_of_something_else_is_a_refusal(page: str) -> None:
    with serving(reply(page)) as server:
        for service, said in ((langfuse(server.url), "Langfuse"), (phoenix(server.url), "Phoenix")):
            outcome = service.send("scores", [scores(service)])
            assert isinstance(outcome, Refused)
            assert not outcome.is_retryable
            assert f"not from {said}" in outcome.reason


def errors(*statuses: int) -> Any:
    """Answer as Langfuse, with these statuses for the first events."""

    def take(_service: Service, _: web.Request, body: bytes) -> web.Response:
        ids = [event["id"] for event in msgspec.json.decode(body)["batch"]]
        failed = [
            {"id": event, "status": status, "message": "Invalid request data", "error": "value:\n  too\n  odd"}
            for event, status in zip(ids, statuses, strict=False)
        ]
        return web.json_response({"successes": [], "errors": failed}, status=207)

    return take


def test_scores_that_langfuse_does_not_take_are_counted() -> None:
    with keeping_scores(errors(400, 400, 400)) as kept:
        service = langfuse(kept.url)
        outcome = service.send("scores", [scores(service, "a", "b"), scores(service, "c", "d")])
    assert outcome == Delivered(3, 1, "value: too odd")


def test_scores_that_langfuse_may_take_later_are_a_refusal() -> None:
    with keeping_scores(errors(400, 503)) as kept:
        service = langfuse(kept.url)
        outcome = service.send("scores", [scores(service, "a", "b")])
    assert isinstance(outcome, Refused)
    assert outcome.is_retryable


def test_projects_of_langfuse_have_queues_of_their_own() -> None:
    one, other = langfuse("http://a:1"), langfuse("http://a:1", LANGFUSE_PUBLIC_KEY="pk-other")
    assert one.channels != other.channels
    assert PUBLIC_KEY not in str(one.channels)
    assert one.channels != langfuse("http://a:1", with_reasons=True).channels


def test_a_score_that_has_changed_is_another_event_with_the_same_id() -> None:
    with keeping_scores(take_batch) as kept:
        for with_reasons in (False, True):
            service = langfuse(kept.url, with_reasons=with_reasons)
            service.send("scores", [scores(service)])
    (first,), (again,) = (json.loads(body)["batch"] for body in kept.bodies)
    assert first["id"] != again["id"]
    assert first["body"]["id"] == again["body"]["id"]
    assert len(kept.scores) == 1
