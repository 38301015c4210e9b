"""Servers of tests that are programs of their own, on ports of the loopback interface."""

import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

PATIENCE_S = 60.0


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: Sequence[str], port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a server until the end of the block, which starts when it listens on its port."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not _listens(port):
                assert server.poll() is None, f"{command} ended with {server.returncode}"
                assert time.monotonic() < deadline, f"{command} does not listen"
                time.sleep(0.02)
            yield server
        finally:
            server.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
