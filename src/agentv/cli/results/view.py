"""`agentv view`: open stored runs in the browser."""

import asyncio
import os
import signal
import socket
import webbrowser
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

import click

from agentv.cli.run_sources import READ_STORE_OPTION, open_runs

if TYPE_CHECKING:
    from agentv.view.server import ViewServer

_EXIT_SIGNALLED = 128
_MAX_RUNS = 2


@click.command("view")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on (default: a free one).")
@click.option("--no-open", is_flag=True, help="Print the address without opening a browser.")
@click.option("--host", metavar="NAME", help="Also serve other machines, as this host; needs --token.")
@click.option("--token", metavar="TEXT", help="Token in the address (default: a new one).")
@READ_STORE_OPTION
def command(
    runs: tuple[str, ...], *, port: int, no_open: bool, host: str | None, token: str | None, store: str | None
) -> int:
    """Open stored runs in the browser.

    The pages are served by this command, on this machine alone, until Ctrl-C. RUN is a run id or its prefix, a name, a
    path, 'latest' or 'latest~1'; one run opens its page, two open their comparison. With
    --store, the named runs are pulled from the team database first.
    """
    from agentv.storage.run.stored import StoredRun
    from agentv.types.errors import ConfigError
    from agentv.types.hosts import is_unspecified
    from agentv.view.access import Access
    from agentv.view.address import path_to
    from agentv.view.library import Library
    from agentv.view.server import ViewServer

    if host is not None and not token:
        raise ConfigError("--host lets other machines read the runs; choose a secret and add --token=SECRET")
    if host is not None and (not host or is_unspecified(host)):
        raise ConfigError(
            f"--host={host} is no address that a browser can open; give the name or address of this machine"
        )
    if token is not None and not token.strip():
        raise ConfigError("--token is empty, so that anyone could read the runs; give a text, or omit it for a new one")
    if len(runs) > _MAX_RUNS:
        raise ConfigError(f"view opens one run, or two to compare them, not {len(runs)}; choose others on its pages")
    access = Access.create(token=token, host=host)
    with open_runs(store) as found:
        if found.option and not runs:
            raise ConfigError(f"name the runs to pull: agentv view RUN{found.option}; `agentv store list` lists them")
        folders = [found.find(run) for run in runs]
        names = [StoredRun(folder).run_id for folder in folders]
        library = Library(found.home, folders=folders)
        server = ViewServer(library, access, host="127.0.0.1" if host is None else host, port=port)
        if len(set(names)) < len(names):
            raise ConfigError(f"both runs are named {names[0]}; give two different runs, such as 'latest~1 latest'")
        path = "/" if not names else path_to("r", names[0]) if len(names) == 1 else path_to("compare", "..".join(names))

        def announce() -> str:
            click.echo(f"Open {server.link(path)}\nCtrl-C ends the viewer.")
            return server.link_once(path)

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
        except socket.gaierror as error:
            raise ConfigError(f"--host: the name cannot be resolved ({error.strerror}); check its spelling") from None
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
