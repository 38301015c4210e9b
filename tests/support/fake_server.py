"""The fake model server for tests, in its own thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.served import serving_in_thread

from agentv.fake import FakeServer


@contextmanager
def serving_fake(**options: Any) -> Iterator[FakeServer]:
    """Serve until the end of the block. `options` are those of FakeServer."""
    with serving_in_thread(FakeServer(**options)) as server:
        yield server


@pytest.fixture
def fake_server() -> Iterator[FakeServer]:
    """A fake model server with its default options."""
    with serving_fake() as server:
        yield server
