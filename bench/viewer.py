"""Requests of the viewer in a headless Chromium: from a click in a list of 100,000 rows to the painted page."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.index_of_runs import ROWS, write_run
from bench.measuring import Effort
from bench.rows import AtMost, Row, row_of

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_CLICKS = 9
_LEAST_ROWS = 300  # several pages with each state and tag
_GOAL_S = 0.3
_TOKEN = "bench"  # noqa: S105 - of a server on loopback that lives as long as the measurement

_CLICK = """async (selector) => {
  const main = document.getElementById("content");
  const begin = performance.now();
  document.querySelector(selector).click();
  await new Promise((resolve) => new MutationObserver(resolve).observe(main, { childList: true }));
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  return (performance.now() - begin) / 1000;
}"""

CLICKS: Sequence[tuple[str, str, str]] = (
    ("sort by cost", "", "thead th:nth-child(7) a"),
    ("sort by score, descending", "?sort=score", "thead th:nth-child(5) a"),
    ("filter by a state", "", "#filters section:first-of-type li:nth-child(2) a"),
    ("filter by a tag within a state", "?state=fail", "#filters section:last-of-type li:nth-child(3) a"),
    ("remove a filter", "?state=fail&tag=group-3", ".chip a"),
    ("next page", "", "a[rel=next]"),
)
"""What is clicked: its name, the query of the list before, and the selector of the link."""


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the wall time of each kind of click, and of opening the first page; nothing without a browser to drive."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None or find_spec("playwright") is None:
        print("viewer is skipped: it needs Chromium and ./run --group=browser", file=sys.stderr)
        return
    with TemporaryDirectory() as folder:
        home = Path(folder) / ".agentv"
        rows = f"/r/{write_run(home, max(effort.calls(ROWS), _LEAST_ROWS)).run_id}/rows"
        with _viewer(Path(folder)) as url, _page(program) as page:
            page.goto(f"{url}{rows}?token={_TOKEN}", timeout=0)  # which makes the index
            opened = [_opened(page, f"{url}{rows}") for _ in range(effort.calls(_CLICKS))]
            yield row_of(f"open the first page of {ROWS:,} rows", opened, target=AtMost(_GOAL_S))
            for name, query, selector in CLICKS:
                taken = [_clicked(page, f"{url}{rows}{query}", selector) for _ in range(effort.calls(_CLICKS))]
                yield row_of(f"{name}, of {ROWS:,} rows", taken, target=AtMost(_GOAL_S))


def _opened(page: Any, address: str) -> float:
    page.goto(address)
    return float(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd / 1000"))


def _clicked(page: Any, address: str, selector: str) -> float:
    page.goto(address)
    return float(page.evaluate(_CLICK, selector))


@contextmanager
def _viewer(folder: Path) -> Iterator[str]:
    """Serve the runs of a folder by the command, in a process of its own; yield its address."""
    command = [sys.executable, "-m", "agentv", "view", "--no-open", "--token", _TOKEN]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            yield line.removeprefix("Open ").partition("/?")[0]
        finally:
            process.terminate()


@contextmanager
def _page(program: str) -> Iterator[Any]:
    """Yield a page of a headless browser."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - of a group that most environments do not have

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser.new_page(viewport={"width": 1280, "height": 900})
        browser.close()
