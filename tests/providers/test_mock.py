import asyncio
from collections.abc import Sequence

import pytest
from tests.support.asking import ask, failure_of, make_request, make_target, with_provider

from agentv.providers.local.mock import MockSettings
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.messages import Message, ToolCall
from agentv.types.provider import Provider, ProviderError


def test_the_canned_answer_comes_back() -> None:
    assert ask(make_target("mock", MockSettings(response="4"))).text == "4"


def test_each_case_may_have_its_own_answer() -> None:
    target = make_target("mock", MockSettings(response={"case-1": "one"}))

    assert ask(target).text == "one"
    missing = failure_of(target, make_request(eval_case_id="case-2"))
    assert (missing.kind, missing.message) == ("target_missing", "the mock has no response for case 'case-2'")


def test_messages_come_back_and_their_last_answer_is_the_text() -> None:
    said: list[JsonObject] = [
        {"role": "assistant", "tool_calls": [{"tool": "lookup", "input": {"id": 7}}]},
        {"role": "assistant", "content": "On its way."},
    ]

    response = ask(make_target("mock", MockSettings(output_messages=said)))

    assert response.text == "On its way."
    assert response.output_messages == (
        Message("assistant", tool_calls=(ToolCall("lookup", {"id": 7}),)),
        Message("assistant", "On its way."),
    )
    assert ask(make_target("mock", MockSettings(response="x", output_messages=said))).text == "x"


def test_messages_that_are_not_understood_are_refused_before_the_run() -> None:
    with pytest.raises(ValueError, match=r"output_messages\[0\] has no content, and its 'text' is not understood"):
        MockSettings(output_messages=[{"role": "assistant", "text": "x"}])


def failures(settings: MockSettings, calls: int) -> Sequence[Failure | None]:
    async def use(provider: Provider) -> list[Failure | None]:
        found: list[Failure | None] = []
        for _ in range(calls):
            try:
                await provider.invoke(make_request())
                found.append(None)
            except ProviderError as error:
                found.append(error.failure)
        return found

    return with_provider(make_target("mock", settings), use)


def test_every_nth_call_fails() -> None:
    found = failures(MockSettings(fail_every=3), 6)

    assert [failure is not None for failure in found] == [False, False, True] * 2


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [("boom", "server_error", False), ("auth", "auth", False), ("rate_limited", "rate_limited", True)],
)
def test_an_error_alone_fails_every_call_as_configured(error: str, kind: str, *, retryable: bool) -> None:
    found = failures(MockSettings(error=error), 2)

    assert [failure and (failure.kind, failure.retryable) for failure in found] == [(kind, retryable)] * 2


def test_a_delay_is_waited_for() -> None:
    async def use(provider: Provider) -> float:
        loop = asyncio.get_running_loop()
        started = loop.time()
        await provider.invoke(make_request())
        return loop.time() - started

    assert with_provider(make_target("mock", MockSettings(delay_ms=20)), use) >= 0.019
    assert with_provider(make_target("mock", MockSettings(delay_min_ms=20, delay_max_ms=40)), use) >= 0.019


def test_a_delay_beyond_the_timeout_is_a_timeout() -> None:
    target = make_target("mock", MockSettings(delay_ms=60_000))
    failure = failure_of(target, make_request(timeout_s=0.01))
    assert (failure.kind, failure.message) == ("target_timeout", "no answer within 0.01 s")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delay_ms": -1}, "must not be negative"),
        ({"delay_min_ms": 5, "delay_max_ms": 4}, "delay_max_ms must not be less than delay_min_ms"),
        ({"fail_every": 0}, "fail_every must be at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MockSettings(**settings)  # type: ignore[arg-type] # wrong on purpose
