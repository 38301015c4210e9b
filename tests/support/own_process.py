"""Tests of what a process has but once, such as its children and its threads: in a process of their own."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def in_own_process(check: Callable[[], None]) -> None:
    """Call `check`, a function at the top of its module, in a new interpreter, where no other test leaves anything."""
    call = f"from {check.__module__} import {check.__name__} as check; check()"
    done = subprocess.run([sys.executable, "-c", call], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
