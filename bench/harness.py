"""Starts harnesses: each job in a process of its own, taking turns, so that a busy machine troubles all alike."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.harnesses.job import Job, Kind, Used

ROOT = Path(__file__).parent.parent
_QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "OPENAI_API_KEY": "none",
    "NO_COLOR": "1",
}
"""No one phones home, no one waits for a key."""


class HarnessError(Exception):
    """A harness did not do its job; says which, and its last words."""

    def __init__(self, harness: "Harness", job: Job, words: str) -> None:
        super().__init__(f"{harness.name} did not do {job}:\n{words.strip()[-2000:]}")


@dataclass(frozen=True, slots=True)
class Harness:
    """A program of bench/harnesses (its module's name), where it runs, and what kinds of jobs it does.

    It takes part in so many rounds at most: those that take minutes are there for orientation.
    """

    name: str
    program: str
    python: str = sys.executable
    kinds: tuple[Kind, ...] = ("echo", "ask", "judge")
    rounds: int = 5

    def run(self, job: Job) -> Used:
        """Do a job in a process of its own and an empty folder. Raises HarnessError where a case does not pass."""
        command = (self.python, "-m", f"bench.harnesses.{self.program}", json.dumps(asdict(job)))
        with TemporaryDirectory() as folder:
            environment = {**os.environ, **_QUIET, "PYTHONPATH": str(ROOT), "HOME": folder}
            done = subprocess.run(  # noqa: S603 - ours
                command, cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
        if done.returncode != 0:
            raise HarnessError(self, job, done.stderr or done.stdout)
        return Used(**json.loads(done.stdout.rstrip().rpartition("\n")[2]))


PYDANTIC_EVALS = "pydantic-evals"
"""The peer that most targets are about."""

AGENTV = Harness("agentv run", "agentv_run")
EVALUATE = Harness("evaluate()", "agentv_evaluate")
BARE_LOOP = Harness("bare aiohttp loop", "bare_loop")
BARE_POPEN = Harness("bare Popen loop", "bare_popen")


def in_turns(harnesses: Sequence[Harness], job: Job, *, rounds: int) -> dict[str, list[Used]]:
    """Return what the job took each harness, by name, once a round; within a round they take turns.

    A peer that fails is left out from then on, and says so: what was measured of the others is kept. Raises
    HarnessError where one of our own environment fails.
    """
    done: dict[str, list[Used]] = {harness.name: [] for harness in harnesses}
    for number in range(rounds):
        for harness in harnesses:
            if number < harness.rounds and harness.name in done:
                _add(done, harness, job)
    return done


def _add(done: dict[str, list[Used]], harness: Harness, job: Job) -> None:
    try:
        done[harness.name].append(harness.run(job))
    except HarnessError as error:
        if harness.python == sys.executable:
            raise
        print(f"left out: {error}", file=sys.stderr)
        del done[harness.name]
