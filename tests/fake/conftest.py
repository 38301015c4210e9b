from collections.abc import Iterator

import pytest
from tests.support.fake_server import fake_server, serving_fake

from agentv.fake import FakeServer

__all__ = ["fake_server"]


@pytest.fixture(scope="module")
def shared_server() -> Iterator[FakeServer]:
    """One server for all examples of a property."""
    with serving_fake() as server:
        yield server
