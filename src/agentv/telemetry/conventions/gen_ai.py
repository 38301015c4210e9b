"""The semantic conventions from version 1.37 on: messages as attributes."""

from collections.abc import Mapping
from functools import lru_cache

from agentv.telemetry.contents.chunks import whole_output
from agentv.telemetry.contents.contents import listed_messages, system_of, unwrapped
from agentv.telemetry.contents.facts import Facts, Kind
from agentv.telemetry.contents.parts import call_of, parsed, read_rows
from agentv.telemetry.contents.tool_calls import tool_call
from agentv.telemetry.conventions.session import session_of
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import first, text_at, token_usage, unread, whole_number
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message
from agentv.types.usage import Usage, known_cost

_KINDS: Mapping[str, Kind] = {
    "chat": "model",
    "text_completion": "model",
    "completion": "model",
    "generate_content": "model",
    "responses": "model",
    "acompletion": "model",  # LiteLLM's names
    "aresponses": "model",
    "atext_completion": "model",
    "anthropic_messages": "model",
    "invoke_agent": "agent",
    "invoke_workflow": "agent",
    "invoke_graph": "agent",  # several agents of Strands
    "invoke_swarm": "agent",
    "conversation": "agent",
    "initiate_chats": "agent",
    "execute_tool": "tool",
    "agent.run": "agent",
    "workflow.run": "agent",
    "tool.execute": "tool",  # Mastra before version 1
}
_ARGUMENTS = (
    *("gen_ai.tool.call.arguments", "gen_ai.tool.arguments", "gen_ai.tool.input", "tool_arguments", "gen_ai.prompt"),
    *("gcp.vertex.agent.tool_call_args", "tool.parameters"),
)
_RESULTS = (
    *("gen_ai.tool.call.result", "gen_ai.tool.result", "gen_ai.tool.output", "tool_response"),
    *("gcp.vertex.agent.tool_response", "tool.result"),
)
_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
_INPUT_OF_SENTRY = "gen_ai.request.messages"
_RESPONSE = {"gen_ai.response.text", "gen_ai.response.tool_calls"}
_WEAVE_WORKFLOW = "weave.openai_agents.task.workflow_name"
"""The name of a run of the OpenAI Agents SDK, whose span has no operation."""
_KIND_KEYS = {"traceloop.span.kind", "openinference.span.kind", "langfuse.observation.type", "mlflow.spanType"}
"""What other conventions name the kind of a span by."""


def read_gen_ai(span: Span) -> Facts:
    """Read the attributes of version 1.37 and later, and those that a later version renamed."""
    attributes = span.attributes
    operation = text_at(attributes, "gen_ai.operation.name")
    kind: Kind | None = None if operation is None else _KINDS.get(operation, "step")
    if attributes.get("langsmith.span.kind") == "prompt":  # a template, which LangSmith names `chat`, too
        kind = "step"
    is_unnamed = kind is None and "gen_ai.workflow.name" in attributes  # as OpenLIT's graph that failed
    if is_unnamed or _WEAVE_WORKFLOW in attributes:
        kind = "agent"
    is_request = text_at(attributes, "llm.request.type") in ("chat", "completion")
    is_guess = kind is None and not is_request and not _KIND_KEYS & attributes.keys() and _is_model_call(span)
    if kind is None and (is_request or is_guess):
        kind = "tool" if is_guess and "tool.name" in attributes else "model"
    tool, recorded, messages = None, {}, {}
    if kind == "tool":
        called = unwrapped(first(attributes, *_ARGUMENTS))
        found = first(attributes, *_RESULTS)
        found = unwrapped(attributes.get("gen_ai.completion")) if found is None else found  # as LangSmith
        tool = tool_call(text_at(attributes, "gen_ai.tool.name", "tool.name"), _tool_id(attributes), called, found)
    else:
        recorded = {key: attributes.get(key) for key in (_INPUT, _INPUT_OF_SENTRY, _OUTPUT)}
        recorded[_OUTPUT] = whole_output(parsed(recorded[_OUTPUT]))
        messages = {key: listed_messages(value, f"$.attributes.{key}") or () for key, value in recorded.items()}
    return Facts(
        kind=kind,
        is_guess=is_guess,
        agent=text_at(attributes, "gen_ai.agent.name"),
        workflow=text_at(attributes, "gen_ai.workflow.name", _WEAVE_WORKFLOW),
        system=system_of(attributes.get("gen_ai.system_instructions")),
        input=messages.get(_INPUT) or messages.get(_INPUT_OF_SENTRY, ()),
        output=messages.get(_OUTPUT) or (() if kind == "tool" else _response(attributes)),
        tool=tool,
        usage=usage_at(attributes, "gen_ai.usage"),
        problem=unread(recorded, messages, "a list of messages") or _wrong_count(attributes),
        cost_usd=known_cost(first(attributes, "gen_ai.usage.cost", "gen_ai.cost.total_cost", "operation.cost")),
        model=text_at(attributes, "gen_ai.response.model", "gen_ai.request.model"),
        session=session_of(attributes),
        response_id=text_at(attributes, "gen_ai.response.id"),
        previous_id=text_at(
            attributes, "gen_ai.request.previous_response_id", "gen_ai.openai.request.previous_response_id"
        ),
    )


def _is_model_call(span: Span) -> bool:
    attributes = span.attributes
    has_counts = any(key.startswith("gen_ai.usage.") for key in attributes)
    names = ("gen_ai.prompt", "gen_ai.completion", "gen_ai.output.messages")
    has_answer = any(key.startswith(names) for key in attributes) or any(
        event.name in ("gen_ai.choice", "gen_ai.content.completion") for event in span.events
    )
    return has_answer or (has_counts and "gen_ai.request.model" in attributes)


def _tool_id(attributes: JsonObject) -> JsonValue:
    kwargs = parsed(attributes.get("gen_ai.tool.call.arguments"))
    inner = kwargs.get("kwargs") if isinstance(kwargs, Mapping) else None
    return first(attributes, "gen_ai.tool.call.id", "tool.id") or (
        inner.get("tool_call_id") if isinstance(inner, Mapping) else None
    )


def _response(attributes: JsonObject) -> tuple[Message, ...]:
    """Return the texts and the calls that Sentry has as two lists."""
    if not _RESPONSE & attributes.keys():
        return ()
    text, listed = parsed(attributes.get("gen_ai.response.text")), parsed(attributes.get("gen_ai.response.tool_calls"))
    calls = [call_of(each) for each in (listed if isinstance(listed, list) else ()) if isinstance(each, Mapping)]
    if text is None and not calls:
        return ()
    content = "\n".join(map(str, text)) if isinstance(text, list) else text
    return read_rows([{"role": "assistant", "content": content, "tool_calls": calls}], "$.attributes.gen_ai.response")


def usage_at(attributes: JsonObject, prefix: str) -> Usage | None:
    """Return the token counts whose attributes begin with a prefix, such as `gen_ai.usage`."""
    counts = (first(attributes, *names) for names in _usage_names(prefix))
    return token_usage(*counts)


@lru_cache
def _usage_names(prefix: str) -> tuple[tuple[str, ...], ...]:
    """Return the attributes with the tokens of the input, the output, the cache and the reasoning."""
    return tuple(
        tuple(f"{prefix}.{name}" for name in names)
        for names in (
            ("input_tokens", "prompt_tokens"),
            ("output_tokens", "completion_tokens"),
            ("cache_read.input_tokens", "cache_read", "cache_read_input_tokens", "cached_input_tokens"),
            ("reasoning.output_tokens", "reasoning_tokens", "details.reasoning_tokens"),
        )
    )


def _wrong_count(attributes: JsonObject) -> str | None:
    """Return what is wrong with a count of tokens that is not one; None if there is no such count."""
    names = (f"gen_ai.usage.{side}_tokens" for side in ("input", "output"))
    for name in names:
        count = attributes.get(name)
        if count is not None and whole_number(count) is None:
            return f"$.attributes.{name} is not a whole number of tokens: {count!r}"
    return None
