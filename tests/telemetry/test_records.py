"""Records of Langfuse and LangSmith: the root of each trace is an answer, with what its steps did."""

import json
import random
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.logs import logged
from tests.support.nightly import IS_NIGHTLY
from tests.telemetry.mutations import mutated_structure
from tests.telemetry.test_recorded_traces import CALL, EXPECTED, plain, said, spans

from agentv.cli.main import main
from agentv.messages.logs.reading import LoggedAnswer, read_logged
from agentv.telemetry.joining.joining import join_spans
from agentv.telemetry.joining.records import RecordJoiner
from agentv.telemetry.joining.report import JoinReport
from agentv.telemetry.otlp.spans import Span
from agentv.types.errors import EvalFileError
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.messages import Message
from agentv.types.messages_json import content_text

Record = dict[str, Any]
LANGSMITH = ("langsmith-langchain", "langsmith-openai")
LANGFUSE = ("langfuse", "langfuse-langchain", "langfuse-langchain-3.0")


def joined(records: Iterable[Record], *, is_endless: bool = False) -> list[Record]:
    """Return the records of all lines, as they are read after joining."""
    joiner = RecordJoiner(JoinReport(), is_endless=is_endless)
    found: list[Any] = []
    for number, record in enumerate(records, 1):
        assert joiner.take(record, file="log", line=number)
        found += [each.value for each in joiner.ready()]
    found += [each.value for each in joiner.rest()]
    joiner.close()
    return found


def answers(records: Iterable[Record], **options: Any) -> list[EvaluationInput]:
    read = [read_logged(record) for record in joined(records, **options)]
    return [each.given for each in read if isinstance(each, LoggedAnswer)]


def conversation(given: EvaluationInput) -> list[tuple[str, str, list[tuple[str, object]]]]:
    """Return roles, texts and calls, without a system prompt."""
    last = given.response if isinstance(given.response, Message) else Message("assistant", given.response)
    prompt = () if given.prompt is None else (Message("user", given.prompt),)
    return [
        (each.role, plain(content_text(each.content or "")), [(call.tool, call.input) for call in each.tool_calls])
        for each in (*given.message_history, *prompt, last)
        if each.role != "system"
    ]


def observation(span: Span) -> Record:
    """Return a span of Langfuse's SDK as its server gives the observation: values parsed, times in milliseconds."""
    of_span = {name.removeprefix("langfuse.observation."): value for name, value in span.attributes.items()}
    start, end = (
        datetime.fromtimestamp(moment / 1e9, UTC).isoformat(timespec="milliseconds")
        for moment in (span.start_ns, span.end_ns)
    )
    return {
        "id": span.span_id,
        "traceId": span.trace_id,
        "parentObservationId": span.parent_id or None,
        "type": str(of_span.get("type", "span")).upper(),
        "name": span.name,
        "startTime": start,
        "endTime": end,
        "input": value_of(of_span.get("input")),
        "output": value_of(of_span.get("output")),
        "usageDetails": value_of(of_span.get("usage_details")) or {},
        "model": of_span.get("model.name"),
        "level": "DEFAULT",
        "sessionId": span.attributes.get("session.id"),
    }


def value_of(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text


@pytest.mark.parametrize("name", LANGSMITH)
def test_runs_of_langsmith_are_whole_conversations(name: str) -> None:
    found = answers(logged(name))
    assert list(map(conversation, found)) == EXPECTED
    assert [(each.usage.input, each.usage.output) for each in found if each.usage] == [(102, 12), (36, 4), (38, 2)]
    assert {each.model for each in found} == {"gpt-5-mini"}


@pytest.mark.parametrize("name", LANGFUSE)
def test_observations_of_langfuse_say_the_same_as_its_spans(name: str) -> None:
    recorded = spans(name)
    found = answers(map(observation, recorded))
    assert [conversation(each) for each in found] == EXPECTED
    told, _ = join_spans(recorded)
    assert [conversation(each) for each in found] == list(map(said, told))
    assert [(each.usage.input, each.usage.output) for each in found if each.usage] == [
        (each.usage.input, each.usage.output) for each in told if each.usage
    ]


@pytest.mark.parametrize("name", LANGSMITH)
def test_the_order_of_the_lines_does_not_matter(name: str) -> None:
    records = logged(name)
    for seed in range(20):
        shuffled = random.Random(seed).sample(records, len(records))
        assert list(map(conversation, answers(shuffled))) == EXPECTED


@pytest.mark.parametrize("name", LANGSMITH)
def test_a_root_in_a_stream_has_the_steps_that_came_before_it(name: str) -> None:
    records = sorted(logged(name), key=lambda each: each["start_time"], reverse=True)
    found = answers(records, is_endless=True)
    assert list(map(conversation, found)) == EXPECTED[::-1]


def test_the_root_of_a_stream_does_not_wait_for_later_steps() -> None:
    joiner = RecordJoiner(JoinReport(), is_endless=True)
    root, *steps = logged("langsmith-openai")[:3]
    joiner.take(root, file="log", line=1)
    (record,) = joiner.ready()
    assert record.value == root
    for line, step in enumerate(steps, 2):
        joiner.take(step, file="log", line=line)
    assert list(joiner.ready()) == []
    assert [each.value for each in joiner.rest()] == steps
    joiner.close()


def test_runs_may_list_their_steps() -> None:
    root, *steps = logged("langsmith-openai")[:3]
    (found,) = answers([{**root, "child_runs": steps}])
    assert conversation(found) == EXPECTED[0]


def test_listed_steps_need_no_ids_and_a_root_without_one_is_read_alone() -> None:
    root, *steps = logged("langsmith-openai")[:3]
    nameless = [{name: each[name] for name in each if name not in ("id", "parent_run_id")} for each in steps]
    (found,) = answers([{**root, "child_runs": nameless}])
    assert conversation(found) == EXPECTED[0]
    joiner = RecordJoiner(JoinReport())
    assert not joiner.take({**root, "id": None, "child_runs": steps}, file="log", line=1)
    joiner.close()


def test_a_root_that_has_the_whole_conversation_gets_nothing_twice() -> None:
    records = logged("langsmith-langchain")
    (found,) = answers(each for each in records if each["trace_id"] == records[0]["trace_id"])
    assert [call.tool for message in found.message_history for call in message.tool_calls] == [CALL[0]]


def test_the_messages_of_a_root_come_before_those_of_its_steps() -> None:
    root, *steps = logged("langsmith-openai")[:3]
    earlier = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]
    question, text = {"role": "user", "content": "Where is order 7?"}, "Order 7 is on its way."
    root |= {"inputs": {"messages": [*earlier, question]}}
    for outputs in ({"output": text}, {"role": "assistant", "content": text}):
        (found,) = answers([{**root, "outputs": outputs}, *steps])
        assert [role for role, _, _ in conversation(found)] == [
            *("user", "assistant", "user"),
            *("assistant", "tool", "assistant"),
        ]


def test_a_trace_and_its_outermost_observation_are_one_answer() -> None:
    records = list(map(observation, spans("langfuse")))
    traces = [
        {"id": each["traceId"], "input": None, "output": None, "timestamp": each["startTime"], "htmlPath": "/x"}
        for each in records
        if not each["parentObservationId"]
    ]
    assert [conversation(each) for each in answers([*traces, *records])] == EXPECTED
    downloaded = [
        {"trace": trace, "observations": [each for each in records if each["traceId"] == trace["id"]]}
        for trace in traces
    ]
    assert [conversation(each) for each in answers(downloaded)] == EXPECTED


def test_the_tokens_that_the_server_counted_for_a_run_are_kept() -> None:
    root, *steps = logged("langsmith-openai")[:3]
    (found,) = answers([{**root, "prompt_tokens": 150, "completion_tokens": 20, "total_tokens": 170}, *steps])
    assert found.usage is not None
    assert (found.usage.input, found.usage.output) == (150, 20)


def call(number: int, messages: list[Record], reply: Record) -> Record:
    moment = datetime(2026, 12, 1, 12, 0, number, tzinfo=UTC).isoformat()
    return {
        "id": f"run{number}",
        "trace_id": f"run{number}",
        "run_type": "llm",
        "name": "ChatOpenAI",
        "start_time": moment,
        "end_time": moment,
        "inputs": {"messages": messages},
        "outputs": {
            "choices": [{"message": {"role": "assistant", **reply}}],
            "usage_metadata": {"input_tokens": 10 * number, "output_tokens": number},
        },
    }


TOOLS: list[Record] = [
    {"id": "c1", "type": "function", "function": {"name": "find_order", "arguments": '{"order": "7"}'}}
]
QUESTION: Record = {"role": "user", "content": "Where is order 7?"}
LOOKED_UP: list[Record] = [
    {"role": "assistant", "content": None, "tool_calls": TOOLS},
    {"role": "tool", "tool_call_id": "c1", "content": "On its way."},
]


def test_calls_of_a_client_that_continue_each_other_are_one_answer() -> None:
    first = call(1, [QUESTION], {"content": None, "tool_calls": TOOLS})
    second = call(2, [QUESTION, *LOOKED_UP], {"content": "It is on its way."})
    for records in ([first, second], [second, first]):
        (found,) = answers(records)
        assert [role for role, _, _ in conversation(found)] == ["user", "assistant", "tool", "assistant"]
        assert found.usage is not None
        assert (found.usage.input, found.usage.output) == (30, 3)


def test_a_call_that_nothing_continues_is_an_answer() -> None:
    (found,) = answers([call(1, [QUESTION], {"content": None, "tool_calls": TOOLS})])
    assert conversation(found) == [("user", "Where is order 7?", []), ("assistant", "", [CALL])]


def test_the_next_turn_of_an_agent_does_not_continue_its_call() -> None:
    root, *steps = logged("langsmith-openai")[:2]
    called = steps[0]["outputs"]["choices"][0]["message"]["tool_calls"]
    assert called
    history = [QUESTION, {"role": "assistant", "content": None, "tool_calls": called}, LOOKED_UP[1]]
    later = {**call(59, [*history, {"role": "user", "content": "Thanks!"}], {"content": "You are welcome."})}
    found = answers([root, *steps, later])
    assert [conversation(each)[-1][1] for each in found] == ["Order 7 is on its way.", "You are welcome."]


def test_a_step_whose_parent_was_not_exported_belongs_to_the_only_root() -> None:
    records = logged("langsmith-langchain")
    kept = [each for each in records if each["name"] not in ("model", "tools")]
    assert list(map(conversation, answers(kept))) == EXPECTED


def test_records_without_steps_and_steps_without_a_root_stay_as_they_are() -> None:
    records = [*logged("langsmith"), *logged("langfuse")]
    alone = [each for each in records if "trace" not in each and "observations" not in each]
    steps = [each for each in alone if each.get("parent_run_id") or each.get("parent_observation_id")]
    assert len(steps) == 2
    roots = [each for each in alone if each not in steps]
    assert sorted(map(json.dumps, joined(roots))) == sorted(map(json.dumps, roots))
    assert joined(steps) == steps


def test_steps_that_cannot_be_read_are_reported() -> None:
    root, first, second = logged("langsmith-openai")[:3]
    broken = {**first, "inputs": {"messages": [{"role": "user", "contents": "Where?"}]}}
    report = JoinReport()
    joiner = RecordJoiner(report)
    for line, record in enumerate((root, broken, second), 1):
        joiner.take(record, file="log", line=line)
    list(joiner.rest())
    joiner.close()
    assert report.problems.total() == 1


SCORE = """
evaluators: [{name: looks-up, type: tool_trajectory, mode: any_order, minimums: {find_order: 1}}]
"""


def test_tool_calls_in_steps_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("score.yaml").write_text(SCORE)
    Path("runs.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in logged("langsmith-openai")[:3]))
    with pytest.raises(SystemExit, match="0"):
        main(["score", "runs.jsonl", "--config", "score.yaml", "--no-store"])
    assert "PASS: 1 of 1" in capsys.readouterr().out


def test_with_a_place_for_the_answer_each_record_is_read_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("score.yaml").write_text("evaluators: [{name: says, type: contains, value: way}]\n")
    Path("runs.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in logged("langsmith-openai")[1:3]))
    path = "outputs.choices[0].message.content"
    with pytest.raises(SystemExit, match="3"):
        main(["score", "runs.jsonl", "--config", "score.yaml", "--no-store", "--map", f"response={path}"])
    out = capsys.readouterr().out
    assert "100 % of 1" in out
    assert "! runs.jsonl:1  is an export of LangSmith without an answer" in out


def test_mutated_records_are_read_or_refused() -> None:
    """Any record is given back, as an answer or with an error; the steps of a root are in it."""
    bases = [*map(logged, (*LANGSMITH, "langfuse")), [observation(each) for each in spans("langfuse-langchain")]]
    for seed in range(400 if IS_NIGHTLY else 40):
        rng = random.Random(seed)
        records = [mutated_structure(record, rng) for record in rng.choice(bases)]
        joiner = RecordJoiner(JoinReport(), is_endless=rng.random() < 0.5)
        taken = [joiner.take(record, file="log", line=line) for line, record in enumerate(records)]
        found = [*joiner.ready(), *joiner.rest()]
        joiner.close()
        assert bool(found) == any(taken)
        for each in found:
            with suppress(EvalFileError):
                read_logged(each.value)
