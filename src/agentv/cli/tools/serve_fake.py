"""`agentv serve-fake`: serve fake model APIs to try agentv without a key."""

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack

import click

DEFAULT_PORT = 8808
_MAX_PORT = 65_535
_BY_SIGNAL = 128


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
    from agentv.fake.welcome import farewell, welcome, welcome_json
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
        stopped.set_result(_BY_SIGNAL + number)
