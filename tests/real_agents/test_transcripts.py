"""The transcripts of the real agents: equal to what their target providers read while they ran."""

from pathlib import Path

import pytest
from tests.real_agents.conftest import installed
from tests.real_agents.model_server import CACHED_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS, REASONING_TOKENS
from tests.real_agents.record import ANSWER, QUESTION
from tests.real_agents.transcripts import run_agent, run_program
from tests.support.transcripts import conversations_in

from agentv.messages.transcripts.turns import answers_of
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.evaluation_input import output_messages as messages_of
from agentv.types.messages import Message
from agentv.types.usage import Usage

pytestmark = [pytest.mark.real_agents, pytest.mark.nightly, pytest.mark.timeout(300)]


def test_a_transcript_is_equal_to_the_providers_response(agent: str, tmp_path: Path) -> None:
    response, paths = run_agent(agent, tmp_path)
    (given,) = (answer.given for path in paths for one in conversations_in(path) for answer in answers_of(one))
    assert isinstance(given, EvaluationInput)

    assert (given.text, given.session_id) == (response.text, response.session)
    assert calls_of(messages_of(given) or ()) == calls_of(response.output_messages or ())
    assert given.usage is not None
    assert response.usage is not None
    for name in ("input", "output", "cached_input", "reasoning", "total"):
        assert getattr(given.usage, name) == getattr(response.usage, name)
    assert given.cost_usd == pytest.approx(response.cost_usd)
    if response.model is not None:
        assert given.model == response.model


@pytest.mark.parametrize("program", ["gemini", "opencode"])
def test_a_transcript_of_another_program_has_what_the_model_served(program: str, tmp_path: Path) -> None:
    path = run_program(installed(program), tmp_path)
    (given,) = (answer.given for one in conversations_in(path) for answer in answers_of(one))
    assert isinstance(given, EvaluationInput)

    assert given.text == ANSWER
    assert QUESTION in str(given.message_history[0].content)
    calls = [call for message in given.message_history for call in message.tool_calls]
    assert len(calls) == 3
    assert "20 euros" in str(calls[0].output)
    assert (tmp_path / "workspace" / "new.txt").read_text() == "new\n"
    assert given.usage == Usage(
        4 * INPUT_TOKENS,
        4 * OUTPUT_TOKENS,
        4 * CACHED_TOKENS,
        4 * REASONING_TOKENS,
        4 * (INPUT_TOKENS + OUTPUT_TOKENS),
        4,
    )


def calls_of(messages: tuple[Message, ...]) -> list[object]:
    """Return the texts and calls of messages, without times and ids."""
    return [
        (message.role, message.content, [(call.tool, call.input, call.output) for call in message.tool_calls])
        for message in messages
    ]
