"""The long form of the durability tests runs only with `-m durability`."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "durability" not in config.option.markexpr:
        skip = pytest.mark.skip(reason="takes minutes; `-m durability` runs it")
        for item in items:
            if item.get_closest_marker("durability"):
                item.add_marker(skip)
