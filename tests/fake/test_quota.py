"""Quotas: with a test clock, and over HTTP."""

import pytest
from tests.fake.client import chat, open_chat, post, until
from tests.support.fake_server import serving_fake

from agentv.fake import Quota
from agentv.fake.quota import Permit, Quotas


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def taken(quotas: Quotas, times: int, tokens: int = 1, key: str = "k") -> list[bool]:
    return [quotas.take(key, tokens).allowed for _ in range(times)]


def test_a_minutes_worth_may_come_at_once_and_grows_back_steadily() -> None:
    clock = Clock()
    quotas = Quotas(Quota(6, clock=clock))
    assert taken(quotas, 7) == [True] * 6 + [False]
    clock.now = 25
    assert taken(quotas, 3) == [True, True, False]


def test_a_smaller_burst_spreads_the_minute() -> None:
    clock = Clock()
    quotas = Quotas(Quota(60, burst=2, clock=clock))
    assert taken(quotas, 3) == [True, True, False]
    clock.now = 60
    assert taken(quotas, 3) == [True, True, False]


def test_a_client_that_waits_as_long_as_required_is_allowed() -> None:
    clock = Clock()
    quotas = Quotas(Quota(6, tokens_per_minute=100, clock=clock))
    quotas.take("k", 90)
    refused = quotas.take("k", 40)
    assert not refused.allowed
    assert refused.retry_after_s == pytest.approx(18)
    clock.now = refused.retry_after_s
    assert quotas.take("k", 40).allowed


def test_more_tokens_than_there_can_be_wait_for_a_full_meter() -> None:
    quotas = Quotas(Quota(6, tokens_per_minute=100, clock=Clock()))
    assert quotas.take("k", 500).allowed
    assert not quotas.take("k", 1).allowed


def test_each_key_has_its_own() -> None:
    quotas = Quotas(Quota(1, clock=Clock()))
    assert taken(quotas, 2, key="one") == [True, False]
    assert taken(quotas, 2, key="other") == [True, False]


def test_no_more_than_so_many_at_a_time() -> None:
    quotas = Quotas(Quota(100, concurrent=2, clock=Clock()))
    assert taken(quotas, 3) == [True, True, False]
    quotas.end_request("k")
    assert taken(quotas, 2) == [True, False]


def test_headers_say_what_is_left_in_the_words_of_each_api() -> None:
    headers = Quotas(Quota(6, tokens_per_minute=100, clock=Clock())).take("k", 30).headers
    assert {name: value for name, value in headers.items() if not name.endswith("-reset")} == {
        "x-ratelimit-limit-requests": "6",
        "x-ratelimit-remaining-requests": "5",
        "x-ratelimit-reset-requests": "10.000s",
        "x-ratelimit-limit-tokens": "100",
        "x-ratelimit-remaining-tokens": "70",
        "x-ratelimit-reset-tokens": "18.000s",
        "anthropic-ratelimit-requests-limit": "6",
        "anthropic-ratelimit-requests-remaining": "5",
        "anthropic-ratelimit-tokens-limit": "100",
        "anthropic-ratelimit-tokens-remaining": "70",
    }
    assert {name for name in headers if name.endswith("-reset")} == {
        "anthropic-ratelimit-requests-reset",
        "anthropic-ratelimit-tokens-reset",
    }


def test_without_a_quota_all_may_go_on() -> None:
    assert Quotas(None).take("k", 10**9) == Permit(allowed=True)


def test_over_http_too_many_are_refused_with_a_retry_after() -> None:
    with serving_fake(quota=Quota(2, clock=Clock())) as server:
        answers = [chat(server) for _ in range(3)]
        streamed = chat(server, stream=True)
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert [answer.headers["x-ratelimit-remaining-requests"] for answer in answers] == ["1", "0", "0"]
    assert (answers[2].headers["retry-after"], answers[2].headers["retry-after-ms"]) == ("30", "30000")
    assert streamed.status == 429
    assert [call.billed for call in server.calls] == [True, True, False, False]


def test_a_quota_may_be_silent() -> None:
    with serving_fake(quota=Quota(1, headers=False, clock=Clock())) as server:
        answers = [chat(server) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 429]
    assert not [name for answer in answers for name in answer.headers if "ratelimit" in name or "retry" in name]


def test_calls_at_one_time_are_counted_while_they_last() -> None:
    with serving_fake(quota=Quota(1000, concurrent=1)) as server:
        held = open_chat(server, "fake@hang")
        until(lambda: bool(server.calls))
        assert chat(server).status == 429
        held.close()
        until(lambda: chat(server).status == 200)


def test_keys_are_distinguished_in_any_header() -> None:
    body = {"model": "fake", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
    with serving_fake(quota=Quota(1, clock=Clock())) as server:
        first = post(server, "/v1/messages", body, x_api_key="one", anthropic_version="x")
        again = post(server, "/v1/messages", body, x_api_key="one", anthropic_version="x")
        other = post(server, "/v1/messages", body, x_api_key="two", anthropic_version="x")
    assert [answer.status for answer in (first, again, other)] == [200, 429, 200]
