"""A server of ours in its own thread, with its own event loop."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

Server = TypeVar("Server", bound=AbstractAsyncContextManager[Any])


@contextmanager
def serving_in_thread(server: Server) -> Iterator[Server]:
    """Run a server, which starts when it is entered, until the end of the block."""
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()
    broken: list[BaseException] = []

    async def run() -> None:
        try:
            async with server:
                ready.set()
                await stop.wait()
        except BaseException as error:  # the test that waits has to hear of it
            broken.append(error)
            raise
        finally:
            ready.set()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    try:
        ready.wait()
        if broken:
            raise broken[0]
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
