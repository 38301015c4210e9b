"""`agentv serve-fake`: serve fake model APIs to try agentv without a key."""

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack

import click

from agentv.types.json_value import JsonObject

DEFAULT_PORT = 8808
_MAX_PORT = 65_535
_EXIT_SIGNALLED = 128
SCHEMA = "agentv-serve-fake-1"
_TITLES: Mapping[str, str] = {
    "openai": "OpenAI",
    "azure": "Azure OpenAI",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "calls": "log of calls",
}


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, _MAX_PORT),
    default=DEFAULT_PORT,
    show_default=True,
    metavar="N",
    help="Port to listen on; 0 selects a free one.",
)
@click.option(
    "--rpm",
    type=click.FloatRange(min=0, min_open=True),
    metavar="X",
    help="Limit requests per minute for each API key.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object when the server is ready.")
def command(port: int, rpm: float | None, as_json: bool) -> int:  # noqa: FBT001 - click passes flags like this
    """Serve fake APIs of OpenAI, Azure, Anthropic and Gemini on this machine.

    A fake model answers by repeating the prompt. To a judge's request it replies with a score: the more words the
    answer shares with the expected outcome, the higher. A request to a model named MODEL@FAULT (such as fake@503) fails
    with that fault. Press Ctrl-C to stop.
    """
    return asyncio.run(_serve(port, rpm, as_json=as_json))


async def _serve(port: int, rpm: float | None, *, as_json: bool) -> int:
    """Serve until a signal arrives; return its exit code."""
    from agentv.fake import FakeServer, Quota
    from agentv.types.errors import ConfigError

    stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _stop, stopped, number)
    server = FakeServer(port=port, quota=None if rpm is None else Quota(rpm))
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(server)
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            message = f"port {port} cannot be used ({reason}); choose another with --port, or 0 for any"
            raise ConfigError(message) from None
        click.echo(json.dumps(welcome_json(server.url), indent=2) if as_json else welcome(server.url))
        code = await stopped
    if not as_json:
        click.echo(farewell(sum(call.billed for call in server.calls), len(server.calls)))
    return code


def _stop(stopped: "asyncio.Future[int]", number: int) -> None:
    if not stopped.done():
        stopped.set_result(_EXIT_SIGNALLED + number)


def addresses(url: str) -> Mapping[str, str]:
    """Return the base URL of each API, as clients expect it, and the URL of the log."""
    return {"openai": f"{url}/v1", "azure": url, "anthropic": url, "gemini": url, "calls": f"{url}/calls"}


def targets_yaml(url: str) -> str:
    """Return a targets file with one target for each API; the first one is its own judge."""
    return f"""\
targets:
  - {{name: default, provider: openai, base_url: "{url}/v1", model: fake, judge: default}}
  - {{name: fake-azure, provider: azure, endpoint: "{url}", deployment: fake, api_key: "${{{{ FAKE_KEY }}}}"}}
  - {{name: fake-anthropic, provider: anthropic, base_url: "{url}", model: fake, api_key: "${{{{ FAKE_KEY }}}}"}}
  - {{name: fake-gemini, provider: gemini, base_url: "{url}", model: fake, api_key: "${{{{ FAKE_KEY }}}}"}}
  - {{name: busy, provider: openai, base_url: "{url}/v1", model: fake@429-x1}}   # refused once, then answered
"""


def welcome(url: str) -> str:
    """Return the text to print when the server is ready."""
    rows = "\n".join(f"  {_TITLES[name]:<14}{place}" for name, place in addresses(url).items())
    return f"""\
The fake model server is ready; Ctrl-C stops it.

{rows}

As targets.yaml (any FAKE_KEY is accepted; the first target needs none):

{targets_yaml(url)}"""


def welcome_json(url: str) -> JsonObject:
    """Return the addresses and the targets file as JSON."""
    return {"schema": SCHEMA, "urls": dict(addresses(url)), "targets_yaml": targets_yaml(url)}


def farewell(billed: int, calls: int) -> str:
    """Return the line that is printed when the server stops."""
    return f"Stopped after {calls} {'call' if calls == 1 else 'calls'}, {billed} of them billed."
