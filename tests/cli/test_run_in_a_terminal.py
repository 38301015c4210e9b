"""The real command in a real terminal: what a person has before them when it is over."""

import errno
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.test_run_signals import running
from tests.support.terminal_screen import TerminalScreen

COLUMNS, LINES = 80, 24
SUITE = """
evalcases:
  - {id: right, expected_outcome: x, input_messages: [{role: user, content: done}]}
  - {id: wrong, expected_outcome: x, input_messages: [{role: user, content: "nothing \\u001b]0;owned\\u0007 at all"}]}
execution:
  evaluators: [{name: done, type: contains, value: done}]
"""


class Pty:
    """Both ends of a terminal, and what was shown on it so far."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.screen = TerminalScreen(COLUMNS, LINES)
        self.written = b""

    def hand_over(self) -> None:
        """Leave the other end to the program alone, so that reading ends with it."""
        os.close(self.theirs)

    def chunks(self) -> Iterator[bytes]:
        """Show what the program writes, piece by piece, until it has closed its end."""
        while chunk := self._read():
            self.written += chunk
            self.screen.feed(chunk)
            yield chunk

    def read_until(self, text: str) -> None:
        """Read until a text was written; fails when the program ends without it."""
        for _ in self.chunks():
            if text.encode() in self.written:
                return
        pytest.fail(f"{text!r} was never shown:\n{self.written!r}")

    def read_to_the_end(self) -> None:
        for _ in self.chunks():
            pass

    def close(self) -> None:
        os.close(self._ours)

    def _read(self) -> bytes:
        try:
            return os.read(self._ours, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # Linux reports that the other end is closed
                raise
            return b""


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pty]:
    for name in ("CI", "GITHUB_ACTIONS", "NO_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("LANG", "C.UTF-8")
    opened = Pty()
    yield opened
    opened.close()


@contextmanager
def in_terminal(terminal: Pty, folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    (folder / ".git").mkdir()
    (folder / "agent.py").write_text("def answer(request):\n    return request.question\n")
    (folder / "suite.yaml").write_text(SUITE)
    (folder / "targets.yaml").write_text("targets: [{name: echo, provider: python, callable: 'agent.py:answer'}]")
    arguments = [sys.executable, "-m", "agentv", "run", "suite.yaml", "--target", "echo", *options]
    with subprocess.Popen(arguments, cwd=folder, stdout=terminal.theirs, stderr=terminal.theirs) as run:
        terminal.hand_over()
        yield run


def test_a_run_leaves_failures_and_report_without_the_block(terminal: Pty, tmp_path: Path) -> None:
    with in_terminal(terminal, tmp_path, "-v") as run:
        terminal.read_to_the_end()
    lines = terminal.screen.lines()
    assert run.returncode == 1
    assert "Ctrl-C stops cleanly" in terminal.written.decode()
    assert not [line for line in lines if "Ctrl-C" in line or "╭" in line or "╰" in line]
    answers = sorted(line.partition(" in ")[0] for line in lines if line.startswith("answer: "))
    assert answers == ["answer: right echo", "answer: wrong echo"]
    assert any(line.startswith("  answer   │ ") for line in lines)
    (failure,) = [line for line in lines if line.startswith("✗ wrong      0.00  done: expected")]
    assert "\\u001b]0;owned\\u0007" in failure
    assert b"\x1b]0;" not in terminal.written
    assert b"\x1b[31m" in terminal.written, "a failure is red"
    assert lines[-1] == "FAIL: 1 of 2 judged results passed (50 %). Exit code 1."
    assert terminal.screen.shows_cursor


def test_without_colour_nothing_is_coloured(terminal: Pty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with in_terminal(terminal, tmp_path):
        terminal.read_to_the_end()
    assert b"\x1b[3" not in terminal.written
    assert "Ctrl-C stops cleanly" in terminal.written.decode()


@pytest.mark.parametrize(("name", "value"), [("CI", "1"), ("TERM", "dumb")])
def test_where_nothing_can_be_redrawn_all_is_plain_and_the_report_too(
    terminal: Pty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with in_terminal(terminal, tmp_path):
        terminal.read_to_the_end()
    assert b"\x1b" not in terminal.written
    (reason,) = [line for line in terminal.written.decode().splitlines() if line.startswith("  reason  ")]
    assert reason.endswith('at all"')


def test_who_presses_ctrl_c_twice_gets_the_cursor_back(terminal: Pty, tmp_path: Path) -> None:
    with running(tmp_path, "stubborn", output=terminal.theirs) as (run, _):
        terminal.hand_over()
        run.send_signal(signal.SIGINT)
        terminal.read_until("Ctrl-C again exits at once")
        run.send_signal(signal.SIGINT)
        terminal.read_to_the_end()
        assert run.wait() == 130
    assert terminal.screen.shows_cursor
    assert "stopping, cancelling running cases: SIGINT" in terminal.screen.lines()
