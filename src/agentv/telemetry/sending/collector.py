"""The collector that `--otel` names: its addresses, headers and limits, from a URL and the standard variables.

https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import unquote, urlsplit, urlunsplit

from msgspec import Struct

from agentv.telemetry.sending.endpoint import Endpoint, checked_url, parse_headers, shown_url
from agentv.types.errors import ConfigError

Signal: TypeAlias = Literal["traces", "logs"]
SIGNALS: tuple[Signal, ...] = ("traces", "logs")
DEFAULT_URL = "http://localhost:4318"
_PREFIX = "OTEL_EXPORTER_OTLP_"
_DEFAULT_TIMEOUT_S = 10.0


class Collector(Struct, frozen=True):
    """A collector with an endpoint for each signal that it gets, by the name of the signal."""

    endpoints: Mapping[str, Endpoint]
    option: str
    """The option that names this collector again, without user-info and query."""

    @property
    def shown(self) -> str:
        """The address in messages."""
        urls = {signal: shown_url(endpoint.url) for signal, endpoint in self.endpoints.items()}
        return next((url.removesuffix(f"/v1/{signal}") for signal, url in urls.items()), "")

    def key(self, signal: str, *, with_content: bool) -> str:
        """Return a name for what is sent to an endpoint; no secret is in it."""
        content = "+content" if with_content else ""
        return f"{shown_url(self.endpoints[signal].url)}{content}"


def find_collector(url: str | None, env: Mapping[str, str]) -> Collector:
    """Return the collector at `url`; without one, that of the standard variables, else the one on this machine.

    Headers, time limit, compression and certificates are always those of the variables. Raises ConfigError for a value
    that cannot be used.
    """
    if url:
        base = _checked(url.rstrip("/"), "--otel")
        for signal in SIGNALS:
            base = base.removesuffix(f"/v1/{signal}")
        return Collector({signal: _endpoint(signal, _joined(base, signal), env) for signal in SIGNALS}, _option(base))
    named = {signal: address for signal in SIGNALS if (address := _named_address(signal, env))}
    if not named:
        named = {signal: _joined(DEFAULT_URL, signal) for signal in SIGNALS if not _is_off(signal, env)}
    if not named:
        raise ConfigError("--otel: OTEL_TRACES_EXPORTER and OTEL_LOGS_EXPORTER are `none`, so nothing would be sent")
    return Collector({signal: _endpoint(signal, address, env) for signal, address in named.items()}, "--otel")


def _named_address(signal: Signal, env: Mapping[str, str]) -> str | None:
    """Return the address that the variables give a signal; None if there is none, or if the signal is off."""
    if _is_off(signal, env):
        return None
    name = f"{_PREFIX}{signal.upper()}_ENDPOINT"
    if env.get(name):
        return _checked(env[name], name)
    base = env.get(f"{_PREFIX}ENDPOINT")
    return _joined(_checked(base, f"{_PREFIX}ENDPOINT"), signal) if base else None


def _is_off(signal: Signal, env: Mapping[str, str]) -> bool:
    return env.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower() == "none"


def _joined(base: str, signal: Signal) -> str:
    parts = urlsplit(base)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/v1/{signal}"))


def _endpoint(signal: Signal, url: str, env: Mapping[str, str]) -> Endpoint:
    def variable(name: str) -> str:
        return env.get(f"{_PREFIX}{signal.upper()}_{name}") or env.get(f"{_PREFIX}{name}") or ""

    if variable("PROTOCOL").strip().lower() == "grpc":
        raise ConfigError(
            f"{_PREFIX}PROTOCOL is grpc, which agentv does not send; name the collector's HTTP port, usually 4318, "
            "and set it to http/protobuf"
        )
    return Endpoint(
        url=url,
        headers=dict(parse_headers(variable("HEADERS"), name=f"{_PREFIX}HEADERS")),
        timeout_s=_timeout_s(variable("TIMEOUT")),
        is_compressed=variable("COMPRESSION").strip().lower() != "none",
        certificate=_file(variable("CERTIFICATE"), "CERTIFICATE"),
        client_certificate=_file(variable("CLIENT_CERTIFICATE"), "CLIENT_CERTIFICATE"),
        client_key=_file(variable("CLIENT_KEY"), "CLIENT_KEY"),
    )


def _file(path: str, name: str) -> str | None:
    """Return the path of a file, None for no path. Raises ConfigError if there is no such file."""
    if path and not Path(path).is_file():
        raise ConfigError(f"{_PREFIX}{name} must be the path of a file; there is no file {path}")
    return path or None


def _timeout_s(milliseconds: str) -> float:
    if not milliseconds:
        return _DEFAULT_TIMEOUT_S
    if not milliseconds.strip().isdecimal() or int(milliseconds) == 0:
        raise ConfigError(f"{_PREFIX}TIMEOUT must be a number of milliseconds above 0, not {milliseconds!r}")
    return int(milliseconds) / 1000


def header_secrets(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of the exporter's headers in the environment, as written and as sent."""
    names = (f"{_PREFIX}{signal}HEADERS" for signal in ("", "TRACES_", "LOGS_", "METRICS_"))
    values = [part.partition("=")[2].strip() for name in names for part in env.get(name, "").split(",")]
    return tuple(dict.fromkeys(form for value in values if value for form in (value, unquote(value))))


def _option(base: str) -> str:
    return f"--otel={shown_url(base)}"


def _checked(url: str, name: str) -> str:
    return checked_url(url, f"{name} must be the URL of an OTLP/HTTP collector, such as {DEFAULT_URL}")
