"""The memory that a block takes in this process; a command in its own process, with its memory and CPU time."""

import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

_SCRIPT = """
import resource, sys
from agentv.cli.main import main
code = 0
try:
    main(sys.argv[1:])
except SystemExit as left:
    code = left.code or 0
used = resource.getrusage(resource.RUSAGE_SELF)
kib = used.ru_maxrss / (1 if sys.platform == "linux" else 1024)
if sys.platform == "linux":  # there, ru_maxrss starts with the memory of the parent
    (kib,) = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:")]
print(f"\\n{code} {kib / 1024:.0f} {used.ru_utime + used.ru_stime:.1f}")
"""


@contextmanager
def peak_below(megabytes: float) -> Iterator[None]:
    """Fail if the Python objects that are made in the block take more memory at a time. Earlier ones do not count."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < megabytes * 2**20, f"{peak / 2**20:.1f} MiB at a time"


class Measured(Struct):
    """The outcome of a command: its exit code, its output, and what it took."""

    code: int
    output: str
    megabytes: float
    cpu_seconds: float


def measured(*command: str, cwd: Path | None = None) -> Measured:
    """Call `agentv` with arguments; a command that has not ended after two minutes fails the test."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *command],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    output, _, last = done.stdout.rstrip().rpartition("\n")
    try:
        code, megabytes, seconds = last.split()
        return Measured(int(code), output, float(megabytes), float(seconds))
    except ValueError:
        raise AssertionError(f"the process ended with {done.returncode}: {done.stdout[-2000:]}") from None
