"""A real headless browser for tests of pages: Debian's `chromium`, or another Chromium on the path."""

import shutil
import subprocess
from pathlib import Path

import pytest

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
