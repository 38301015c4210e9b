"""`agentv traces show` and `agentv score` on files, folders and streams of traces."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.spans import export
from tests.telemetry.test_joining import ASKS, FOUND, assistant, call, user

from agentv.cli.main import main

RECORDED = Path(__file__).parents[1] / "fixtures" / "traces"
CONFIG = "evaluators: [{type: contains, name: way, value: way}]\ngates: none\n"
Call = Callable[..., tuple[int, str]]


@pytest.fixture
def agentv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    (tmp_path / ".git").mkdir()
    (tmp_path / "config.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)

    def call_main(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        return int(left.value.code or 0), capsys.readouterr().out

    return call_main


def judged() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]


def score(agentv: Call, *arguments: str) -> tuple[int, str]:
    return agentv("score", *arguments, "--config", "config.yaml", "-o", "out.jsonl")


def test_show_prints_the_conversations_and_their_facts(agentv: Call) -> None:
    shutil.copy(RECORDED / "pydantic-ai.pb", "a.pb")
    code, out = agentv("traces", "show", "a.pb")
    assert code == 0
    assert "a.pb:1  agent shop  gpt-5-mini  116 + 12 tokens" in out
    assert "\n  span " in out
    assert '  assistant  find_order({"order":"7"})\n  tool       Order 7 is on its way.\n' in out
    assert out.endswith("\n3 answers in 8 spans of 3 traces\n")


def test_show_says_what_supplies_missing_messages(agentv: Call) -> None:
    shutil.copy(RECORDED / "without-content.pb", "a.pb")
    code, out = agentv("traces", "show", "a.pb", "--json")
    shown = json.loads(out)
    assert (code, shown["answers"]) == (5, [])
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only" in shown["notes"][0]
    code, out = score(agentv, "a.pb")
    assert code == 5
    assert "4 answers have no messages in the traces of opentelemetry.instrumentation.genai.openai" in out


def test_show_prints_transcripts_and_other_logs(agentv: Call) -> None:
    shutil.copy(RECORDED.parent / "transcripts" / "claude.jsonl", "a.jsonl")
    Path("b.jsonl").write_text('{"prompt": "Where?", "response": "On its way."}\n{"hello": 1}\n')
    code, out = agentv("traces", "show", "a.jsonl", "b.jsonl")
    assert code == 3
    assert out.startswith("a.jsonl:3  claude-opus-5-5  400 + 40 tokens")
    assert " -> 20 euros" in out
    assert "b.jsonl:1\n  user       Where?\n  assistant  On its way.\n" in out
    assert "! b.jsonl:2  the answer, `response`, is missing" in out
    assert out.endswith("\n2 answers\n")


def test_a_folder_of_compressed_spans_and_logs_is_scored(agentv: Call) -> None:
    Path("traces/inner").mkdir(parents=True)
    for name, place in (("openai-v2.pb", "spans"), ("openai-v2.logs.pb", "inner/logs")):
        Path(f"traces/{place}.pb.gz").write_bytes(gzip.compress((RECORDED / name).read_bytes()))
    code, out = score(agentv, "traces")
    assert code == 0, out
    assert "3 of 3" in out
    sources = sorted((each["source"] for each in judged()), key=lambda each: each.get("part", 1))
    assert [each.get("part", 1) for each in sources] == [1, 2, 3]
    assert {each["file"] for each in sources} == {"traces/spans.pb.gz"}
    assert all(len(each["trace_id"]) == 32 and len(each["span_id"]) == 16 for each in sources)


def test_a_stored_answer_has_the_ids_of_its_span(agentv: Call) -> None:
    shutil.copy(RECORDED / "pydantic-ai.pb", "a.pb")
    score(agentv, "a.pb")
    [run] = Path(".agentv/runs").iterdir()
    answers = [json.loads(line) for line in (run / "answers.jsonl").read_text().splitlines()]
    assert {len(each["origin"]["span_id"]) for each in answers} == {16}
    rows = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    assert {each["span_id"] for each in rows} == {each["origin"]["span_id"] for each in answers}


FIRST = call(1, [user("Where?")], ASKS)
SECOND = call(2, [user("Where?"), ASKS, FOUND], assistant("On its way."), at_s=1)


def test_the_spans_of_an_answer_may_be_in_several_files(agentv: Call) -> None:
    Path("b.jsonl").write_text(json.dumps(export(FIRST)) + "\n")
    Path("a.jsonl").write_text(json.dumps(export(SECOND)) + "\n" + json.dumps(export(FIRST)) + "\n")
    code, out = score(agentv, "a.jsonl", "b.jsonl")
    assert code == 0, out
    [one] = judged()
    assert (one["source"]["file"], one["source"]["line"], one["verdict"]) == ("a.jsonl", 1, "pass")
    assert one["inputSnapshot"]["usage"]["input"] == 20


def test_a_resume_scores_what_was_added_and_completes_an_open_answer(agentv: Call) -> None:
    lines = [json.dumps(export(each)) + "\n" for each in (call(9, [user("Hi")], assistant("No way.")), FIRST)]
    Path("a.jsonl").write_text("".join(lines))
    assert score(agentv, "a.jsonl")[0] == 0
    with Path("a.jsonl").open("a") as file:
        file.write(json.dumps(export(SECOND)) + "\n")
    code, out = agentv("resume", "latest")
    assert code == 0, out
    [run] = Path(".agentv/runs").iterdir()
    rows = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    assert sorted(row["line"] for row in rows) == [1, 2, 3]


def test_whole_conversations_are_scored_on_request(agentv: Call) -> None:
    asked = [user("Where?"), assistant("On its way."), user("Thanks")]
    turns = [call(1, asked[:1], asked[1]), call(2, asked, assistant("Welcome."), at_s=1)]
    Path("a.jsonl").write_text(json.dumps(export(*turns)) + "\n")
    score(agentv, "a.jsonl")
    assert len(judged()) == 2
    Path("out.jsonl").unlink()
    score(agentv, "a.jsonl", "--unit", "conversation")
    [one] = judged()
    assert len(one["inputSnapshot"]["messageHistory"]) == 3


def test_a_broken_file_of_protocol_buffers_is_one_clear_error(agentv: Call) -> None:
    Path("a.pb").write_bytes((RECORDED / "pydantic-ai.pb").read_bytes()[:1000])
    code, out = score(agentv, "a.pb")
    assert code == 3
    assert "! a.pb:1  not an OTLP export in protocol buffers: the message is truncated" in out


def test_spans_that_the_sdk_printed_are_joined(agentv: Call) -> None:
    messages = {"gen_ai.input.messages": json.dumps([user("Where?")]), "gen_ai.operation.name": "chat"}
    inner = {"name": "chat", "context": {"trace_id": "0x1", "span_id": "0x2"}, "parent_id": "0x3",
             "start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:01Z", "kind": "SpanKind.CLIENT",
             "attributes": {**messages, "gen_ai.output.messages": json.dumps([assistant("On its way.")])}}  # fmt: skip
    outer = {**inner, "name": "run", "context": {"trace_id": "0x1", "span_id": "0x3"}, "parent_id": None,
             "attributes": {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}}  # fmt: skip
    Path("a.json").write_text("".join(json.dumps(each, indent=4) + "\n" for each in (inner, outer)))
    code, out = score(agentv, "a.json")
    assert code == 0, out
    [one] = judged()
    assert (one["source"]["span_id"], one["inputSnapshot"]["metadata"]["agent"]) == ("3", "shop")
