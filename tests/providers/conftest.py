from collections.abc import Iterator

import pytest
from tests.support.hostile import Family


@pytest.fixture
def family() -> Iterator[Family]:
    members = Family()
    yield members
    members.end()
