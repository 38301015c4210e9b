"""What a span says by its conventions, which are recognised by the attributes that are present, never by a schema URL.

Emitters lag behind the conventions that they name. A span may follow several: of each fact, the first reader that finds
it wins. Each names the commits that its names were read from; docs/reference/traces.md lists them.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec.structs import replace

from agentv.telemetry.contents.contents import CUT, is_cut
from agentv.telemetry.contents.facts import Facts, Kind
from agentv.telemetry.contents.parts import parsed
from agentv.telemetry.conventions.agent_framework import read_agent_framework
from agentv.telemetry.conventions.ai_sdk import read_ai_sdk
from agentv.telemetry.conventions.decorators import AGENTOPS, JUDGMENT, LAMINAR, LANGWATCH, reader_of
from agentv.telemetry.conventions.gen_ai import read_gen_ai
from agentv.telemetry.conventions.gen_ai_events import read_events
from agentv.telemetry.conventions.gen_ai_numbered import read_numbered
from agentv.telemetry.conventions.genkit import read_genkit
from agentv.telemetry.conventions.google_adk import read_google_adk
from agentv.telemetry.conventions.haystack import read_haystack
from agentv.telemetry.conventions.langfuse import read_langfuse
from agentv.telemetry.conventions.livekit import read_livekit
from agentv.telemetry.conventions.logfire import read_logfire
from agentv.telemetry.conventions.mastra import read_mastra
from agentv.telemetry.conventions.mlflow import read_mlflow
from agentv.telemetry.conventions.monocle import read_monocle
from agentv.telemetry.conventions.openinference import read_openinference
from agentv.telemetry.conventions.openllmetry import read_openllmetry
from agentv.telemetry.conventions.pipecat import read_pipecat
from agentv.telemetry.conventions.pydantic_ai import read_pydantic_ai
from agentv.telemetry.conventions.traceai import read_traceai
from agentv.telemetry.conventions.voltagent import read_voltagent
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import whole_number
from agentv.types.errors import MessageError
from agentv.types.json_value import object_of
from agentv.types.messages import ToolCall


class Convention(NamedTuple):
    """A convention: the beginnings of its attributes and events, and its reader."""

    name: str
    prefixes: tuple[str, ...]
    read: Callable[[Span], Facts]
    source: str
    """The repositories and commits in which the names were read, as `owner/name@commit`."""
    unread_kind: Kind | None = None
    """The kind of a span whose messages cannot be read, if nothing else shows its kind."""


CONVENTIONS: Final[Sequence[Convention]] = (
    Convention("AI SDK", ("ai.",), read_ai_sdk, "vercel/ai@ef0018fa5ad7 vercel/ai@0000dc25b6be"),
    Convention(
        "pydantic-ai",
        ("pydantic_ai.", "all_messages_events", "events"),
        read_pydantic_ai,
        "pydantic/pydantic-ai@009c633ff9d9",
    ),
    Convention("LiveKit", ("lk.",), read_livekit, "livekit/agents@d31630f1b0ce"),
    Convention(
        "gen_ai messages",
        ("gen_ai.",),
        read_gen_ai,
        "open-telemetry/semantic-conventions-genai@e8fc57515062 getsentry/sentry-javascript@74959436b2df",
    ),
    Convention("gen_ai events", ("gen_ai.",), read_events, "open-telemetry/semantic-conventions@3c0b5cca3b79"),
    Convention(
        "gen_ai.prompt.N",
        ("gen_ai.prompt", "gen_ai.completion"),
        read_numbered,
        "open-telemetry/semantic-conventions@567ada6aaf23",
    ),
    Convention("OpenInference", ("openinference.", "llm."), read_openinference, "Arize-ai/openinference@00e2b51591f3"),
    Convention(
        "traceAI",
        ("gen_ai.span.kind", "gen_ai.input.messages.", "gen_ai.output.messages."),
        read_traceai,
        "future-agi/traceAI@62c8eab21212",
    ),
    Convention("OpenLLMetry", ("traceloop.",), read_openllmetry, "traceloop/openllmetry@0129a0a5c032"),
    Convention("AgentOps", ("agentops.",), reader_of(AGENTOPS), "AgentOps-AI/agentops@0169502c61f7"),
    Convention("Judgment", ("judgment.",), reader_of(JUDGMENT), "JudgmentLabs/judgeval@99e483f887c5"),
    Convention(
        "Laminar",
        ("lmnr.span.",),
        reader_of(LAMINAR),
        "lmnr-ai/lmnr-python@06dfedbbe5f3 lmnr-ai/lmnr-ts@3dd3a952b647",
    ),
    Convention("LangWatch", ("langwatch.",), reader_of(LANGWATCH), "langwatch/langwatch@22c3ecfa1d03"),
    Convention("Monocle", ("monocle_apptrace.",), read_monocle, "monocle2ai/monocle@012f9844bf52"),
    Convention("Haystack", ("haystack.",), read_haystack, "deepset-ai/haystack@d474bfc29281"),
    Convention("Mastra", ("mastra.",), read_mastra, "mastra-ai/mastra@28da725994f5 mastra-ai/mastra@b81dece1669f"),
    Convention("Genkit", ("genkit:",), read_genkit, "genkit-ai/genkit@620defa7a5a3"),
    Convention(
        "Agent Framework",
        ("workflow.started",),
        read_agent_framework,
        "microsoft/agent-framework@2c48a63c5045",
    ),
    Convention(
        "Google ADK",
        ("gcp.vertex.agent.llm_",),
        read_google_adk,
        "google/adk-js@c638e7e22b37 google/adk-python@ce2eb863b80b",
        "model",
    ),
    Convention(
        "Pipecat",
        ("turn.number", "conversation.type", "metrics.ttfb", "tool_count"),
        read_pipecat,
        "pipecat-ai/pipecat@4c4ee482f22d",
    ),
    Convention("Langfuse", ("langfuse.",), read_langfuse, "langfuse/langfuse-python@52ae5a8e00e5"),
    Convention("MLflow", ("mlflow.span",), read_mlflow, "mlflow/mlflow@00449464c3a4"),
    Convention("VoltAgent", ("entity.type",), read_voltagent, "VoltAgent/voltagent@c17d3e548257"),
    Convention(
        "Logfire",
        ("request_data", "response_data", "logfire.msg_template"),
        read_logfire,
        "pydantic/logfire@015babe384fb",
    ),
)
"""The conventions in order: of each fact, the first that finds it wins."""
_CONTENT = (
    *("ai.prompt", "ai.response.", "ai.result."),
    *("pydantic_ai.", "all_messages_events", "events"),
    *("gen_ai.input.", "gen_ai.output.", "gen_ai.prompt", "gen_ai.completion", "gen_ai.system_instructions"),
    *("gen_ai.request.messages", "gen_ai.response.text", "gen_ai.response.tool_calls"),
    *("llm.input_messages", "llm.output_messages", "input.value", "output.value"),
    "traceloop.entity.",
    *(name for names in (AGENTOPS, JUDGMENT, LAMINAR, LANGWATCH) for name in (*names.input, *names.output)),
    *("lk.", "haystack.", "mastra."),
    *("genkit:input", "genkit:output", "gcp.vertex.agent.llm_"),
    *("lmnr.span.input", "lmnr.span.output"),
    *("input", "output", "agent.messages", "agent.instructions"),
    *("langfuse.observation.input", "langfuse.observation.output", "langfuse.trace."),
    *("mlflow.spanInputs", "mlflow.spanOutputs"),
    *("request_data", "response_data", "input", "output"),
)
"""The beginnings of the attributes that hold messages, in the order of the conventions."""
_DETAILS = "gen_ai.client.inference.operation.details"


def read_facts(span: Span) -> Facts | None:
    """Return what a span says by all its conventions, the first one that says a thing; None if none is known."""
    span = _with_details(span)
    present = 0
    for name in span.attributes:
        present |= _conventions_of(name)
    for event in span.events:
        present |= _conventions_of(event.name)
    merged: dict[str, object] = {}
    for number, convention in enumerate(CONVENTIONS):
        if not present >> number & 1:
            continue
        try:
            facts = convention.read(span)
        except MessageError as error:
            merged.setdefault("problem", f"{convention.name}: {error.at} {error.what}")
            facts = _read_without_content(convention, span)
        for name in Facts.__struct_fields__:
            value = getattr(facts, name)
            if value is None or value == ():
                continue
            known = merged.get(name)
            if not known or (name in ("input", "output") and _says_more(value, known)):
                merged[name] = value
            elif isinstance(known, ToolCall) and isinstance(value, ToolCall):
                merged[name] = _completed(known, value)
    output = merged.get("output")
    if isinstance(output, tuple) and len(output) > 1 and _has_choices(span):
        merged["output"] = output[:1]
    if present and not output and merged.get("kind") != "tool":
        merged.setdefault("problem", _cut_content(span))
    return Facts(**merged) if present else None  # type: ignore[arg-type] # the values of fields of Facts


def _has_choices(span: Span) -> bool:
    """Return True for a request of several answers to choose from; programs use the first one."""
    parameters = object_of(parsed(span.attributes.get("llm.invocation_parameters")))
    count = span.attributes.get("gen_ai.request.choice.count", parameters.get("n"))
    return (whole_number(count) or 1) > 1


def _cut_content(span: Span) -> str | None:
    """Return which messages of a span were cut; None if none were."""
    names = (name for name, value in span.attributes.items() if name.startswith(_CONTENT) and is_cut(value))
    return next((f"$.attributes.{name} {CUT}" for name in names), None)


def _read_without_content(convention: Convention, span: Span) -> Facts:
    """Return what a span says besides its messages, which cannot be read: its kind, its tokens and others."""
    attributes = {name: value for name, value in span.attributes.items() if not name.startswith(_CONTENT)}
    facts = convention.read(replace(span, attributes=attributes, events=()))
    return facts if convention.unread_kind is None else replace(facts, kind=convention.unread_kind)


@lru_cache(maxsize=10_000)
def _conventions_of(name: str) -> int:
    """Return the conventions that an attribute or event belongs to, as the bits of their places in the table."""
    return sum(1 << number for number, each in enumerate(CONVENTIONS) if name.startswith(each.prefixes))


def _with_details(span: Span) -> Span:
    """Return a span with the attributes of the event that has the details of the operation."""
    details = [event for event in span.events if event.name == _DETAILS]
    if not details:
        return span
    attributes = dict(span.attributes)
    for event in details:
        body = object_of(event.body)
        for key, value in {**body, **event.attributes}.items():
            attributes.setdefault(key, value)
    return replace(span, attributes=attributes, events=tuple(each for each in span.events if each.name != _DETAILS))


def _completed(tool: ToolCall, other: ToolCall) -> ToolCall:
    """Return the call of a tool, with the arguments and the result that only another convention has."""
    return replace(
        tool,
        input=other.input if tool.input is None else tool.input,
        output=other.output if tool.output is None else tool.output,
    )


def _says_more(value: object, known: object) -> bool:
    """Return True for messages with content or calls instead of messages without any."""
    return _says_something(value) and not _says_something(known)


def _says_something(messages: object) -> bool:
    return isinstance(messages, tuple) and any(message.content or message.tool_calls for message in messages)
