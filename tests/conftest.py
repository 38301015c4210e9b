"""What holds for all tests."""

import gc
import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings
from tests.support.nightly import IS_NIGHTLY
from tests.support.parameter_ids import parameter_id

# A busy machine must not turn a run red: no property has a clock in it.
settings.register_profile("agentv", max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", settings.get_profile("agentv"), max_examples=20)  # for .ci/run --fast
settings.register_profile("nightly", settings.get_profile("agentv"), max_examples=400)
settings.load_profile("nightly" if IS_NIGHTLY else "agentv")


def pytest_xdist_auto_num_workers() -> int:
    """Start three processes on two cores: half of the time, tests wait for a server or a program."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + (cores + 1) // 2


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a parameter that has no `ids` by its value."""
    return parameter_id(val)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: all that is made stays, and later collections need not look at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs once a night, unless it is requested."""
    if IS_NIGHTLY or "nightly" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("nightly")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("nightly")]
