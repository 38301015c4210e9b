"""The program of the watcher: `python -m agentv.execution.processes.watcher_process PROCESS_MARK`."""

import signal
import sys


def main() -> None:
    """Read the pids of commands until the pipe closes, then end what is left. Ignores the signals of a terminal."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sessions: set[int] = set()
    for line in sys.stdin.buffer:
        pid = int(line[1:])
        if line.startswith(b"+"):
            sessions.add(pid)
        else:
            sessions.discard(pid)
    from agentv.execution.processes.left_behind import clear, temporary_folders  # noqa: PLC0415 - only at the end

    if sessions or temporary_folders(sys.argv[1]):
        clear({sys.argv[1]}, sessions)


if __name__ == "__main__":
    main()
