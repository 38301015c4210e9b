"""The job of a harness, and the measurements that it prints. Runs in environments without agentv."""

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
"""Target and evaluator: a function and a rule, a model and a rule, a model and a judge, a command and a rule."""

WARMING = 10
_BYTES_PER_KB = 1024 if sys.platform == "darwin" else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Cases to run; `url` is the base URL of the model with /v1. Every case is expected to pass."""

    kind: Kind
    cases: int
    at_once: int = 10
    url: str = ""

    @property
    def questions(self) -> list[str]:
        """The prompts of the cases; all answers contain the word that the rule searches."""
        return [question(number) for number in range(self.cases)]


@dataclass(frozen=True, slots=True)
class Used:
    """The measurements of a job: CPU seconds of all threads, wall seconds, and the process's peak memory in MB."""

    cpu_s: float
    wall_s: float
    peak_mb: float


EXPECTED = "Say"
"""The word that every answer contains."""
RUBRIC = "The answer says what the prompt asks for"
COMMAND = ("/bin/echo",)

Prepare: TypeAlias = Callable[[Job], Callable[[], int]]
"""Returns a function that runs a job and returns the number of passed cases; preparing is not measured."""


def question(number: int) -> str:
    """Return the prompt of a case."""
    return f"Say {number}"


def main(prepare: Prepare) -> None:
    """Run a small job as a warm-up, then the job in `sys.argv[1]`, and print its measurements.

    Raises SystemExit unless every case passed: a harness that fails fast would win.
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
    """Return the peak resident memory of this process, in MB of a million bytes.

    On Linux, `getrusage` includes the memory before `exec`, so /proc/self/status is preferred.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _BYTES_PER_KB * 1024 / 1e6
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6
