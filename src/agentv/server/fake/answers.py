"""What the fake model says. Always the same for the same question, so that a suite can be tried without a key."""

import json
import re

from msgspec.structs import replace

from agentv.server.fake.conversation import CHARACTERS_PER_TOKEN, Question, Reply, Tool, ToolUse
from agentv.server.fake.examples import example_object, example_of
from agentv.server.fake.fields import as_object
from agentv.server.fake.generated import generated_reply
from agentv.server.fake.verdicts import judge_reply
from agentv.types.messages_json import compact_json

CALLS_TOOL = "calls-tool"
"""The model of this name calls the first tool it is given before it answers."""

_ECHOED = 300
_STEP = re.compile(r"^@(call|say) +(.+)$", re.MULTILINE)


def answer(question: Question) -> Reply:
    """Return the reply.

    A judge's prompt gets a verdict (verdicts.py), that of `agentv generate` what it asks for (generated.py). Lines
    `@call TOOL {"json": "arguments"}` and `@say TEXT` in what the user says are steps, one a turn. The model
    `calls-tool`, and every model that is told to, calls a tool with arguments made from its schema. Who asks for JSON
    gets an example of the schema; all others what they said.
    """
    reply = _reply_to(question)
    if question.thinks:
        reply = replace(reply, thinking="The user said something; I repeat it.")
    limit = (question.max_tokens or 0) * CHARACTERS_PER_TOKEN
    if question.max_tokens is not None and len(reply.text) > limit:
        reply = replace(reply, text=reply.text[:limit], finish="length")
    return reply


def _reply_to(question: Question) -> Reply:
    verdict = judge_reply(question)
    if verdict is not None:
        return Reply(verdict)
    step = _scripted(question)
    if step is not None:
        return step
    result = _result(question)
    wants_tool = question.must_call is not None or question.base_model == CALLS_TOOL
    if question.tools and wants_tool and result is None:
        tool = next((tool for tool in question.tools if tool.name == question.must_call), question.tools[0])
        return _calling(question, tool)
    made = generated_reply(question)
    if made is not None:
        return Reply(made)
    if question.schema is not None:
        return Reply(compact_json(example_of(question.schema)))
    return Reply(f"You said: {question.said[:_ECHOED]}" if result is None else f"The tool answered: {result[:_ECHOED]}")


def _result(question: Question) -> str | None:
    """Return what the tool answered that the model has yet to use; None when it waits for none."""
    last = question.turns[-1] if question.turns else None
    return last.text if last is not None and last.role == "tool" else None


def _scripted(question: Question) -> Reply | None:
    """Return the next step that the user's own words ask for; None when they ask for none."""
    at = next((i for i in range(len(question.turns) - 1, -1, -1) if _is_script(question, i)), None)
    if at is None:
        return None
    steps = _STEP.findall(question.turns[at].text)
    done = sum(turn.role == "tool" for turn in question.turns[at:])
    kind, words = steps[min(done, len(steps) - 1)]
    if kind == "say":
        return Reply(words)
    if done >= len(steps):
        return Reply(f"The tool answered: {(_result(question) or '')[:_ECHOED]}")
    name, _, given = words.partition(" ")
    tool = next((tool for tool in question.tools if tool.name == name), Tool(name, {}))
    try:
        arguments = as_object(json.loads(given)) if given else example_object(tool.schema)
    except ValueError as error:
        return Reply(f"The arguments of @call {name} are no JSON: {error}")
    return Reply(tool_uses=(ToolUse(name, arguments, _id(question, done), tool.custom),), finish="tool")


def _is_script(question: Question, index: int) -> bool:
    turn = question.turns[index]
    return turn.role == "user" and _STEP.search(turn.text) is not None


def _calling(question: Question, tool: Tool) -> Reply:
    arguments = {"input": "some input"} if tool.custom else example_object(tool.schema)
    return Reply(tool_uses=(ToolUse(tool.name, arguments, _id(question, 0), tool.custom),), finish="tool")


def _id(question: Question, step: int) -> str:
    return f"call_{question.digest[:16]}{step}"
