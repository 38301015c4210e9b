from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.judging import make_context

from agentv.scoring.results.sources import parse_source, source_text
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import PromptInputs
from agentv.types.messages import Message, TextPart, ToolCall

MESSAGES = (
    Message(role="assistant", tool_calls=(ToolCall("search", {"q": "x"}),)),
    Message(role="assistant", content=(TextPart("one"), TextPart("two"))),
    Message(role="assistant", content={"answer": 4}),
)
CONTEXT = make_context(
    "the answer",
    output_messages=MESSAGES,
    context={"a": {"b": [10, {"c": True}]}, "odd.key": "odd", "n": None, "f": 1.5},
    diff="+ line",
)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("response", "the answer"),
        ("prompt", "May I return it?"),
        ("ground_truth", "Yes, within 30 days."),
        ("reference_answer", "Yes, within 30 days."),
        ("groundTruth", "Yes, within 30 days."),
        ("outputMessages.1.content", "onetwo"),
        ("context.a.b.0", "10"),
        ("context.a.b.-1.c", "true"),
        ("context.a", '{"b":[10,{"c":true}]}'),
        ('context.["odd.key"]', "odd"),
        ('context["odd.key"]', "odd"),
        ("context.f", "1.5"),
        ("metadata.difficulty", "hard"),
        ("output_messages.1", "onetwo"),
        ("output_messages.1.content", "onetwo"),
        ("output_messages.1.content.0.value", "one"),
        ("output_messages.-1.content.answer", "4"),
        ("output_messages.0.tool_calls.0.input.q", "x"),
        ("diff", "+ line"),
    ],
)
def test_a_path_leads_to_text(path: str, text: str) -> None:
    assert source_text(CONTEXT, path) == text


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("context.missing", "the source 'context.missing' finds nothing: there is nothing of that name"),
        ("context.n", "the source 'context.n' finds nothing: there is nothing of that name"),
        ("context.a.b.9", "the source 'context.a.b.9' finds nothing: there is nothing of that name"),
        (
            "output_messages.0.content",
            "the source 'output_messages.0.content' finds nothing: there is nothing of that name",
        ),
        ("response.x", "the source 'response.x' finds nothing: there is nothing of that name"),
        ("files.out.txt", "'files.out.txt' needs a workspace, and this answer has none"),
        ("answer", "'answer' is not a source; allowed: response, prompt, ground_truth, context.PATH"),
    ],
)
def test_a_path_that_leads_nowhere_is_an_error_never_an_empty_text(path: str, message: str) -> None:
    with pytest.raises(EvaluatorError) as caught:
        source_text(CONTEXT, path)
    assert str(caught.value).startswith(message)


def test_a_message_without_content_is_its_json() -> None:
    assert source_text(CONTEXT, "output_messages.0").startswith('{"role":"assistant","tool_calls":')


def test_a_prompt_that_was_not_given_is_no_empty_text() -> None:
    with pytest.raises(EvaluatorError, match="the source 'prompt' finds nothing: this answer has no prompt"):
        source_text(make_context(prompt_inputs=PromptInputs("")), "prompt")


def test_what_an_answer_does_not_have_is_said() -> None:
    with pytest.raises(EvaluatorError, match="finds nothing: this answer has no output_messages"):
        source_text(make_context(), "output_messages.0")


@pytest.mark.parametrize("path", ["", ".", "context", "context.", "context..a", "[0]", 'context.["a', "files."])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"is not a path|is not a source"):
        parse_source(path)


def test_files_keep_their_dots() -> None:
    assert source_text(CONTEXT, "files.src/a.b.py", read_file=lambda path: f"<{path}>") == "<src/a.b.py>"


@given(st.text())
def test_no_path_breaks_the_reader(path: str) -> None:
    try:
        found: Any = source_text(CONTEXT, path)
    except EvaluatorError:
        return
    assert isinstance(found, str)
