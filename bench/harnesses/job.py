"""What every harness is given to do, and what it prints of it. Runs in environments that have no agentv."""

import gc
import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["echo", "ask", "judge", "commands"]
"""Who answers, and who judges: a function and a rule, a model and a rule, a model and a model, a command and a rule."""

WARMING = 10
_BYTES_PER_KB = 1024 if sys.platform == "darwin" else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Cases to run; `url` is where the model is served, up to and with /v1. Every case passes if all is well."""

    kind: Kind
    cases: int
    at_once: int = 10
    url: str = ""

    @property
    def questions(self) -> list[str]:
        """What the cases ask; the answers, echoed or from the model, hold the word that the rule looks for."""
        return [question(number) for number in range(self.cases)]


@dataclass(frozen=True, slots=True)
class Used:
    """What a job took: CPU seconds of all threads, seconds on the wall, and the process's peak memory in MB."""

    cpu_s: float
    wall_s: float
    peak_mb: float


EXPECTED = "Say"
"""The word that every answer holds."""
RUBRIC = "The answer says what it was asked to say"
COMMAND = ("/bin/echo",)

Prepare: TypeAlias = Callable[[Job], Callable[[], int]]
"""Makes what runs a job and returns how many of its cases passed; making it is not measured."""


def question(number: int) -> str:
    """Return what a case asks."""
    return f"Say {number}"


def main(prepare: Prepare) -> None:
    """Do a small job for what is imported or made once, then the one asked for, measured; print what it took.

    Raises SystemExit where not every case passed: a harness that fails fast would win.
    """
    job = Job(**json.loads(sys.argv[1]))
    _run(prepare(replace(job, cases=min(WARMING, job.cases))), min(WARMING, job.cases))
    run = prepare(job)
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    _run(run, job.cases)
    used = Used(time.process_time() - cpu, time.perf_counter() - wall, peak_mb())
    print("\n" + json.dumps(asdict(used)), flush=True)


def _run(run: Callable[[], int], cases: int) -> None:
    passed = run()
    if passed != cases:
        sys.exit(f"only {passed} of {cases} cases passed")


def peak_mb() -> float:
    """Return the peak of the resident memory of this process, in MB of a million bytes.

    Linux counts what a process was before it became this program into its resource usage, so that is asked second.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _BYTES_PER_KB * 1024 / 1e6
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6
