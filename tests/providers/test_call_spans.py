"""Spans of calls that run at the same time: each call gets its own, completes its response, and waits no longer."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.spans import export
from tests.support.traced_agent import MODEL, answer_to, spans_of_call

from agentv.execution.cancelled_calls import attached_partial
from agentv.providers.local.call_spans import MOST_SPANS, CallSpans, SpanInbox, call_with_spans
from agentv.telemetry.otlp.spans import Span, spans_of
from agentv.types.failures import Failure
from agentv.types.messages import Message, ToolCall, TraceEvent, tool_calls_of
from agentv.types.provider import ProviderError, ProviderResponse
from agentv.types.usage import Usage

T = TypeVar("T")
ORDER = "my order"
FAR_S = 60.0
"""A wait that no test reaches."""


def spans_for(call: CallSpans, question: str = ORDER, *modes: str) -> list[Span]:
    return spans_of(export(*spans_of_call(question, trace_id=call.trace_id, parent=call.span_id, modes=modes)))


def complete(
    call: Callable[[CallSpans, SpanInbox], Awaitable[ProviderResponse]],
    *,
    wait_s: float = FAR_S,
    inbox: SpanInbox | None = None,
) -> ProviderResponse:
    async def run() -> ProviderResponse:
        box = inbox or SpanInbox()
        return await call_with_spans(
            box, lambda spans: call(spans, box), wait_s=wait_s, timeout_s=None, why_none=lambda: "send some"
        )

    return asyncio.run(run())


def answering(
    response: ProviderResponse, question: str = ORDER, *modes: str
) -> Callable[[CallSpans, SpanInbox], Awaitable[ProviderResponse]]:
    """Return a call that sends the spans of a question and returns a response."""

    async def call(spans: CallSpans, inbox: SpanInbox) -> ProviderResponse:
        assert inbox.deliver(f"row/{spans.token}", spans_for(spans, question, *modes))
        return response

    return call


def test_spans_give_what_the_target_does_not() -> None:
    response = complete(answering(ProviderResponse("Here.")))

    assert response.text == "Here."
    assert [call.tool for call in tool_calls_of(response.output_messages or ())] == ["find_order"]
    assert (response.usage, response.model) == (Usage(20, 10, total=30, requests=2), MODEL)
    assert response.spans is not None
    assert (len(response.spans.trace_id), len(response.spans.span_id), response.spans.is_complete) == (32, 16, True)
    assert response.notes == ()


def test_what_the_target_gives_itself_counts_before_its_spans() -> None:
    own = Message("assistant", "Here.", tool_calls=(ToolCall("mine"),))
    given = ProviderResponse("Here.", output_messages=(own,), usage=Usage(1, 1), cost_usd=0.5, model="other")
    response = complete(answering(given))

    assert replace(response, spans=None) == given


def test_messages_without_a_call_do_not_hide_the_calls_in_the_spans() -> None:
    response = complete(answering(ProviderResponse("Here.", output_messages=(Message("assistant", "Here."),))))

    assert [call.tool for call in tool_calls_of(response.output_messages or ())] == ["find_order"]


def test_calls_in_the_deprecated_trace_are_the_target_s_own() -> None:
    response = complete(answering(ProviderResponse("Here.", trace=(TraceEvent("tool_call", name="mine"),))))

    assert response.output_messages is None


def test_an_empty_answer_takes_the_text_of_the_spans() -> None:
    assert complete(answering(ProviderResponse(""))).text == answer_to(ORDER)


def test_no_span_is_noted_and_leaves_the_calls_unknown() -> None:
    async def call(_spans: CallSpans, _inbox: SpanInbox) -> ProviderResponse:
        return ProviderResponse("Here.")

    response = complete(call, wait_s=0.0)

    assert (response.output_messages, response.usage) == (None, None)
    assert response.notes == ("no spans arrived, so its tool calls are unknown: send some",)


def test_missing_spans_are_noted() -> None:
    response = complete(answering(ProviderResponse("Here."), ORDER, "unfinished"), wait_s=0.0)

    assert [call.tool for call in tool_calls_of(response.output_messages or ())] == ["find_order"]
    (note,) = response.notes
    assert note.startswith("spans were missing 0 s after its answers, so tool calls may be missing: raise")
    assert response.spans is not None
    assert not response.spans.is_complete


def test_late_spans_are_waited_for_until_the_outermost_one() -> None:
    async def call(spans: CallSpans, inbox: SpanInbox) -> ProviderResponse:
        async def send() -> None:
            for each in spans_for(spans):
                for _ in range(3):
                    await asyncio.sleep(0)
                inbox.deliver("", (each,))

        sending.append(asyncio.create_task(send()))
        return ProviderResponse("Here.")

    sending: list[asyncio.Task[None]] = []
    response = complete(call)

    assert len(tool_calls_of(response.output_messages or ())) == 1
    assert response.spans is not None
    assert response.spans.is_complete
    assert response.notes == ()


def test_spans_after_the_end_of_a_call_are_noted_with_the_next_answer() -> None:
    inbox = SpanInbox()
    late: list[Span] = []

    async def first(spans: CallSpans, _inbox: SpanInbox) -> ProviderResponse:
        late.extend(spans_for(spans))
        return ProviderResponse("Here.")

    complete(first, wait_s=0.0, inbox=inbox)
    assert inbox.deliver("", late)
    response = complete(answering(ProviderResponse("Here.")), inbox=inbox)

    assert len(tool_calls_of(response.output_messages or ())) == 1
    (note,) = response.notes
    assert note.startswith("spans arrived after the answer was judged")
    assert complete(answering(ProviderResponse("Here.")), inbox=inbox).notes == ()


def test_unknown_paths_and_unknown_traces_are_distinguished() -> None:
    inbox = SpanInbox()
    (foreign, *_) = spans_of(export(*spans_of_call(ORDER, trace_id="c" * 32, parent="")))

    assert not inbox.deliver("row/unknown", (foreign,))
    assert not inbox.deliver("other", ())
    assert inbox.deliver("", (foreign,))
    assert (inbox.foreign, inbox.late) == (1, 0)


def test_a_failed_attempt_has_the_tokens_and_calls_of_its_spans() -> None:
    async def call(spans: CallSpans, inbox: SpanInbox) -> ProviderResponse:
        inbox.deliver("", spans_for(spans))
        raise ProviderError(Failure("target_exit", "failed"))

    with pytest.raises(ProviderError) as raised:
        complete(call)

    partial = raised.value.partial
    assert partial is not None
    assert (partial.usage, len(tool_calls_of(partial.output_messages or ()))) == (
        Usage(20, 10, total=30, requests=2),
        1,
    )


def test_a_failed_attempt_without_spans_is_as_it_was() -> None:
    async def call(_spans: CallSpans, _inbox: SpanInbox) -> ProviderResponse:
        raise ProviderError(Failure("target_exit", "failed"))

    with pytest.raises(ProviderError) as raised:
        complete(call)
    assert raised.value.partial is None


def test_an_interrupt_while_waiting_keeps_the_answer() -> None:
    async def run() -> ProviderResponse | None:
        inbox = SpanInbox()
        answered = asyncio.Event()

        async def call(_spans: CallSpans) -> ProviderResponse:
            answered.set()
            return ProviderResponse("Here.", usage=Usage(1, 1))

        task = asyncio.create_task(
            call_with_spans(inbox, call, wait_s=FAR_S, timeout_s=None, why_none=lambda: "send some")
        )
        await answered.wait()
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as error:
            return attached_partial(error)
        return None

    partial = asyncio.run(run())
    assert partial is not None
    assert partial.text == "Here."


def test_a_wait_ends_soon_after_the_time_limit_of_the_call() -> None:
    async def run() -> float:
        async def call(_spans: CallSpans) -> ProviderResponse:
            return ProviderResponse("Here.")

        # Its time limit ended long ago; the wait of a minute would outlast this test.
        response = await call_with_spans(
            SpanInbox(), call, wait_s=FAR_S, timeout_s=-FAR_S, why_none=lambda: "send some"
        )
        assert response.spans is not None
        return response.spans.waited_s

    assert asyncio.run(run()) < FAR_S / 2


def test_more_spans_than_the_maximum_are_noted_and_not_read() -> None:
    async def call(spans: CallSpans, inbox: SpanInbox) -> ProviderResponse:
        made = spans_for(spans)
        filler = replace(made[0], attributes={}, parent_id=spans.span_id)
        inbox.deliver("", made)
        spans.add([filler] * MOST_SPANS)
        return ProviderResponse("Here.")

    response = complete(call)
    assert f"a call has more than {MOST_SPANS:,} spans; further ones were not read" in response.notes


@given(st.integers(0, 10**6), st.booleans())
def test_spans_of_calls_at_the_same_time_never_mix(seed: int, by_token: bool) -> None:
    """Eight workers, whose exports arrive mixed with each other; each exporter sends its spans as they end."""
    asyncio.run(_mixed_calls(random.Random(seed), by_token=by_token))


async def _mixed_calls(rng: random.Random, *, by_token: bool) -> None:
    inbox = SpanInbox()
    waiting: list[tuple[str, list[Span]]] = []
    """The prefix and the unsent spans of each exporter."""

    async def call(question: str, spans: CallSpans) -> ProviderResponse:
        waiting.append((f"row/{spans.token}" if by_token else "", spans_for(spans, question)))
        return ProviderResponse("")

    async def ask(question: str) -> ProviderResponse:
        def calls(spans: CallSpans) -> Awaitable[ProviderResponse]:
            return call(question, spans)

        return await call_with_spans(inbox, calls, wait_s=FAR_S, timeout_s=None, why_none=lambda: "send some")

    questions = [f"order {number}" if number % 3 else f"thanks {number}" for number in range(24)]
    left = questions.copy()
    results: dict[str, ProviderResponse] = {}

    async def work() -> None:
        while left:
            question = left.pop()
            results[question] = await ask(question)

    workers = [asyncio.create_task(work()) for _ in range(8)]
    while not all(worker.done() for worker in workers):
        await asyncio.sleep(0)
        exports: dict[str, list[Span]] = {}
        for prefix, unsent in rng.sample(waiting, rng.randint(0, len(waiting))):
            count = rng.randint(0, len(unsent))
            exports.setdefault(prefix, []).extend(unsent[:count])
            del unsent[:count]
        for prefix, sent in exports.items():
            inbox.deliver(prefix, sent)
    for question, response in results.items():
        calls = tool_calls_of(response.output_messages or ())
        assert response.text == answer_to(question)
        assert [each.input for each in calls] == ([{"question": question}] if "order" in question else [])
        assert response.notes == ()
    assert len(results) == len(questions)
