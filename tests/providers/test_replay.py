import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support import spans as otlp
from tests.support.asking import ask, failure_of, make_request, make_target
from tests.support.logs import ANSWER, SHAPES, conversations, logged, numbered
from tests.support.stored import RUN

from agentv.providers.local.replay import ReplaySettings
from agentv.storage.records.encode import encodable_run
from agentv.storage.records.json_line import encode
from agentv.types.errors import ConfigError, TargetError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.messages import DataPart, Message, ToolCall, tool_calls_of
from agentv.types.provider import ProviderResponse
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage


def write(path: Path, *rows: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def answer_row(case_id: str, text: str, *, target: str = "old", trial: int = 0, **more: JsonValue) -> JsonValue:
    return {"slot": {"suite": "s", "eval_id": case_id, "target": target, "trial": trial}, "text": text, **more}


def replay(tmp_path: Path, **settings: Any) -> ResolvedTarget:
    return make_target("replay", ReplaySettings(**settings), base_dir=tmp_path)


def from_file(tmp_path: Path, *rows: object, trial: int = 0) -> ProviderResponse:
    write(tmp_path / "recorded.jsonl", *rows)
    return ask(replay(tmp_path, file="recorded.jsonl"), make_request(trial=trial))


def test_a_stored_answer_comes_back_with_its_messages_and_usage_at_no_cost(tmp_path: Path) -> None:
    said: JsonValue = [{"role": "assistant", "tool_calls": [{"tool": "lookup"}]}]
    row = answer_row(
        "case-1",
        "On its way.",
        output_messages=said,
        usage={"input": 10, "output": 2, "total": 12},
        cost_usd=0.5,
        finish_reason="stop",
    )

    response = from_file(tmp_path, answer_row("other", "x"), row)

    assert response == ProviderResponse(
        "On its way.",
        output_messages=(Message("assistant", tool_calls=(ToolCall("lookup"),)),),
        usage=Usage(input=10, output=2, total=12),
        cost_usd=0.0,
        finish_reason="stop",
    )


def test_a_results_file_serves_too(tmp_path: Path) -> None:
    row = {
        "eval_id": "case-1",
        "target": "old",
        "trial": 0,
        "candidate_answer": "hi",
        "usage_by": {"target": {"input": 3}},
    }

    response = from_file(tmp_path, row)

    assert (response.text, response.usage) == ("hi", Usage(input=3, total=3))


def test_a_transcript_serves_every_trial(tmp_path: Path) -> None:
    row = {
        "id": "case-1",
        "output_messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "hi"}],
    }

    assert from_file(tmp_path, row, trial=4).text == "hi"


def test_each_trial_has_its_own_answer(tmp_path: Path) -> None:
    rows = [answer_row("case-1", "first"), answer_row("case-1", "second", trial=1)]

    assert from_file(tmp_path, *rows, trial=1).text == "second"
    missing = failure_of(replay(tmp_path, file="recorded.jsonl"), make_request(trial=2))
    assert missing.kind == "target_missing"
    assert missing.message.endswith("has no answer for case 'case-1' in trial 2; it has trials 0, 1")


def test_a_case_that_was_not_recorded_is_an_error_of_its_row(tmp_path: Path) -> None:
    write(tmp_path / "recorded.jsonl", answer_row("other", "x"))

    failure = failure_of(replay(tmp_path, file="recorded.jsonl"))

    assert failure == Failure("target_missing", f"{tmp_path}/recorded.jsonl has no answer for case 'case-1'")


def test_the_latest_generation_counts(tmp_path: Path) -> None:
    rows = [answer_row("case-1", "new", generation=1), answer_row("case-1", "old", generation=0)]

    assert from_file(tmp_path, *rows).text == "new"


def test_what_was_recorded_as_a_failure_fails_again(tmp_path: Path) -> None:
    error = {"kind": "rate_limited", "message": "slow down", "stage": "target"}
    write(tmp_path / "recorded.jsonl", answer_row("case-1", "", error=error))

    assert failure_of(replay(tmp_path, file="recorded.jsonl")) == Failure("rate_limited", "recorded: slow down")


def test_an_answer_whose_judge_failed_is_still_an_answer(tmp_path: Path) -> None:
    error: JsonValue = {"kind": "evaluator_error", "message": "broken judge", "stage": "evaluator"}
    row: JsonValue = {"eval_id": "case-1", "candidate_answer": "hi", "error": error}

    assert from_file(tmp_path, row).text == "hi"


def test_of_several_targets_the_one_with_our_name_is_replayed(tmp_path: Path) -> None:
    theirs, ours = answer_row("case-1", "theirs", target="other"), answer_row("case-1", "ours", target="support")

    assert from_file(tmp_path, theirs, ours).text == "ours"

    write(tmp_path / "recorded.jsonl", theirs, answer_row("case-1", "x", target="third"))
    failure = failure_of(replay(tmp_path, file="recorded.jsonl"))
    assert failure.kind == "config_error"
    assert "has answers of several targets: other, third" in failure.message


def test_a_torn_last_line_is_left_out_and_any_other_bad_line_named(tmp_path: Path) -> None:
    path = tmp_path / "recorded.jsonl"
    write(path, answer_row("case-1", "hi"))
    path.write_text(path.read_text() + '{"slot": {"eval')

    assert ask(replay(tmp_path, file="recorded.jsonl")).text == "hi"

    path.write_text("{torn\n" + path.read_text())
    failure = failure_of(replay(tmp_path, file="recorded.jsonl"))
    assert failure.kind == "config_error"
    assert f"{path}:1: not a valid row" in failure.message


def test_a_large_value_is_read_from_where_the_run_keeps_it(tmp_path: Path) -> None:
    text = "long " * 100_000
    digest = hashlib.sha256(text.encode()).hexdigest()
    run = tmp_path / "runs" / "20260101T000000-abc"
    reference: JsonValue = {"$blob": f"sha256:{digest}", "bytes": len(text), "media_type": "text/plain; charset=utf-8"}
    write(run / "answers.jsonl", {**_object(answer_row("case-1", "")), "text": reference})
    (run / "blobs").mkdir()
    (run / "blobs" / f"sha256-{digest}").write_text(text)

    assert ask(replay(tmp_path, run=str(run)), home=tmp_path).text == text


def test_a_reference_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")

    write(tmp_path / "recorded.jsonl", {"id": "case-1", "text": {"$blob": "sha256:../../secret"}})

    failure = failure_of(replay(tmp_path, file="recorded.jsonl"))

    assert failure.kind == "malformed_reply"
    assert failure.message.startswith("the recorded answer is not a string")


@pytest.mark.parametrize(
    "answer", [{"text": 0}, {"text": []}, {"candidate_answer": False}, {"text": "x", "candidate_answer": 5}]
)
def test_a_recorded_answer_that_is_not_a_string_is_refused(answer: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path / "recorded.jsonl", {"id": "case-1", **answer})
    failure = failure_of(replay(tmp_path, file="recorded.jsonl"))
    assert failure.kind == "malformed_reply"
    assert failure.message.startswith("the recorded answer is not a string")


def test_a_large_value_that_is_gone_is_said(tmp_path: Path) -> None:
    write(tmp_path / "recorded.jsonl", {"id": "case-1", "text": {"$blob": f"sha256:{'0' * 64}"}})

    assert "the answer for case 'case-1' cannot be read" in failure_of(replay(tmp_path, file="recorded.jsonl")).message


def _object(row: JsonValue) -> dict[str, JsonValue]:
    assert isinstance(row, dict)
    return row


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name, called in (("20260101T000000-aaa", "first"), ("20260102T000000-bbb", None)):
        folder = tmp_path / "runs" / name
        write(folder / "answers.jsonl", answer_row("case-1", name[-3:]))
        run = replace(RUN, run_id=name, name=called)
        (folder / "run.json").write_bytes(encode(encodable_run(run)))
    return tmp_path


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("20260101", "aaa"),
        ("first", "aaa"),
        ("latest", "bbb"),
        ("latest~1", "aaa"),
        ("runs/20260101T000000-aaa", "aaa"),
    ],
)
def test_a_run_is_found_as_everywhere_else_or_by_its_folder(home: Path, reference: str, text: str) -> None:
    assert ask(replay(home, run=reference), home=home).text == text


@pytest.mark.parametrize(("reference", "message"), [("2027", "there is no run '2027'"), ("202601", "matches 2 runs")])
def test_an_unclear_run_reference_is_rejected_before_the_run(home: Path, reference: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ask(replay(home, run=reference), home=home)


def test_a_file_that_is_not_there_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"target 'support': there is no recording .*missing\.jsonl"):
        ask(replay(tmp_path, file="missing.jsonl"))


def test_exactly_one_source_is_named() -> None:
    nothing: dict[str, Any] = {}
    for settings in (nothing, {"run": "x", "file": "y"}):
        with pytest.raises(ValueError, match="exactly one of run, file, copilot_log and execution_traces"):
            ReplaySettings(**settings)


def test_a_line_without_an_answer_is_not_an_empty_answer(tmp_path: Path) -> None:
    write(tmp_path / "recorded.jsonl", {"id": "case-1", "txt": "On its way."})
    failure = failure_of(replay(tmp_path, file="recorded.jsonl"))
    assert failure.kind == "unexpected_shape"
    assert failure.message.startswith(
        "the recorded line  $  the answer, `response`, is missing; this line has the keys 'id', 'txt'; "
        "name the fields with `map: {FIELD: PATH}`, such as `map: {prompt: PATH}` `map: {response: PATH}`"
    )


def test_recorded_messages_of_other_programs_are_read_or_refused(tmp_path: Path) -> None:
    call = {"type": "function_call", "name": "delete", "arguments": "{}", "call_id": "c1"}
    response = from_file(tmp_path, {"id": "case-1", "text": "Done.", "messages": [call]})
    assert response.output_messages == (Message("assistant", tool_calls=(ToolCall("delete", {}, id="c1"),)),)
    beside = from_file(tmp_path, {"id": "case-1", "text": "Done.", "tool_calls": [{"tool": "delete"}]})
    assert beside.output_messages == (Message("assistant", "Done.", tool_calls=(ToolCall("delete"),)),)
    write(tmp_path / "recorded.jsonl", {"id": "case-1", "text": "Done.", "messages": [{"role": "assistant", "t": 1}]})
    failure = failure_of(replay(tmp_path, file="recorded.jsonl"))
    assert "output_messages[0] has no content, and its 't' is not understood" in failure.message


@pytest.mark.parametrize(
    "beside",
    [
        {"output_messages": [{"role": "assistant", "content": "Paris"}]},
        {"messages": [{"role": "assistant", "content": "Paris"}], "tool_calls": [{"tool": "find"}]},
        {"candidate_answer": "Paris"},
        {"candidate_answer": "", "output_messages": [{"role": "assistant", "content": "Paris"}]},
    ],
)
def test_an_empty_text_beside_the_answer_is_not_the_answer(tmp_path: Path, beside: dict[str, JsonValue]) -> None:
    assert from_file(tmp_path, {"id": "case-1", "text": "", **beside}).text == "Paris"


@pytest.mark.parametrize("text", ["", "Rome"])
def test_a_recorded_line_with_two_answers_is_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path / "recorded.jsonl", {"id": "case-1", "text": text, "answer": "Paris"})
    failure = failure_of(replay(tmp_path, file="recorded.jsonl"))
    assert failure.kind == "unexpected_shape"
    assert "has another answer under 'answer' than under its own keys; its keys: 'id', 'text', 'answer'" in str(failure)


def test_a_stored_line_is_read_as_it_was_written(tmp_path: Path) -> None:
    said: JsonValue = [{"role": "assistant"}, {"role": "assistant", "content": [{"type": "own-part", "n": 1}]}]
    response = from_file(tmp_path, answer_row("case-1", "x", schema="agentv-answer-1", output_messages=said))
    assert response.output_messages == (
        Message("assistant"),
        Message("assistant", (DataPart("own-part", {"n": 1}),)),
    )


def test_a_byte_order_mark_at_the_start_of_a_recording_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "recorded.jsonl").write_bytes(b'\xef\xbb\xbf{"id": "case-1", "text": "On its way."}\n')
    assert ask(replay(tmp_path, file="recorded.jsonl")).text == "On its way."


def fixture(case_id: str, text: str, **more: JsonValue) -> JsonValue:
    """Return a line of a fixtures file of AgentV 4."""
    output: JsonValue = [{"role": "assistant", "content": text, "tool_calls": [{"tool": "lookup", "input": {"id": 7}}]}]
    return {
        "schema_version": "agentv.replay_fixture.v1",
        "suite": "refunds",
        "test_id": case_id,
        "source_target": "live",
        "output": output,
        "token_usage": {"input": 10, "output": 3, "cached": 2},
        "cost_usd": 0.01,
        **more,
    }


def test_fixtures_of_agentv_are_replayed_by_target_suite_and_attempt(tmp_path: Path) -> None:
    write(
        tmp_path / "fixtures.jsonl",
        fixture("case-1", "other target", source_target="elsewhere"),
        fixture("case-1", "other suite", suite="returns"),
        fixture("case-1", "first", attempt=0),
        fixture("case-1", "second", attempt=1),
    )
    target = replay(tmp_path, file="fixtures.jsonl", recorded_target="live", recorded_suite="refunds")

    first, second = (ask(target, make_request(trial=trial)) for trial in (0, 1))

    assert (first.text, second.text) == ("first", "second")
    assert first.usage == Usage(input=10, output=3, cached_input=2, total=13)
    assert first.output_messages == (Message("assistant", "first", tool_calls=(ToolCall("lookup", {"id": 7}),)),)


def copilot_event(type_: str, **data: JsonValue) -> JsonValue:
    return {"type": type_, "data": data, "id": "e", "timestamp": "2026-01-02T03:04:05Z"}


def test_a_session_of_copilot_answers_every_case(tmp_path: Path) -> None:
    write(
        tmp_path / "sessions" / "a1" / "events.jsonl",
        copilot_event("session.start", sessionId="a1"),
        copilot_event("user.message", content="Fix it."),
        copilot_event("tool.execution_start", toolCallId="c1", toolName="bash", arguments={"command": "ls"}),
        copilot_event("tool.execution_complete", toolCallId="c1", success=True, result={"content": "a.py"}),
        copilot_event("assistant.message", content="Fixed."),
        copilot_event("session.shutdown", modelMetrics={"gpt": {"usage": {"inputTokens": 20, "outputTokens": 4}}}),
    )

    for reference in ("sessions/a1", "sessions/latest"):
        response = ask(replay(tmp_path, copilot_log=reference), make_request())

        assert response.text == "Fixed."
        assert response.usage is not None
        assert response.usage.total == 24
        (call,) = (call for message in response.output_messages or () for call in message.tool_calls)
        assert (call.tool, call.input, call.output) == ("bash", {"command": "ls"}, "a.py")


def test_a_broken_line_of_a_copilot_session_is_named(tmp_path: Path) -> None:
    events = tmp_path / "s" / "events.jsonl"
    write(events, copilot_event("assistant.message", content="Fixed."))
    with events.open("a") as file:
        file.write("{broken\n")

    failure = failure_of(replay(tmp_path, copilot_log="s"), make_request())

    assert (failure.kind, failure.message) == ("malformed_reply", f"{events}:2: not a JSON object")


def span(span_id: str, operation: str, start: int, *, parent: str = "root", **attributes: JsonValue) -> JsonValue:
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return {
        "span_id": span_id,
        "parent_span_id": parent,
        "start_time_unix_nano": str(start),
        "attributes": {"gen_ai.operation.name": operation, **named},
    }


def execution_trace(case_id: str, text: JsonValue, **identity: JsonValue) -> JsonValue:
    """Return an execution trace as AgentV 4 writes it."""
    spans = [
        span("late", "chat", 30, gen_ai__output__messages=text, gen_ai__usage__input_tokens=7),
        span("early", "chat", 10, gen_ai__usage__input_tokens=5, gen_ai__usage__output_tokens=2),
        span(
            "tool",
            "execute_tool",
            20,
            parent="early",
            gen_ai__tool__name="lookup",
            gen_ai__tool__call__arguments='{"id": 7}',
            gen_ai__tool__call__result="found",
        ),
    ]
    return {
        "schema_version": "agentv.execution_trace.v1",
        "eval": {"test_id": case_id, "suite": "orders", "target": "replayed", "source_target": "live", **identity},
        "trace": {"trace_id": "t", "root_span_id": "root", "spans": spans},
    }


@pytest.mark.parametrize("is_list", [True, False])
def test_execution_traces_of_agentv_are_replayed(is_list: bool, tmp_path: Path) -> None:
    said: JsonValue = [{"role": "assistant", "content": "second"}]
    traces = [
        execution_trace("other", "x"),
        execution_trace("case-1", "first", attempt=0),
        execution_trace("case-1", said, attempt=1),
    ]
    text = json.dumps(traces, indent=1) if is_list else "".join(f"{json.dumps(trace)}\n" for trace in traces)
    (tmp_path / "traces").write_text(text)
    target = replay(tmp_path, execution_traces="traces", recorded_target="live", recorded_suite="orders")

    first, second = (ask(target, make_request(trial=trial)) for trial in (0, 1))

    assert (first.text, second.text) == ("first", "second")
    assert first.output_messages == (
        Message("assistant", tool_calls=(ToolCall("lookup", {"id": 7}, output="found"),)),
        Message("assistant", "first"),
    )
    assert first.usage == Usage(input=12, output=2, total=14)
    missing = failure_of(target, make_request(trial=2))
    assert missing.kind == "target_missing"
    assert "no answer for case 'case-1' of target 'live' in trial 2; recorded: live in trial 0" in missing.message


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ("{broken\n", "traces:1: is not JSON"),
        ("[1]", "traces: is not a JSON object"),
        ('{"eval": {"test_id": "a"}}', "has no eval.test_id, or no trace.spans"),
        (json.dumps(execution_trace("a", None)), "has no span `chat` with the content of an answer"),
    ],
)
def test_what_is_no_execution_trace_is_named(written: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "traces").write_text(written)

    failure = failure_of(replay(tmp_path, execution_traces="traces"), make_request())

    assert failure.kind == "malformed_reply"
    assert what in failure.message


@pytest.mark.parametrize("shape", SHAPES)
def test_a_log_of_another_program_is_replayed_by_its_own_ids(tmp_path: Path, shape: str) -> None:
    lines = [numbered(line, number) for number, line in enumerate(conversations(shape))]
    write(tmp_path / "log.jsonl", *lines, *logged("langsmith")[-1:])
    for number, line in enumerate(lines):
        case = f"span-{number}" if shape == "phoenix" else f"log-{number}"
        response = ask(replay(tmp_path, file="log.jsonl"), make_request(eval_case_id=case))
        assert response.text == ANSWER.replace("please", f"please ({number})"), line
        assert response.cost_usd == 0.0


def test_the_calls_model_and_usage_of_a_logged_run_come_back(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", numbered(conversations("langsmith")[1], 1))
    response = ask(replay(tmp_path, file="log.jsonl"), make_request(eval_case_id="log-1"))
    assert [call.tool for call in tool_calls_of(response.output_messages or ())] == ["lookup_order"]
    assert (response.model, response.usage) == ("gpt-4.1-mini", Usage(input=31, output=14, total=45))


def test_a_log_with_keys_of_its_own_is_mapped(tmp_path: Path) -> None:
    paths = {"id": "no", "response": "data.reply"}
    write(tmp_path / "log.jsonl", {"no": 7, "data": {"reply": "Yes."}})
    assert ask(replay(tmp_path, file="log.jsonl", map=paths), make_request(eval_case_id="7")).text == "Yes."
    failure = failure_of(replay(tmp_path, file="log.jsonl"))
    assert failure.kind == "config_error"
    assert "log.jsonl:1: has no case id; name its path with `map: {id: PATH}`; its keys" in failure.message
    with pytest.raises(ValueError, match="Did you mean 'response'"):
        ReplaySettings(file="log.jsonl", map={"respnse": "a"})


@pytest.mark.parametrize(
    "text", ['[{"id": "case-1", "response": "Yes."}]', '{"data": [\n{"id": "case-1", "text": "Yes."}\n]}']
)
def test_a_json_document_is_replayed(tmp_path: Path, text: str) -> None:
    (tmp_path / "log.json").write_text(text)
    assert ask(replay(tmp_path, file="log.json"), make_request()).text == "Yes."


@pytest.mark.parametrize(
    ("text", "message"),
    [("[\n{,\n]", "log.json:2:1  $  the file is not valid JSON"), ("[1]", "log.json:1:1  $  a row must")],
)
def test_a_wrong_json_document_is_an_error_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "log.json").write_text(text)
    failure = failure_of(replay(tmp_path, file="log.json"))
    assert failure.kind == "config_error"
    assert message in failure.message


@pytest.mark.parametrize("name", ["spans.json", "spans.jsonl"])
def test_the_answers_of_an_otlp_export_are_replayed(tmp_path: Path, name: str) -> None:
    said = {"gen_ai.prompt.0.content": "Where?", "gen_ai.completion.0.content": "Here."}
    (tmp_path / name).write_text(json.dumps(otlp.export(otlp.span(1, None, said), otlp.span(2, 1, said))))
    case = f"{1:016x}"
    assert ask(replay(tmp_path, file=name), make_request(eval_case_id=case)).text == "Here."
    inner = failure_of(replay(tmp_path, file=name), make_request(eval_case_id=f"{2:016x}"))
    assert inner.kind == "target_missing"


@pytest.mark.parametrize("start", ["", "\n", "\ufeff \n"])
def test_an_otlp_export_is_recognised_by_its_keys(tmp_path: Path, start: str) -> None:
    said = {"gen_ai.prompt.0.content": "Where?", "gen_ai.completion.0.content": "Here."}
    export = {"schemaUrl": "x", **otlp.export(otlp.span(1, None, said))}
    (tmp_path / "spans.jsonl").write_text(f"{start}{json.dumps(export)}\n")
    assert ask(replay(tmp_path, file="spans.jsonl"), make_request(eval_case_id=f"{1:016x}")).text == "Here."


def test_an_otlp_export_with_a_wrong_part_is_an_error_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "spans.jsonl").write_text('\n{"resourceSpans": ["junk"]}\n')
    failure = failure_of(replay(tmp_path, file="spans.jsonl"))
    assert failure.kind == "config_error"
    assert "spans.jsonl:2:1  $.resourceSpans[0]  must be an object, got str" in failure.message


def test_a_table_of_logged_answers_is_replayed(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text('id,prompt,response\ncase-1,Where?,"Here, please."\n2,When?,Now.\n')
    assert ask(replay(tmp_path, file="log.csv"), make_request()).text == "Here, please."
    assert ask(replay(tmp_path, file="log.csv"), make_request(eval_case_id="2")).text == "Now."
    assert failure_of(replay(tmp_path, file="log.csv"), make_request(eval_case_id="3")).kind == "target_missing"


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("log.jsonl", '{"id": "case-1", "text": "Yes."}\n\n{"id": "case-1", "text": "No."}\n', (1, 3)),
        ("log.jsonl", '{"id": "case-1", "response": "Yes."}\n{"id": "case-1", "response": "No."}\n', (1, 2)),
        ("log.csv", "id,prompt,response\ncase-1,Where?,Here.\ncase-1,Where?,There.\n", (2, 3)),
    ],
)
def test_several_answers_of_a_log_with_one_id_are_an_error(
    tmp_path: Path, name: str, text: str, lines: tuple[int, int]
) -> None:
    (tmp_path / name).write_text(text)
    failure = failure_of(replay(tmp_path, file=name))
    places = " and ".join(f"{tmp_path / name}:{line}" for line in lines)
    assert failure.kind == "config_error"
    assert failure.message == (
        f"{places}: several answers have the id 'case-1'; keep one, or number them with `trial`, from 0"
    )


def test_equal_lines_and_numbered_trials_of_a_log_are_no_error(tmp_path: Path) -> None:
    line = '{"id": "case-1", "text": "Yes."}\n'
    (tmp_path / "log.jsonl").write_text(line + line)
    assert ask(replay(tmp_path, file="log.jsonl"), make_request()).text == "Yes."
    numbered = [f'{{"id": "case-1", "trial": {trial}, "text": "{trial}"}}\n' for trial in range(2)]
    (tmp_path / "log.jsonl").write_text("".join(numbered))
    assert [ask(replay(tmp_path, file="log.jsonl"), make_request(trial=trial)).text for trial in (0, 1)] == ["0", "1"]


def test_a_table_with_columns_of_its_own_is_mapped(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text("no\treply\ttrial\ncase-1\tYes.\t0\n")
    paths = {"id": "no", "response": "reply"}
    assert ask(replay(tmp_path, file="log.tsv", map=paths), make_request()).text == "Yes."
    failure = failure_of(replay(tmp_path, file="log.tsv"))
    assert "log.tsv:2: has no case id; name its path with `map: {id: PATH}`" in failure.message


def test_a_wrong_table_is_an_error_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("id,response\na,b,c\n")
    failure = failure_of(replay(tmp_path, file="log.csv"))
    assert failure.kind == "config_error"
    assert "log.csv:2:1" in failure.message
    assert "this row has 3 cells, but the first row names 2 columns" in failure.message
