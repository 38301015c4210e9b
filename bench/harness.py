"""Run harnesses, each job in a process of its own, in turns, so that a busy machine affects all alike."""

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
"""Turns off telemetry and prompts for keys."""


class HarnessError(Exception):
    """A harness failed; the message has its job and the end of its output."""

    def __init__(self, harness: "Harness", job: Job, output: str) -> None:
        super().__init__(f"{harness.name} failed on {job}:\n{output.strip()[-2000:]}")


@dataclass(frozen=True, slots=True)
class Harness:
    """A program of bench/harnesses (`program` is its module), its interpreter, and the kinds of jobs that it runs.

    `rounds` is the most rounds that it takes part in: harnesses that take minutes run once, for orientation.
    """

    name: str
    program: str
    python: str = sys.executable
    kinds: tuple[Kind, ...] = ("echo", "ask", "judge")
    rounds: int = 5

    def run(self, job: Job) -> Used:
        """Run a job in a process of its own and an empty folder. Raises HarnessError unless every case passes."""
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
"""The peer that most targets refer to."""

AGENTV = Harness("agentv run", "agentv_run")
EVALUATE = Harness("evaluate()", "agentv_evaluate")
BARE_LOOP = Harness("bare aiohttp loop", "bare_loop")
BARE_POPEN = Harness("bare Popen loop", "bare_popen")


def in_turns(harnesses: Sequence[Harness], job: Job, *, rounds: int) -> dict[str, list[Used]]:
    """Return the measurements of a job by harness, one per round; within a round the harnesses take turns.

    A peer that fails is skipped from then on, with a message. Raises HarnessError when a harness of our own
    environment fails.
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
        print(f"skipped: {error}", file=sys.stderr)
        del done[harness.name]
