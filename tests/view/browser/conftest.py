"""A browser that is driven by the tests, and the viewer whose pages it opens."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.browser import OpenTab, Tab, driven_browser
from tests.support.viewed_runs import ViewedRuns, store_runs
from tests.support.viewer import Viewer, serving_view

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def runs(tmp_path_factory: pytest.TempPathFactory) -> ViewedRuns:
    return store_runs(tmp_path_factory.mktemp("viewed") / ".agentv")


@pytest.fixture(scope="package")
def viewer(runs: ViewedRuns) -> Iterator[Viewer]:
    with serving_view(runs.home) as viewer:
        yield viewer


# Not of the scope `session`: while a browser is driven, no other event loop can run in the thread.
@pytest.fixture(scope="package")
def browser() -> Iterator["Browser"]:
    with driven_browser() as browser:
        yield browser


@pytest.fixture(scope="package")
def plain_tab(browser: "Browser", viewer: Viewer) -> Iterator[Tab]:
    """Return a window without scripts, for all tests."""
    tab = Tab(browser, viewer, java_script_enabled=False)
    yield tab
    tab.close()


@pytest.fixture(scope="package")
def shared_tab(browser: "Browser", viewer: Viewer) -> Iterator[Tab]:
    """Return a window for all tests that leave nothing in it."""
    tab = Tab(browser, viewer)
    yield tab
    tab.close()


@pytest.fixture
def open_tab(browser: "Browser", viewer: Viewer) -> Iterator[OpenTab]:
    """Open windows, in which no script may fail and no request may leave the viewer."""
    tabs: list[Tab] = []

    def opened(**options: Any) -> Tab:
        tabs.append(Tab(browser, viewer, **options))
        return tabs[-1]

    yield opened
    for tab in tabs:
        tab.close()
        assert tab.foreign == []
        assert tab.errors == []


@pytest.fixture
def tab(open_tab: OpenTab) -> Tab:
    return open_tab()
