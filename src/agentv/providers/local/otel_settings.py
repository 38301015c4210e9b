"""The settings of `otel: true`: how long to wait for spans, where to receive them, and the variables of a command.

https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from agentv.telemetry.joining.hints import CAPTURE, SEMCONV
from agentv.telemetry.sending.endpoint import checked_url
from agentv.types.errors import ConfigError
from agentv.types.hosts import is_loopback

DEFAULT_WAIT_S: Final = 2.0
MAX_WAIT_S: Final = 60.0
OtelWait: TypeAlias = Annotated[
    float, Meta(description="With `otel`: how many seconds to wait for late spans after an answer, at most.")
]

OtelForward: TypeAlias = Annotated[
    bool | str,
    Meta(
        description=(
            "With `otel`: also pass what arrives on to an OpenTelemetry collector: its URL, or true for that of the "
            "standard variables."
        )
    ),
]

DEFAULT_LISTEN: Final = "127.0.0.1:4318"
"""The address to which exporters of OTLP over HTTP send without configuration."""

_EXAMPLE = "http://localhost:4318"
_ENDPOINT, _PROTOCOL = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL"
_SIGNALS: Final = ("TRACES", "LOGS")
_OWN: Final = (
    "TRACEPARENT",
    _ENDPOINT,
    _PROTOCOL,
    *(f"OTEL_EXPORTER_OTLP_{signal}_{name}" for signal in _SIGNALS for name in ("ENDPOINT", "PROTOCOL")),
)
"""The variables that `otel: true` sets in any case."""
_DEFAULTS: Final[Mapping[str, str]] = {
    "OTEL_TRACES_EXPORTER": "otlp",
    "OTEL_LOGS_EXPORTER": "otlp",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_BSP_SCHEDULE_DELAY": "200",
    "OTEL_BLRP_SCHEDULE_DELAY": "200",
    SEMCONV: "gen_ai_latest_experimental",
    CAPTURE: "span_only",
    "TRACELOOP_TRACE_CONTENT": "true",
    "AZURE_TRACING_GEN_AI_CONTENT_RECORDING_ENABLED": "true",
    "SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE": "true",
}
"""The variables that `otel: true` sets unless the user does: send spans soon, and with messages."""

_PROXIES: Final = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_LOOPBACK: Final = "127.0.0.1"


def check_wait(wait_s: float) -> None:
    """Raise ValueError for a wait that is too long, or none."""
    if not 0 <= wait_s <= MAX_WAIT_S:
        raise ValueError(f"otel_wait_s must be a number of seconds from 0 to {MAX_WAIT_S:g}")


def check_forward(forward: bool | str, *, otel: bool) -> None:  # noqa: FBT001 - the value of a setting
    """Raise ValueError for a collector without `otel`, or one that is no URL."""
    if forward is not False and not otel:
        raise ValueError("otel_forward requires `otel: true`")
    if isinstance(forward, str):
        try:
            checked_url(forward, f"otel_forward must be true or the URL of a collector, such as {_EXAMPLE}")
        except ConfigError as error:
            raise ValueError(str(error)) from None


def check_variables(env: Mapping[str, str], *, otel: bool) -> None:
    """Raise ValueError for a variable of a command that `otel: true` sets, too."""
    both = sorted(set(env) & set(_OWN)) if otel else []
    if both:
        raise ValueError(f"env must not set {', '.join(both)}: `otel` sets it, so that the spans arrive at agentv")


def span_variables(*, url: str, token: str, traceparent: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that make a command send its spans to the receiver at `url`.

    `environment` has the variables that the command gets without these.
    """
    endpoint = f"{url}/row/{token}"
    own = {"TRACEPARENT": traceparent, _ENDPOINT: endpoint, _PROTOCOL: "http/protobuf"}
    for signal in _SIGNALS:
        # Where the user has set them, these count before the general ones.
        own[f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"] = f"{endpoint}/v1/{signal.lower()}"
        own[f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"] = "http/protobuf"
    for name in ("no_proxy", "NO_PROXY"):
        if not environment.keys().isdisjoint(_PROXIES):
            own[name] = ",".join(filter(None, (environment.get(name), _LOOPBACK)))
    return own | {name: value for name, value in _DEFAULTS.items() if name not in environment}


def why_no_spans(environment: Mapping[str, str]) -> str:
    """Return what makes a command with these environment variables send spans."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return "unset OTEL_SDK_DISABLED, which is `true`"
    exporter = environment.get("OTEL_TRACES_EXPORTER", "otlp")
    if "otlp" not in exporter:
        return f"unset OTEL_TRACES_EXPORTER, which is `{exporter}`"
    if any(name.startswith("LANGFUSE_") for name in environment):
        return "Langfuse sends to its own server; also add an OTLP exporter to the global tracer provider"
    return (
        "instrument it with OpenTelemetry and an OTLP/HTTP exporter whose endpoint is not in the code, and end "
        "the program without `os._exit` or a signal, so that it sends its last spans"
    )


def parse_listen(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`. Raises ValueError."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise ValueError(f"otel_listen must be HOST:PORT with a port from 1 to 65535, such as {DEFAULT_LISTEN}")
    return host, int(port)


def check_receiver(listen: str, *, token: str | None, headers: Mapping[str, str], otel: bool) -> None:
    """Raise ValueError for an address that cannot be used, one without a token that it needs, or a header of ours."""
    host, _ = parse_listen(listen)
    if otel and not token and not is_loopback(host):
        raise ValueError(f"otel_listen: {host} can be reached from other machines, so `otel_token` is required")
    if otel and any(name.lower() == "traceparent" for name in headers):
        raise ValueError("headers must not set traceparent: `otel` sends one for each request")


def check_sdk(*, otel: bool) -> None:
    """Raise ValueError if the package that `otel: true` of a `python` target needs is not installed."""
    if otel and (find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None):
        raise ValueError("otel needs the package opentelemetry-sdk: pip install opentelemetry-sdk")
