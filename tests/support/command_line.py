"""The command line, called in this process."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import pytest

from agentv.cli.main import main

Call: TypeAlias = Callable[..., tuple[int, str, str]]
"""Calls `agentv` with arguments; returns its exit code, its output and its errors."""


def call_agentv(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Call `agentv`; return its exit code, its output and its errors."""
    with pytest.raises(SystemExit) as left:
        main(arguments)
    printed = capsys.readouterr()
    return int(left.value.code or 0), printed.out, printed.err


def command_line(capsys: pytest.CaptureFixture[str]) -> Call:
    """Return what calls `agentv` and takes what it prints."""
    return partial(call_agentv, capsys)
