"""Tests of process-wide state, such as children and threads, in a separate process."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def in_own_process(check: Callable[[], None]) -> None:
    """Call `check`, a function at the top of its module, in a new interpreter without state of other tests."""
    call = f"from {check.__module__} import {check.__name__} as check; check()"
    done = subprocess.run([sys.executable, "-c", call], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
