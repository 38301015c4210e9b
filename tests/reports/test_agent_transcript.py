"""The transcript of an agent as text: every call, and what its tool returned, in each form in which it is recorded."""

import pytest
from tests.support.stored import make_answer, make_case, make_result

from agentv.reports.html.parts import case_element
from agentv.reports.run.transcript import transcript_text
from agentv.reports.run.views import RowDetail
from agentv.types.json_value import JsonObject
from agentv.types.messages import DataPart, Message, TextPart, ToolCall, TraceEvent

OPENAI = (
    Message("assistant", tool_calls=(ToolCall("search", {"q": "weather"}, id="c1"),)),
    Message("tool", "Sunny\nwind: low", tool_call_id="c1"),
    Message("assistant", "It is sunny."),
)
READ: JsonObject = {"id": "t1", "name": "read", "input": {"path": "a.py"}}
ANTHROPIC = (
    Message("assistant", (TextPart("Let me look."), DataPart("tool_use", READ))),
    Message(
        "user",
        (DataPart("tool_result", {"tool_use_id": "t1", "content": [{"type": "text", "text": "x = 1\n"}]}),),
    ),
    Message("user", (DataPart("tool_result", {"tool_use_id": "t1", "content": "gone", "is_error": True}),)),
)
OWN = (Message("assistant", "Go.", tool_calls=(ToolCall("fetch", {}, {"status": 200, "body": "x" * 120}),)),)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (OPENAI, 'search({"q":"weather"})\nsearch -> \n    Sunny\n    wind: low\nassistant: It is sunny.'),
        (ANTHROPIC, 'assistant: Let me look.\nread({"path":"a.py"})\nread -> x = 1\nread failed -> gone'),
        (OWN, f'assistant: Go.\nfetch({{}}) -> \n    {{\n      "status": 200,\n      "body": "{"x" * 120}"\n    }}'),
    ],
    ids=["openai", "anthropic", "own"],
)
def test_each_call_is_followed_by_what_its_tool_returned(messages: tuple[Message, ...], expected: str) -> None:
    assert transcript_text(messages) == expected


def test_an_output_of_a_trace_keeps_its_lines() -> None:
    trace = (
        TraceEvent("tool_call", name="ls", input={"dir": "."}),
        TraceEvent("tool_result", name="ls", output="a\n b"),
    )
    assert transcript_text((), trace) == 'tool_call: ls {"dir":"."}\ntool_result: ls -> \n    a\n     b'


def test_a_long_output_is_cut_unless_all_of_it_is_wanted() -> None:
    message = Message("tool", "\n".join(f"row {number}" for number in range(40)), name="sql")
    assert transcript_text([message]).endswith("\n    row 29\n    (10 more lines)")
    assert transcript_text([message], is_full=True).endswith("\n    row 39")
    wide = Message("tool", "x" * 9_000, name="sql")
    assert transcript_text([wide]).endswith("x… (1,000 more characters)")


@pytest.mark.parametrize("messages", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_a_page_has_calls_and_outputs(messages: tuple[Message, ...]) -> None:
    detail = RowDetail(make_result(), make_case(), make_answer(output_messages=messages))
    shown = case_element([detail], number=1, run_id="r1", with_suite=False, with_target=False).markup
    called, returned = ("search", "Sunny\nwind: low") if messages is OPENAI else ("read", "x = 1\n")
    assert f"<code>{called}</code>" in shown
    assert f"<code>{called} -&gt;</code>" in shown
    assert returned in shown
