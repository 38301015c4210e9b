"""What `--otlp` does for a command that reads logs: receive the traces of running agents instead of reading files."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from msgspec import Struct

from agentv.types.errors import ConfigError

if TYPE_CHECKING:
    from agentv.engine.logs.live_traces import Deliver, MakeReceiver

DEFAULT_ADDRESS = "127.0.0.1:4318"
TOKEN_VARIABLE = "AGENTV_SCORE_OTLP_TOKEN"  # noqa: S105 - the name of a variable
_DEFAULT_HOST, _DEFAULT_PORT = "127.0.0.1", 4318
_LARGEST_PORT = 65535

OTLP_OPTIONS = (
    click.option(
        "--otlp",
        is_flag=False,
        flag_value=DEFAULT_ADDRESS,
        metavar="[HOST:PORT]",
        help=f"Receive traces of running agents (OTLP over HTTP) until Ctrl-C (default: {DEFAULT_ADDRESS}).",
    ),
    click.option("--otlp-token", metavar="TEXT", help="Token that senders need; required if HOST is not loopback."),
)


class OtlpOptions(Struct, frozen=True):
    """Where traces are received."""

    host: str
    port: int
    token: str | None = None

    @property
    def address(self) -> str:
        """The value of the option."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def take_otlp_options(given: dict[str, Any], files: Sequence[str]) -> OtlpOptions | None:
    """Return the values of OTLP_OPTIONS, None without `--otlp`, and remove them from `given`.

    Raises ConfigError for values that cannot be used, and click.UsageError unless either `files` or `--otlp` is given.
    """
    address, token = given.pop("otlp"), given.pop("otlp_token")
    context = click.get_current_context()
    if address is None:
        if context.get_parameter_source("otlp_token") is ParameterSource.COMMANDLINE:
            raise click.UsageError("--otlp-token requires --otlp")
        if not files:
            raise click.UsageError("name a FILE (- is standard input), or receive traces with --otlp")
        return None
    if files:
        raise click.UsageError("--otlp receives traces instead of reading files; omit FILE, or omit --otlp")
    variable = next(str(each.envvar) for each in context.command.params if each.name == "otlp_token")
    return make_otlp_options(address, token, variable)


def make_otlp_options(address: str, token: str | None, variable: str = TOKEN_VARIABLE) -> OtlpOptions:
    """Return an address with its token. Raises ConfigError for one that cannot be used."""
    from agentv.types.hosts import is_loopback

    host, port = parse_address(address)
    if token is not None and not (token.strip() and token.isascii() and token.isprintable()):
        raise ConfigError("--otlp-token must have printable ASCII characters only, because it is sent in a header")
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"--otlp {address} can be reached from other machines, so it needs a token; set {variable} or --otlp-token"
        )
    return OtlpOptions(host, port, token)


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, `HOST` or `PORT`. Raises ConfigError."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or text.endswith("]"):
        is_port = text.strip().isdecimal()
        host, port = ("", text.strip()) if is_port else (text.strip(), "")
    is_bracketed = host.startswith("[") and host.endswith("]")
    is_valid = is_bracketed or not set(host) & set("/:@[] ")
    if not is_valid or (port and not (port.isascii() and port.isdecimal() and int(port[:6]) <= _LARGEST_PORT)):
        raise ConfigError(f"--otlp {text!r} is not an address; write HOST:PORT, such as {DEFAULT_ADDRESS}")
    return host.strip("[]") or _DEFAULT_HOST, int(port) if port else _DEFAULT_PORT


def receiver_maker(options: OtlpOptions, show: Callable[[str], None]) -> MakeReceiver:
    """Return what makes a receiver that takes its port at once. `show` gets what is wrong in requests.

    It raises ConfigError for an address that cannot be used.
    """
    from agentv.execution.otlp_receiver import OtlpReceiver

    def make(deliver: Deliver, is_full: Callable[[], bool]) -> AbstractAsyncContextManager[object]:
        receiver = OtlpReceiver(
            deliver,
            host=options.host,
            port=options.port,
            token=options.token,
            is_full=is_full,
            on_problem=show,
        )
        try:
            receiver.bind()
        except (OSError, UnicodeError) as error:
            raise ConfigError(f"--otlp {options.address}: {_why(error)}") from None
        return started(receiver)

    @asynccontextmanager
    async def started(receiver: OtlpReceiver) -> AsyncIterator[None]:
        async with receiver:
            show(announcement(receiver.url, options))
            yield

    return make


def _why(error: OSError | UnicodeError) -> str:
    import errno

    if isinstance(error, socket.gaierror | UnicodeError):
        return "the name of the host cannot be resolved"
    if error.errno == errno.EADDRINUSE:
        return "the port is in use; end the program that listens there, or choose another port (0: a free one)"
    return f"cannot be used: {os.strerror(error.errno or 0).lower()}"


def announcement(url: str, options: OtlpOptions) -> str:
    """Return where traces are received, and how a program is made to send them there."""
    from agentv.types.hosts import is_unspecified, url_of

    if is_unspecified(options.host):
        url = url_of(socket.gethostname(), int(url.rpartition(":")[2]))
    variables: Mapping[str, str] = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        **({} if options.token is None else {"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20TOKEN"}),
    }
    lines = [f"  export {name}={value}" for name, value in variables.items()]
    return "\n".join([f"Receiving traces at {url}. Set these variables for your agent:", *lines, "Ctrl-C ends it."])
