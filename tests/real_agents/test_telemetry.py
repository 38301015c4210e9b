"""The telemetry of the real Claude Code and Codex: equal to the transcript and the response, or a note says why."""

from pathlib import Path

import pytest
from tests.real_agents.conftest import installed
from tests.real_agents.record import ANSWER, QUESTION
from tests.real_agents.telemetry import run_with_telemetry
from tests.support.transcripts import conversations_in

from agentv.messages.transcripts.turns import answers_of
from agentv.telemetry.joining.joining import join_spans
from agentv.telemetry.otlp.spans import spans_of
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.messages import Message, ToolCall
from agentv.types.usage import Usage

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(300)]


def calls_of(messages: tuple[Message, ...]) -> list[ToolCall]:
    return [call for message in messages for call in message.tool_calls]


def test_telemetry_of_claude_code_equals_its_transcript_and_response(tmp_path: Path) -> None:
    response, transcript, exports = run_with_telemetry(installed("claude"), tmp_path)
    (answer,), report = join_spans([span for export in exports for span in spans_of(export)])
    (given,) = (each.given for one in conversations_in(transcript) for each in answers_of(one))

    assert isinstance(given, EvaluationInput)
    assert answer.text == given.text == response.text == ANSWER
    assert answer.session == given.session_id == response.session
    assert (answer.id, answer.model) == (given.id, given.model)
    assert answer.usage == response.usage
    assert isinstance(given.usage, Usage)
    assert (answer.usage.input, answer.usage.output) == (given.usage.input, given.usage.output)  # type: ignore[union-attr] # equal to a Usage
    assert answer.cost_usd == pytest.approx(given.cost_usd) == pytest.approx(response.cost_usd)
    told = [(call.id, call.tool, call.input) for call in calls_of(answer.messages)]
    assert told == [(call.id, call.tool, call.input) for call in calls_of(given.message_history)]
    assert told == [(call.id, call.tool, call.input) for call in calls_of(response.output_messages or ())]
    assert list(report.notes()) == []


def test_telemetry_of_codex_has_no_answer_report_names_transcripts(tmp_path: Path) -> None:
    response, _, exports = run_with_telemetry(installed("codex"), tmp_path)
    answers, report = join_spans([span for export in exports for span in spans_of(export)])

    assert response.text == ANSWER
    assert answers == []
    assert [note for note in report.notes() if "~/.codex/sessions" in note.text]
    assert QUESTION in str(exports)
    assert ANSWER not in str(exports)
