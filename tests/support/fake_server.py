"""The fake model server for tests, in its own thread."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agentv.fake import FakeServer


@contextmanager
def serving_fake(**options: Any) -> Iterator[FakeServer]:
    """Serve until the end of the block. `options` are those of FakeServer."""
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()
    server = FakeServer(**options)
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


@pytest.fixture
def fake_server() -> Iterator[FakeServer]:
    """A fake model server with its default options."""
    with serving_fake() as server:
        yield server
