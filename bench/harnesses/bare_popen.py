"""No harness for commands: threads that take prompts from one iterator, each in a `Popen` loop."""

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from bench.harnesses.job import COMMAND, EXPECTED, Job, main


def prepare(job: Job) -> Callable[[], int]:
    """Return the loop."""
    questions = job.questions

    def run() -> int:
        with ThreadPoolExecutor(job.at_once) as threads:
            return sum(threads.map(_passes, questions))

    return run


def _passes(prompt: str) -> bool:
    with subprocess.Popen([*COMMAND, prompt], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        answer, _ = process.communicate()
    return EXPECTED in answer


if __name__ == "__main__":
    main(prepare)
