import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.virtual_time import run_virtually

from agentv.execution.cancelled_calls import attach_call, attached_call
from agentv.execution.retry import OVERTIME_S, delay_s, is_retryable, retry_call
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.provider import CallRecord, ProviderError, ProviderResponse
from agentv.types.targets import DEFAULT_RETRY_STATUSES, RetryPolicy
from agentv.types.usage import Usage

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ANSWER = ProviderResponse("hello", usage=Usage(input=3, output=2, total=5), request_id="r-9")
BUSY = Failure("server_error", "HTTP 503", http_status=503)


class Script:
    """Fails as scripted, then answers; owns the clock, so that no test waits."""

    def __init__(self, *failures: Failure) -> None:
        self.failures = list(failures)
        self.now = NOON
        self.waits: list[float] = []
        self.tries: list[int] = []

    async def call(self, number: int, _ends_at: float) -> ProviderResponse:
        self.tries.append(number)
        self.now += timedelta(milliseconds=100)
        if self.failures:
            raise ProviderError(self.failures.pop(0))
        return ANSWER

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += timedelta(seconds=seconds)

    def run(
        self,
        policy: RetryPolicy | None = None,
        *,
        call: Callable[[int, float], Awaitable[ProviderResponse]] | None = None,
        on_retry: Callable[[CallRecord, float], None] | None = None,
        deadline_s: float | None = None,
    ) -> tuple[ProviderResponse, tuple[CallRecord, ...]]:
        return asyncio.run(
            retry_call(
                call or self.call,
                policy or RetryPolicy(),
                rng=random.Random(1),
                clock=lambda: self.now,
                sleep=self.sleep,
                on_retry=on_retry,
                deadline_s=deadline_s,
            )
        )


def test_an_answer_at_once_is_one_try() -> None:
    script = Script()

    answer, calls = script.run()

    assert answer is ANSWER
    assert calls == (CallRecord(kind="ok", started_at=NOON, duration_ms=100.0, request_id="r-9", usage=ANSWER.usage),)
    assert script.waits == []


def test_by_default_three_retries_double_from_one_second_with_jitter() -> None:
    script = Script(BUSY, BUSY, BUSY)

    answer, calls = script.run()

    assert answer is ANSWER
    assert script.tries == [0, 1, 2, 3]
    assert [0.75 <= wait / base <= 1.25 for wait, base in zip(script.waits, (1, 2, 4), strict=True)] == [True] * 3
    assert script.waits != [1, 2, 4]
    assert [call.kind for call in calls] == ["server_error"] * 3 + ["ok"]


def test_every_try_is_recorded_with_its_pause_and_what_it_said() -> None:
    script = Script(Failure("rate_limited", "slow down", http_status=429, details={"request_id": "r-1"}))

    _, calls = script.run(RetryPolicy(initial_delay_s=0))

    assert calls[0] == CallRecord(
        kind="rate_limited", started_at=NOON, duration_ms=100.0, status=429, request_id="r-1", error="slow down"
    )
    assert calls[1].wait_ms == 0.0
    assert calls[1].started_at == NOON + timedelta(milliseconds=100)


@pytest.mark.parametrize(
    ("details", "usage"),
    [
        ({"input": 7, "output": 2, "total": 9, "requests": 1}, Usage(input=7, output=2, total=9, requests=1)),
        ({"input": "many"}, None),
        ("many", None),
        (None, None),
    ],
)
def test_the_usage_of_a_failed_attempt_is_recorded(details: JsonValue, usage: Usage | None) -> None:
    _, calls = Script(Failure("server_error", "busy", http_status=503, details={"usage": details})).run()

    assert [call.usage for call in calls] == [usage, ANSWER.usage]


def test_the_last_failure_is_raised_with_all_tries() -> None:
    script = Script(*[BUSY] * 9)

    with pytest.raises(ProviderError, match="HTTP 503") as raised:
        script.run(RetryPolicy(max_retries=2))

    assert len(raised.value.calls) == 3
    assert raised.value.failure == BUSY


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 501])
def test_a_status_that_is_not_listed_is_not_tried_again(status: int) -> None:
    script = Script(Failure("bad_request", "no", http_status=status, retryable=True))

    with pytest.raises(ProviderError):
        script.run()

    assert script.tries == [0]


@pytest.mark.parametrize("status", DEFAULT_RETRY_STATUSES)
def test_the_listed_statuses_are_tried_again(status: int) -> None:
    script = Script(Failure("server_error", "busy", http_status=status))

    assert script.run()[0] is ANSWER


def test_a_network_error_is_tried_again() -> None:
    assert Script(Failure("transport", "refused", retryable=True)).run()[0] is ANSWER


def test_the_server_says_how_long_to_wait() -> None:
    script = Script(Failure("rate_limited", "slow", http_status=429, retry_after_s=7.0))

    script.run()

    assert script.waits == [7.0]


def test_no_pause_is_longer_than_the_policy_allows() -> None:
    script = Script(Failure("rate_limited", "slow", http_status=429, retry_after_s=7200.0), BUSY)

    script.run(RetryPolicy(max_delay_s=30.0, backoff_factor=1e9))

    assert script.waits == [30.0, 30.0]


def test_on_retry_is_called_before_each_pause() -> None:
    retries: list[tuple[str, float]] = []
    script = Script(BUSY)

    script.run(on_retry=lambda call, wait_s: retries.append((call.kind, wait_s)))

    assert retries == [("server_error", script.waits[0])]


def test_no_pause_goes_beyond_the_deadline_for_all_tries() -> None:
    script = Script(Failure("rate_limited", "slow", http_status=429, retry_after_s=50.0))

    with pytest.raises(ProviderError, match="slow"):
        script.run(deadline_s=49.0)

    assert script.waits == []


def test_a_try_that_keeps_no_deadline_is_cancelled_and_recorded() -> None:
    async def never(_number: int, _ends_at: float) -> ProviderResponse:
        return await asyncio.Future()

    with pytest.raises(ProviderError, match="no answer within") as raised:
        Script().run(call=never, deadline_s=-OVERTIME_S)  # over before it began, so that the test does not wait

    assert raised.value.failure.kind == "deadline"
    assert [call.kind for call in raised.value.calls] == ["deadline"]


def test_an_attempt_without_a_deadline_is_cancelled_after_the_total() -> None:
    async def never_again(number: int, _ends_at: float) -> ProviderResponse:
        if number == 0:
            raise ProviderError(BUSY)
        return await asyncio.Future()

    async def run() -> float:
        began = asyncio.get_running_loop().time()
        with pytest.raises(ProviderError, match=r"no answer within 60 s \(attempts: 2\)") as raised:
            await retry_call(never_again, RetryPolicy(), rng=random.Random(1), clock=lambda: NOON, deadline_s=60.0)
        assert [call.kind for call in raised.value.calls] == ["server_error", "deadline"]
        return asyncio.get_running_loop().time() - began

    assert run_virtually(run()) == pytest.approx(60.0 + OVERTIME_S)


def test_a_time_out_of_the_callee_itself_is_its_own_error() -> None:
    async def faulty(_number: int, _ends_at: float) -> ProviderResponse:
        raise TimeoutError("theirs")

    with pytest.raises(TimeoutError, match="theirs"):
        Script().run(call=faulty, deadline_s=60.0)


@given(
    st.integers(0, 10_000),
    st.floats(0, 1e6),
    st.floats(1, 1e6),
    st.floats(0, 1e6),
    st.none() | st.floats(allow_nan=False),
)
def test_a_pause_lies_between_zero_and_the_limit(
    retry: int, initial: float, factor: float, limit: float, requested: float | None
) -> None:
    policy = RetryPolicy(initial_delay_s=initial, backoff_factor=factor, max_delay_s=limit)
    failure = Failure("server_error", "busy", retry_after_s=requested)

    assert 0 <= delay_s(failure, policy, retry=retry, rng=random.Random(0)) <= limit


def test_without_a_status_the_failure_itself_decides() -> None:
    assert not is_retryable(Failure("malformed_reply", "no JSON"), RetryPolicy())
    assert is_retryable(Failure("transport", "refused", retryable=True), RetryPolicy())


def test_a_requested_delay_beyond_the_longest_wait_is_named_before_the_wait() -> None:
    script = Script(Failure("rate_limited", "HTTP 429", http_status=429, retry_after_s=86_400.0))
    told: list[tuple[str | None, float]] = []

    script.run(on_retry=lambda record, wait_s: told.append((record.error, wait_s)))

    most = "the server requests a delay of 86,400 s, agentv waits at most 60 s (retry_max_delay_ms)"
    assert told == [(f"HTTP 429; {most}", 60.0)]


# --- what a failed attempt said ----------------------------------------------------------------------------------

HALF = ProviderResponse("half", usage=Usage(input=3, output=1, total=4), cost_usd=0.5)


def test_a_failed_attempt_keeps_its_usage_and_cost_and_the_error_its_text() -> None:
    async def cut(_number: int, _ends_at: float) -> ProviderResponse:
        raise ProviderError(BUSY, partial=HALF)

    with pytest.raises(ProviderError) as raised:
        Script().run(RetryPolicy(max_retries=1), call=cut)

    assert raised.value.partial == HALF
    assert [(call.usage, call.cost_usd) for call in raised.value.calls] == [(HALF.usage, 0.5)] * 2


def test_an_attempt_that_failed_in_silence_does_not_hide_what_an_earlier_one_said() -> None:
    async def cut(number: int, _ends_at: float) -> ProviderResponse:
        raise ProviderError(BUSY, partial=None if number else HALF)

    with pytest.raises(ProviderError) as raised:
        Script().run(RetryPolicy(max_retries=1), call=cut)

    assert raised.value.partial == HALF


async def said_then_hung(_number: int, _ends_at: float) -> ProviderResponse:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError as error:
        attach_call(error, HALF)
        raise
    return ANSWER


def test_an_attempt_cut_off_at_the_deadline_keeps_what_it_said() -> None:
    async def go() -> None:
        await retry_call(said_then_hung, RetryPolicy(), rng=random.Random(1), clock=lambda: NOON, deadline_s=10.0)

    with pytest.raises(ProviderError) as raised:
        run_virtually(go())

    assert (raised.value.failure.kind, raised.value.partial) == ("deadline", HALF)
    assert raised.value.calls[0].cost_usd == 0.5


def test_a_cancelled_call_carries_its_attempts_and_what_the_last_one_said() -> None:
    waiting = asyncio.Event()

    async def busy_then_hung(number: int, ends_at: float) -> ProviderResponse:
        if number == 0:
            raise ProviderError(BUSY)
        waiting.set()
        return await said_then_hung(number, ends_at)

    async def go() -> ProviderError | None:
        call = asyncio.create_task(retry_call(busy_then_hung, RetryPolicy(), rng=random.Random(1), clock=lambda: NOON))
        await waiting.wait()
        call.cancel()
        try:
            await call
        except asyncio.CancelledError as error:
            return attached_call(error)
        return None

    kept = run_virtually(go())

    assert kept is not None
    assert ([call.kind for call in kept.calls], kept.partial) == (["server_error", "cancelled"], HALF)


@pytest.mark.parametrize("retries", [True, False])
def test_a_program_that_timed_out_is_started_again_only_if_the_policy_says_so(retries: bool) -> None:
    failure = Failure("target_timeout", "no answer within 1 s", retryable=True)

    assert is_retryable(failure, RetryPolicy(retry_timeouts=retries)) is retries
