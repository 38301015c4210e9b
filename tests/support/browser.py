"""A real headless browser for tests of pages: Debian's `chromium`, or another Chromium on the path."""

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pytest
from tests.support.viewer import Viewer

from agentv.view.access import READER

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium is installed (Debian: apt-get install chromium)"
)


def dom_after_scripts(page: Path, folder: Path, *options: str, anchor: str = "") -> str:
    """Return a page's document after all of its scripts have run."""
    command = [
        CHROMIUM or "chromium",
        "--headless=new",
        "--no-sandbox",  # tests may run as root, where Chromium's own sandbox refuses to start
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=5000",
        *options,
        "--dump-dom",
        f"{page.as_uri()}{anchor}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    return done.stdout


HAS_DRIVEN_BROWSER = CHROMIUM is not None and all(map(find_spec, ("playwright", "axe_playwright_python")))
needs_driven_browser = pytest.mark.skipif(
    not HAS_DRIVEN_BROWSER,
    reason="needs Chromium and the group `browser`: ./run --group=browser pytest tests/view/browser",
)

Size: TypeAlias = tuple[int, int]
LOOKS: Mapping[str, tuple[Size, Literal["light", "dark"]]] = {
    "light": ((1280, 900), "light"),
    "dark": ((1280, 900), "dark"),
    "narrow": ((320, 700), "light"),
    "zoomed": ((640, 450), "dark"),  # a zoom of 200 % halves the size of a window in CSS pixels
}
"""The sizes of windows, in CSS pixels, and colours in which pages are looked at."""


@contextmanager
def driven_browser() -> Iterator["Browser"]:
    """Start Chromium and drive it until the end of the block."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - of a group that most environments do not have

    with sync_playwright() as driver:
        # Tests may run as root, where Chromium's own sandbox refuses to start.
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Tab:
    """A page in a window of its own, signed in to a viewer, which records what it requests and what fails."""

    def __init__(self, browser: "Browser", viewer: Viewer, *, reviewer: str = READER, **options: Any) -> None:
        self.viewer = viewer
        self._context = browser.new_context(base_url=viewer.server.url, **options)
        self.page = self._context.new_page()
        self.foreign: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self._note(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(viewer.server.link(reviewer=reviewer))

    def open(self, path: str) -> "Page":
        """Return the page after it has been opened."""
        self.page.goto(path)
        return self.page

    def look(self, name: str) -> None:
        """Change the window to one of `LOOKS`."""
        (width, height), scheme = LOOKS[name]
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme=scheme)

    def unfold(self) -> None:
        """Open all folded parts, which hide from rules and from readers what is in them."""
        self.page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")

    def close(self) -> None:
        self._context.close()

    def _note(self, url: str) -> None:
        if not url.startswith((f"{self.viewer.server.url}/", "data:", "about:")):
            self.foreign.append(url)


OpenTab: TypeAlias = Callable[..., Tab]


def violations(page: "Page") -> list[str]:
    """Return what axe-core finds on a page: the rule, and the elements that break it."""
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {rules: {'target-size': {enabled: true}}, resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['html']} {node.get('failureSummary', '')}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
