"""`agentv view`: open stored runs in the browser."""

import asyncio
import os
import signal
import webbrowser
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agentv.view.server import ViewServer

_EXIT_SIGNALLED = 128


@click.command("view")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on (default: a free one).")
@click.option("--no-open", is_flag=True, help="Print the address without opening a browser.")
@click.option("--host", metavar="NAME", help="Also serve other machines, as this host; needs --token.")
@click.option("--token", metavar="TEXT", help="Token in the address (default: a new one).")
def command(runs: tuple[str, ...], *, port: int, no_open: bool, host: str | None, token: str | None) -> int:
    """Open stored runs in the browser.

    The pages are served by this command, on this machine alone, until Ctrl-C. RUN is a run id or its prefix, a name, a
    path, 'latest' or 'latest~1'; one run opens its page, two open their comparison.
    """
    from agentv.loading.files.places import find_home
    from agentv.storage.run.find import find_run
    from agentv.types.errors import ConfigError
    from agentv.view.access import Access
    from agentv.view.address import path_to
    from agentv.view.library import Library
    from agentv.view.server import ViewServer

    if host is not None and not token:
        raise ConfigError("--host lets other machines read the runs; choose a secret and add --token=SECRET")
    home = find_home(Path.cwd())
    folders = [find_run(home, run) for run in runs]
    library = Library(home, folders=folders, note=lambda message: click.echo(message, err=True))
    server = ViewServer(
        library, Access.create(token=token, host=host), host="127.0.0.1" if host is None else host, port=port
    )
    path = path_to("r", folders[0].name) if folders else "/"

    def announce() -> str:
        link = server.link(path)
        click.echo(f"Open {link}\nCtrl-C ends the viewer.")
        return link

    return asyncio.run(serve(server, announce, is_opened=not no_open))


async def serve(server: "ViewServer", announce: Callable[[], str], *, is_opened: bool) -> int:
    """Serve until a signal arrives; return its exit code. `announce` prints the links and returns the one to open."""
    from agentv.types.errors import ConfigError

    stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _stop, stopped, number)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(server)
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            raise ConfigError(f"port {server.port} cannot be used ({reason}); omit --port to use a free one") from None
        link = announce()
        if "SSH_CONNECTION" in os.environ:
            click.echo(f"From your own machine: ssh -L {server.port}:127.0.0.1:{server.port} HOST")
        elif is_opened:
            with suppress(webbrowser.Error):
                await asyncio.to_thread(webbrowser.open, link)
        return await stopped


def _stop(stopped: "asyncio.Future[int]", number: int) -> None:
    if not stopped.done():
        stopped.set_result(0 if number == signal.SIGINT else _EXIT_SIGNALLED + number)
