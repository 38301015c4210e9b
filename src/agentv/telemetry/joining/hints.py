"""What makes an instrumentation record messages, by the name of its scope."""

from typing import Final

SEMCONV: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"
CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_LATEST = f"set {SEMCONV}=gen_ai_latest_experimental and {CAPTURE}=span_only"
_LOGS = f"set {CAPTURE}=true, and export logs, too: they have the messages"
_NO_CALLS = f"it records no model calls; also instrument with opentelemetry-instrumentation-genai-openai, and {_LATEST}"
_CLIENT = (
    "it records no messages; also instrument the model's client, such as openai, with OpenInference or OpenLLMetry"
)
_CLAUDE = (
    "set OTEL_LOGS_EXPORTER=otlp, OTEL_LOG_USER_PROMPTS=1 and OTEL_LOG_TOOL_DETAILS=1 (older versions log no answers), "
    "or score its transcripts in ~/.claude/projects instead"
)
_CODEX = (
    "Codex logs prompts with log_user_prompt = true under [otel], but never its answers; score its transcripts in "
    "~/.codex/sessions instead"
)
_OTHER = f"see the documentation of the instrumentation for an option that records messages ({CAPTURE} for many)"
_OPENLLMETRY = "set TRACELOOP_TRACE_CONTENT=true"
_GEMINI = f"{_OPENLLMETRY}; it records only the last part of streams, unlike openinference-instrumentation-google-genai"
_OPENINFERENCE = "set OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_OUTPUTS to false"
_HINTS: Final = (
    ("com.anthropic.claude_code", _CLAUDE),
    ("com.anthropic.sdk", "set ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE=content"),
    ("codex_otel", _CODEX),
    ("opentelemetry.instrumentation.genai.openai_agents", _NO_CALLS),
    ("opentelemetry.instrumentation.genai", _LATEST),
    ("opentelemetry.util.genai", _LATEST),
    ("opentelemetry.instrumentation.openai_v2", _LOGS),
    ("opentelemetry.instrumentation.vertexai", _LOGS),
    ("opentelemetry.instrumentation.google_genai", _LATEST),
    (
        "opentelemetry.instrumentation.openai_agents",
        "it records no answers of the chat API; use the Responses API, or openinference-instrumentation-openai-agents",
    ),
    ("opentelemetry.instrumentation.botocore", _LOGS),
    ("opentelemetry.instrumentation.google_generativeai", _GEMINI),
    ("opentelemetry.instrumentation", _OPENLLMETRY),
    ("@traceloop/instrumentation", _OPENLLMETRY),
    ("@opentelemetry/instrumentation-openai", _LOGS),
    ("@elastic/opentelemetry-instrumentation-openai", _LOGS),
    ("openlit", f"set {CAPTURE}=true, and not capture_message_content=False"),
    ("gcp.vertex.agent", f"set {CAPTURE}=true, in older versions ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true"),
    ("agent_framework", "set ENABLE_SENSITIVE_DATA=true, or call enable_instrumentation(enable_sensitive_data=True)"),
    ("haystack", "set HAYSTACK_CONTENT_TRACING_ENABLED=true"),
    ("semantic_kernel", "set SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true"),
    ("autogen-core", _CLIENT),
    ("azure.core.tracing", "set AZURE_TRACING_GEN_AI_CONTENT_RECORDING_ENABLED=true"),
    ("azure.ai", "set AZURE_TRACING_GEN_AI_CONTENT_RECORDING_ENABLED=true"),
    ("litellm", "set litellm.turn_off_message_logging=False"),
    ("langsmith", "set LANGSMITH_HIDE_INPUTS=false and LANGSMITH_HIDE_OUTPUTS=false"),
    ("openinference", _OPENINFERENCE),
    ("@arizeai/openinference", _OPENINFERENCE),
    ("pydantic-ai", "use InstrumentationSettings(include_content=True)"),
    ("logfire", "use InstrumentationSettings(include_content=True), and no scrubbing of messages"),
    ("langfuse", "do not set capture_input=False or capture_output=False"),
    ("ai", "set recordInputs and recordOutputs of experimental_telemetry to true"),
    ("gen_ai", "set recordInputs and recordOutputs of telemetry to true"),
    ("mlflow", "call the autolog() of your framework without log_traces=False"),
)
"""By the beginning of a scope's name; the first that matches counts."""


def content_hint(scope: str) -> str:
    """Return what makes the instrumentation with this scope record messages."""
    return next(
        (hint for start, hint in _HINTS if scope == start or scope.startswith((f"{start}.", f"{start}-"))), _OTHER
    )
