from collections.abc import Iterator

import pytest
from tests.support.ray_cluster import RayCluster, why_not


@pytest.fixture(scope="session")
def cluster() -> Iterator[RayCluster]:
    """A Ray cluster with three nodes."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with RayCluster(3) as started:
        yield started
