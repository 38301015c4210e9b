"""The program of the watcher: `python -m agentv.execution.processes.watcher_process MARK`."""

import os
import select
import signal
import sys

PAUSE_MS = 250
"""The pause between two readings of the pipe. Waking up for each command would slow the commands (bench/commands.py).

The pipe holds 64 KiB, which is more than the reports of any commands that can start in this time.
"""


def main() -> None:
    """Read the pids of commands until the pipe closes, then end what is left. Ignores SIGINT, SIGTERM and SIGHUP."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sessions = running_commands(sys.stdin.fileno())
    from agentv.execution.processes.left_behind import clear, temporary_folders  # noqa: PLC0415 - only at the end

    if sessions or temporary_folders(sys.argv[1]):
        clear({sys.argv[1]}, sessions)


def running_commands(pipe: int) -> set[int]:
    """Return the pids of the commands that still run when the pipe closes.

    Each line of the pipe is `+` and the pid of a command that has started, or `-` and that of one that has ended.
    """
    running: set[int] = set()
    closing = select.poll()
    closing.register(pipe, 0)  # only the end of the pipe cuts a pause short; new lines do not
    unread = b""
    while chunk := os.read(pipe, 1 << 16):
        *lines, unread = (unread + chunk).split(b"\n")
        for line in lines:
            (running.add if line.startswith(b"+") else running.discard)(int(line[1:]))
        closing.poll(PAUSE_MS)
    return running


if __name__ == "__main__":
    main()
