"""Datasets of logged conversations: their questions become cases, the recorded answers references."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.loading.specs import SPECS
from tests.support.logs import ANSWER, QUESTION, SHAPES, conversations, logged, numbered
from tests.support.spans import export, span

from agentv.loading.suites.suites import load_suite
from agentv.types.cases import BrokenCase, EvalCase, EvalSuite, EvaluatorConfig
from agentv.types.errors import EvalFileError
from agentv.types.messages import Message
from agentv.types.messages_json import content_text

CHECK = "execution: {evaluators: [{name: same, type: contains, value: '{{ expected }}'}]}\n"
TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "Where is 1001?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "function": {"name": "find", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "shipped"},
    {"role": "assistant", "content": "It is on its way."},
]


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()


def suite(rows: Sequence[Mapping[str, Any]] | str, source: str = "{file: log.jsonl}", before: str = CHECK) -> EvalSuite:
    text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
    Path("log.jsonl").write_text(text)
    Path("suite.yaml").write_text(f"{before}evalcases: {source}\n")
    return load_suite("suite.yaml", specs=SPECS)


def cases(rows: Sequence[Mapping[str, Any]], source: str = "{file: log.jsonl}", before: str = CHECK) -> list[EvalCase]:
    return [case for case in suite(rows, source, before).cases if isinstance(case, EvalCase)]


def is_without_question(row: Mapping[str, Any]) -> bool:
    return "choices" in row and "messages" not in row  # a stored completion


@pytest.mark.parametrize("shape", SHAPES)
def test_a_log_of_every_shape_becomes_cases(shape: str) -> None:
    rows = [row for row in conversations(shape) if not is_without_question(row)]
    read = cases(rows)
    assert len(read) == len(rows)
    for case in read:
        asked = content_text(case.input_messages[-1].content) if case.input_messages else ""
        assert (asked, case.input_messages[-1].role) == (QUESTION, "user")
        assert [content_text(each.content) for each in case.expected_messages] == [ANSWER]
        assert [each.settings["value"] for each in case.evaluators or () if isinstance(each, EvaluatorConfig)] == [
            ANSWER
        ]


def test_a_conversation_is_cut_at_the_last_question() -> None:
    [case] = cases([{"id": "a", "messages": TURNS, "session_id": "s1", "model": "m"}])
    assert [(each.role, each.content) for each in case.input_messages] == [
        ("system", "Be brief."), ("user", "Hello"), ("assistant", "Hello!"), ("user", "Where is 1001?"),
    ]  # fmt: skip
    assert case.expected_messages == (Message("assistant", "It is on its way."),)
    assert (case.id, case.conversation_id, case.metadata) == ("a", "s1", {"model": "m"})


def test_a_step_of_a_trace_is_no_case_and_is_reported() -> None:
    rows = logged("langsmith")
    read = suite(rows)
    assert len(list(read.cases)) == len(rows) - 1
    [warning] = [each.render() for each in read.warnings]
    assert warning == "log.jsonl:5:1  $  warning: no case, because it is a part of a trace: LangSmith tool run"


def test_the_id_of_an_export_is_that_of_its_conversation() -> None:
    rows = [numbered(row, number) for number, row in enumerate(conversations("phoenix"))]
    assert [case.id for case in cases(rows)] == [f"span-{number}" for number in range(len(rows))]


def test_a_failed_conversation_is_a_case_without_a_reference() -> None:
    read = cases(
        [{"id": "a", "messages": TURNS[:2]}], before="execution: {evaluators: [{name: l, type: contains, value: a}]}\n"
    )
    assert [(case.id, len(case.input_messages), case.expected_messages) for case in read] == [("a", 2, ())]


def test_a_column_with_messages_is_named() -> None:
    rows = [{"no": 7, "data": {"turns": TURNS}, "shop": "Rome"}]
    [case] = cases(rows, "{file: log.jsonl, columns: {id: no, messages: data.turns, metadata.shop: shop}}")
    assert (case.id, case.metadata, len(case.input_messages)) == ("7", {"shop": "Rome"}, 4)


def test_columns_may_be_paths() -> None:
    rows = [{"data": {"q": "Where?", "a": ["no", "Here."]}, "n": 1}]
    [case] = cases(rows, "{file: log.jsonl, columns: {input: data.q, expected: 'data.a[-1]'}}", before="")
    assert case.input_messages == (Message("user", "Where?"),)
    assert case.expected_messages == (Message("assistant", "Here."),)


def test_a_template_wins_over_what_was_logged() -> None:
    source = "{file: log.jsonl, case: {expected_outcome: 'As good as {{ expected }}', tags: [logged]}}"
    [case] = cases([{"id": "a", "messages": TURNS}], source, before="")
    assert case.expected_outcome == "As good as It is on its way."
    assert [each.role for each in case.input_messages] == ["system", "user", "assistant", "user"]


def test_a_row_with_an_expected_answer_is_no_log() -> None:
    [case] = cases([{"prompt": "1 + 1?", "response": "3", "expected": "2"}])
    assert case.expected_messages == (Message("assistant", "2"),)


def test_a_table_may_be_a_log() -> None:
    Path("log.csv").write_text("id,prompt,response,latency_ms\nx,Where?,Here.,310\n")
    [case] = cases([], "{file: log.csv}")
    assert (case.id, case.expected_messages) == ("x", (Message("assistant", "Here."),))
    assert case.metadata == {"duration_ms": 310.0}


def test_wrong_messages_are_errors_with_their_line() -> None:
    rows: list[Mapping[str, Any]] = [
        {"id": "a", "messages": TURNS},
        {"id": "b", "messages": [{"role": "user", "contents": "Hello"}]},
    ]
    with pytest.raises(EvalFileError) as caught:
        suite(rows)
    [problem] = str(caught.value).splitlines()
    assert problem.startswith("log.jsonl:2:")
    assert "messages[0]" in problem


def test_a_completion_without_its_question_is_an_error() -> None:
    row = next(row for row in conversations("openai") if is_without_question(row))
    with pytest.raises(EvalFileError, match=r"log.jsonl:1:1 .* has no question; .*columns: {messages: PATH"):
        suite([row])


def test_a_late_wrong_line_is_a_broken_case() -> None:
    rows: list[Mapping[str, Any]] = [{"id": f"a{n}", "messages": TURNS} for n in range(1200)]
    read = list(suite([*rows, {"id": "b", "messages": []}]).cases)
    assert len(read) == 1201
    assert isinstance(read[-1], BrokenCase)


def spans(number: int) -> dict[str, Any]:
    said = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": f"{number}?",
        "gen_ai.completion.0.content": "Yes.",
    }
    return export(span(2 * number, None, said), span(2 * number + 1, 2 * number, said))


@pytest.mark.parametrize("name", ["log.jsonl", "log.json"])
def test_the_conversations_of_an_otlp_export_are_cases(name: str) -> None:
    exports = [spans(number) for number in range(1, 1200)]
    Path(name).write_text(json.dumps(exports) if name == "log.json" else "".join(json.dumps(e) + "\n" for e in exports))
    Path("suite.yaml").write_text(f"{CHECK}evalcases: {{file: {name}}}\n")
    read = [case for case in load_suite("suite.yaml", specs=SPECS).cases if isinstance(case, EvalCase)]
    assert [content_text(case.input_messages[0].content) for case in read] == [
        f"{number}?" for number in range(1, 1200)
    ]
    assert read[0].expected_messages == (Message("assistant", "Yes."),)


def test_a_page_of_an_api_is_a_dataset() -> None:
    Path("page.json").write_text(json.dumps({"data": conversations("langfuse"), "meta": {"page": 1}}))
    read = cases([], "{file: page.json}")
    assert [content_text(case.input_messages[-1].content) for case in read] == [QUESTION] * len(
        conversations("langfuse")
    )


RETRIEVED = {"expected": "4", "data": [{"id": 1, "question": "one?"}, {"id": 2, "question": "two?"}]}


def test_a_column_of_objects_does_not_replace_its_row() -> None:
    Path("rows.json").write_text(json.dumps([{"question": "2 + 2?", **RETRIEVED}, {"query": "2 + 2?", **RETRIEVED}]))
    named = "{file: rows.json, columns: {input: query}}"
    with pytest.raises(EvalFileError, match=r"rows.json:1:1 .* there is no column 'query'"):
        suite([], named)
    with pytest.raises(EvalFileError, match=r"rows.json:1:1 .* the row has no question"):
        suite([], "{file: rows.json}")
    Path("rows.json").write_text(json.dumps([{"query": "2 + 2?", **RETRIEVED}]))
    [case] = cases([], named)
    assert (case.input_messages[0].content, case.expected_messages[0].content) == ("2 + 2?", "4")


@pytest.mark.parametrize("columns", ["", ", columns: {input: query}"])
def test_a_file_of_one_row_is_no_page(columns: str) -> None:
    row = {("query" if columns else "question"): "2 + 2?", **RETRIEVED}
    Path("row.json").write_text(json.dumps(row))
    [case] = cases([], f"{{file: row.json{columns}}}")
    assert (case.input_messages[0].content, case.expected_messages[0].content) == ("2 + 2?", "4")


def test_the_records_of_a_page_may_have_named_columns() -> None:
    Path("page.json").write_text(json.dumps({"data": [{"id": "a", "query": "2 + 2?"}]}))
    [case] = cases(
        [],
        "{file: page.json, columns: {input: query}}",
        before="execution: {evaluators: [{name: l, type: contains, value: a}]}\n",
    )
    assert (case.id, case.input_messages[0].content) == ("a", "2 + 2?")


def test_pages_in_a_list_are_exports() -> None:
    rows = conversations("langfuse")
    Path("pages.json").write_text(json.dumps([{"data": rows[:1]}, {"data": rows[1:]}]))
    assert len(cases([], "{file: pages.json}")) == len(rows) > 1


@pytest.mark.parametrize("start", ["", "\n"])
def test_an_otlp_export_is_recognised_by_its_keys(start: str) -> None:
    [case] = suite(f"{start}{json.dumps({'schemaUrl': 'x', **spans(1)})}\n").cases
    assert isinstance(case, EvalCase)
    assert content_text(case.input_messages[0].content) == "1?"


def test_an_otlp_export_with_a_wrong_part_is_an_error_with_its_line() -> None:
    wrong = {"resourceSpans": [*spans(1)["resourceSpans"], {"scopeSpans": {"spans": [1]}}, "junk"]}
    with pytest.raises(EvalFileError) as caught:
        suite(f"{json.dumps(spans(1))}\n{json.dumps(wrong)}\n")
    assert [line for line in str(caught.value).splitlines() if "warning" not in line] == [
        "log.jsonl:2:1  $.resourceSpans[1].scopeSpans  must be a list of objects, got dict",
        "log.jsonl:2:1  $.resourceSpans[2]  must be an object, got str",
    ]
