"""agentv as a library: `evaluate()` on a dataset of JSONL, everything stored, every row in the report."""

from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from agentv import evaluate
from bench.harnesses.agentv_files import write_job
from bench.harnesses.job import Job, main


def prepare(job: Job) -> Callable[[], int]:
    """Write the files."""
    folder = Path(mkdtemp(dir=Path.cwd()))
    dataset = write_job(job, folder)

    def run() -> int:
        report = evaluate(dataset, folder=folder / ".agentv")
        return sum(row.verdict == "pass" for row in report.results)

    return run


if __name__ == "__main__":
    main(prepare)
