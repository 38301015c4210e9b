"""Spans of running agents: an answer is given soon after its last span, once, whatever arrives later."""

import random
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from tests.support.spans import attribute, export, span
from tests.telemetry.test_joining import ASKS, FOUND, agent, assistant, call, comparable, user
from tests.telemetry.test_recorded_traces import COMPLETE, spans

from agentv.telemetry.joining.answers import TracedAnswer
from agentv.telemetry.joining.arrivals import AT_WORK_S, PATIENCE_S, SETTLE_S
from agentv.telemetry.joining.joining import JoinOptions, join_spans
from agentv.telemetry.joining.live import LiveJoiner
from agentv.telemetry.otlp.spans import Span, spans_of

IDLE_S = 600.0
DETAILS = "gen_ai.client.inference.operation.details"
LOCAL, REMOTE = {"flags": 0x100}, {"flags": 0x300}


class Agents(LiveJoiner):
    """A joiner with a clock that is moved by hand."""

    def __init__(self, options: JoinOptions | None = None, **limits: int) -> None:
        super().__init__(options, **limits)
        self.now_s = 1000.0
        self.line = 0

    def send(self, *given: dict[str, Any] | Span) -> None:
        self.line += 1
        found = [each for one in given for each in ([one] if isinstance(one, Span) else spans_of(export(one)))]
        self.receive(found, file="otlp", line=self.line, now_s=self.now_s)

    def after(self, seconds: float) -> list[str]:
        """Return the answers that are complete after some time."""
        self.now_s += seconds
        return [answer.text for answer in self.due(self.now_s)]


Start: TypeAlias = Callable[..., Agents]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that makes joiners, which are closed at the end."""
    started: list[Agents] = []

    def make(options: JoinOptions | None = None, **limits: int) -> Agents:
        started.append(Agents(options, **limits))
        return started[-1]

    yield make
    for each in started:
        each.close()


def question(number: int, *, trace: int = 1, parent: int | None = None, **more: Any) -> list[dict[str, Any]]:
    """An agent that calls a model once, and ends after it."""
    inner = call(number + 1, [user(f"{number}?")], assistant(f"{number}"), at_s=number, trace=trace, parent=number)
    outer = {**agent(number, parent), "traceId": f"{trace:032x}", **more}
    return [{**inner, **LOCAL}, outer]


def test_an_answer_is_given_soon_after_its_outermost_span(start: Start) -> None:
    agents = start()
    inner, outer = question(10)
    agents.send(inner)
    assert agents.after(60) == []
    agents.send(outer)
    assert agents.after(SETTLE_S - 0.1) == []
    assert agents.next_due_s() == pytest.approx(agents.now_s + 0.1)
    assert agents.after(0.1) == ["10"]
    assert agents.next_due_s() is None


def test_each_span_that_arrives_is_followed_by_a_wait(start: Start) -> None:
    agents = start()
    inner, outer = question(10)
    agents.send(outer)
    assert agents.after(SETTLE_S - 0.1) == []
    agents.send(inner)
    assert agents.after(SETTLE_S - 0.1) == []
    assert agents.after(0.1) == ["10"]


def test_a_trace_without_its_outermost_span_is_given_when_it_is_idle(start: Start) -> None:
    agents = start(JoinOptions(idle_s=30))
    agents.send(question(10)[0])
    assert agents.after(29) == []
    assert agents.after(1) == ["10"]


def test_a_parent_in_another_process_is_not_waited_for_long(start: Start) -> None:
    agents = start()
    agents.send(*question(10, parent=7, **REMOTE))
    assert agents.after(PATIENCE_S - 0.1) == []
    assert agents.after(0.1) == ["10"]


def test_messages_in_log_records_that_come_later_are_waited_for(start: Start) -> None:
    agents = start()
    given = spans("openai-v2")
    agents.send(*(each for each in given if not each.is_log))
    assert agents.after(SETTLE_S) == []
    agents.send(*(each for each in given if each.is_log))
    assert "Order 7 is on its way." in agents.after(SETTLE_S)


def test_log_records_wait_for_the_span_that_they_belong_to(start: Start) -> None:
    agents = start()
    given = spans("openai-v2")
    agents.send(*(each for each in given if each.is_log))
    assert agents.after(120) == []
    agents.send(*(each for each in given if not each.is_log))
    assert len(agents.after(SETTLE_S)) == 3


def test_an_answer_without_messages_is_counted_after_a_while(start: Start) -> None:
    agents = start()
    agents.send(*spans("without-content"))
    agents.after(PATIENCE_S - 0.1)
    assert not agents.report.without_content
    agents.after(0.1)
    assert agents.report.without_content.total() == 4


def test_an_export_that_is_repeated_later_is_no_second_answer(start: Start) -> None:
    agents = start()
    for _ in range(3):
        agents.send(*question(10))
        agents.after(IDLE_S)
    assert (agents.report.answers, agents.report.doubled, agents.report.traces) == (1, 4, 1)


def test_an_outermost_span_after_the_judgement_is_no_second_answer(start: Start) -> None:
    agents = start(JoinOptions(idle_s=30))
    inner, outer = question(10)
    agents.send(inner)
    assert agents.after(30) == ["10"]
    agents.send(outer)
    assert agents.after(30) == []
    assert agents.report.late == 1
    assert any("because they came after the answer was complete" in note.text for note in agents.report.notes())


def test_a_call_that_comes_after_the_judgement_is_no_second_answer(start: Start) -> None:
    agents = start()
    inner, outer = question(10)
    agents.send(inner, outer)
    assert agents.after(SETTLE_S) == ["10"]
    agents.send({**call(99, [user("more?")], assistant("more"), trace=1, parent=10), **LOCAL})
    assert agents.after(IDLE_S) == []


def test_a_later_answer_in_the_same_trace_is_given(start: Start) -> None:
    agents = start(JoinOptions(idle_s=30))
    job = 1
    agents.send(*question(10, parent=job, **LOCAL))
    assert agents.after(30) == ["10"]
    agents.send(*question(20, parent=job, **LOCAL))
    assert agents.after(30) == ["20"]
    agents.send({**span(job, None, {}), "traceId": f"{1:032x}"}, *question(30, parent=job, **LOCAL))
    assert agents.after(30) == ["30"]
    assert agents.report.late == 0


def test_calls_of_a_client_are_one_answer_however_far_apart_they_arrive(start: Start) -> None:
    agents = start()
    agents.send(call(1, [user("Where?")], ASKS))
    assert agents.after(60) == []
    agents.send(call(2, [user("Where?"), ASKS, FOUND], assistant("Here."), at_s=60))
    assert agents.after(SETTLE_S) == ["Here."]
    assert (agents.report.answers, agents.report.open) == (1, 0)


def test_a_call_waits_for_an_earlier_one_whose_log_records_are_awaited(start: Start) -> None:
    agents = start()
    first, second = call(1, [user("Where?")], ASKS), call(2, [user("Where?"), ASKS, FOUND], assistant("Here."), at_s=1)
    silent = {**first, "attributes": first["attributes"][:1]}
    agents.send(silent)
    assert agents.after(1) == []
    agents.send(second)
    assert agents.after(SETTLE_S + 1) == []
    agents.send(first)  # complete
    assert agents.after(SETTLE_S) == ["Here."]
    assert agents.report.answers == 1


def test_a_trace_is_not_delayed_for_long(start: Start) -> None:
    agents, found = start(), list[str]()
    agents.send(*question(10, trace=1))
    agents.send(*question(20, trace=2))
    for number in range(30, 50):
        agents.send({**call(number, [user("?")], assistant("!"), trace=1, parent=10), **LOCAL})
        found += agents.after(1)
    assert found == ["20"]


def test_a_call_that_nothing_continues_is_given_when_it_is_idle(start: Start) -> None:
    agents = start(JoinOptions(idle_s=30))
    agents.send(call(1, [user("Where?")], ASKS))
    agents.after(SETTLE_S)
    assert agents.next_due_s() == pytest.approx(agents.now_s - SETTLE_S + 30)
    agents.after(31)
    assert agents.report.open == 1


def test_a_conversation_is_given_when_it_is_idle(start: Start) -> None:
    agents = start(JoinOptions("conversation", idle_s=30))
    agents.send(call(1, [user("Hi")], assistant("Hello")))
    assert agents.after(20) == []
    agents.send(call(2, [user("Hi"), assistant("Hello"), user("Where?")], assistant("There"), at_s=20))
    assert agents.after(20) == []
    assert agents.after(20) == ["There"]


def test_the_end_gives_all_but_running_agents(start: Start) -> None:
    agents = start()
    agents.send(*question(10, trace=1))
    agents.send(question(20, trace=2)[0])
    assert [answer.text for answer in agents.end(agents.now_s)] == ["10"]
    assert agents.report.unfinished == 1
    assert any("still running" in note.text for note in agents.report.notes())


def test_the_end_gives_what_has_been_waiting_for_its_outermost_span(start: Start) -> None:
    agents = start()
    agents.send(question(20)[0])
    assert agents.after(AT_WORK_S) == []
    assert [answer.text for answer in agents.end(agents.now_s)] == ["20"]


def logged(number: int, question: str, *, response: str | None = None, event: str = DETAILS) -> Span:
    """A log record without a trace that has the messages of a call."""
    given = call(number, [user(question)], assistant(f"Answer to {question}"))["attributes"]
    more = [] if response is None else [attribute("gen_ai.response.id", response)]
    record = {"eventName": event, "timeUnixNano": str(10**18 + number), "attributes": [*given, *more]}
    (found,) = spans_of({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})
    return found


def test_a_log_record_without_a_trace_is_an_answer_after_the_wait_for_its_span(start: Start) -> None:
    agents = start(JoinOptions(idle_s=30))
    agents.send(logged(1, "Where?"))
    agents.send(logged(2, "When?"), logged(2, "When?"))
    assert agents.after(29) == []
    assert agents.after(1) == ["Answer to Where?", "Answer to When?"]
    agents.send(logged(2, "When?"))
    assert agents.after(30) == []
    assert (agents.report.traces, agents.report.untraced, agents.report.doubled) == (0, 0, 2)


def test_a_received_log_record_without_a_trace_names_none(start: Start) -> None:
    agents = start()
    agents.send(logged(1, "Where?"))
    (answer,) = agents.end(agents.now_s)
    assert (answer.text, answer.trace_id) == ("Answer to Where?", "")


def test_a_log_record_of_a_response_that_a_span_has_is_not_a_second_answer(start: Start) -> None:
    agents = start()
    record = logged(1, "Where?", response="r1")
    agents.send(record)
    agents.send(call(2, [user("Where?")], assistant("Answer to Where?"), more={"gen_ai.response.id": "r1"}))
    assert agents.after(PATIENCE_S) == ["Answer to Where?"]
    assert agents.after(IDLE_S) == []


def test_other_log_records_without_a_trace_are_counted_and_not_kept(start: Start) -> None:
    agents = start()
    agents.send(*spans_of({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"eventName": "app.started"}]}]}]}))
    assert (agents.report.untraced, agents.next_due_s()) == (1, None)
    assert any("names no trace" in note.text for note in agents.report.notes())


def test_a_large_trace_is_given_before_its_end(start: Start) -> None:
    agents = start(most_bytes_of_trace=100)
    agents.send(question(10)[0])
    assert agents.after(0) == ["10"]
    assert agents.report.cut == 1


def test_a_full_joiner_gives_the_oldest_traces(start: Start) -> None:
    agents = start(most_bytes=1000)
    for number in range(10, 50, 10):
        agents.send(question(number, trace=number)[0])
    assert agents.is_full
    assert agents.after(0)[:2] == ["10", "20"]
    assert not agents.is_full


def test_a_trace_that_grows_while_others_are_given_is_given_once(start: Start) -> None:
    agents = start(most_bytes=1000, most_bytes_of_trace=1000)
    for number in range(10, 50, 10):
        agents.send(question(number, trace=number)[0])
    given = agents.due(agents.now_s)
    assert next(given).text == "10"
    late = {**question(20, trace=20)[0], "spanId": f"{99:016x}", "attributes": [attribute("noise", "x" * 2000)]}
    agents.send(late)
    assert [answer.text for answer in given] == ["20", "30"]
    assert agents.after(0) == []


def as_exported(recorded: list[Span]) -> list[Span]:
    """Return spans in the order of their ends, each after those below it; a recording has them by scope."""

    def key(span: Span) -> tuple[int, int]:
        below = [key(each) for each in recorded if each.parent_id == span.span_id and each.trace_id == span.trace_id]
        ends, heights = zip((span.end_ns, 0), *below, strict=True)
        return max(ends), max(heights) + 1

    return sorted(recorded, key=key)


@pytest.mark.parametrize("name", COMPLETE)
def test_recorded_agents_give_the_same_answers_in_many_exports(start: Start, name: str) -> None:
    rng = random.Random(7)
    given = as_exported(spans(name))
    expected = comparable(join_spans(given)[0])
    for _ in range(5):
        agents, found = start(), list[TracedAnswer]()
        rest = given
        while rest:
            size = rng.randrange(1, 4)
            agents.send(*rest[:size], *rng.choices(given[:1], k=rng.randrange(2)))
            rest = rest[size:]
            agents.now_s += rng.choice((0.1, 1.0, 5.0))
            found += agents.due(agents.now_s)
        found += agents.end(agents.now_s)
        assert comparable(found) == expected
