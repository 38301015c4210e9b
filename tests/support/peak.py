"""A command in a process of its own, with the memory and CPU time that it took."""

import subprocess
import sys
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
