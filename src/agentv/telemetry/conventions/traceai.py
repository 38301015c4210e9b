"""traceAI of Future AGI: the attributes of OpenInference by names that begin with `gen_ai`."""

from msgspec.structs import replace

from agentv.telemetry.contents.facts import Facts
from agentv.telemetry.conventions.openinference import read_openinference
from agentv.telemetry.conventions.session import session_of
from agentv.telemetry.otlp.spans import Span

_NAMES = (
    ("gen_ai.span.kind", "openinference.span.kind"),
    ("gen_ai.input.messages.", "llm.input_messages."),
    ("gen_ai.output.messages.", "llm.output_messages."),
)


def read_traceai(span: Span) -> Facts:
    """Read numbered attributes, and the input and the output where these say nothing."""
    attributes = {_renamed(name): value for name, value in span.attributes.items()}
    facts = read_openinference(replace(span, attributes=attributes))
    return replace(facts, session=facts.session or session_of(span.attributes))


def _renamed(name: str) -> str:
    for start, known in _NAMES:
        if name.startswith(start):
            return known + name.removeprefix(start)
    return name
