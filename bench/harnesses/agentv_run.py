"""agentv on the command line: `agentv run` on a JSONL dataset, everything stored, the report written."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from agentv.cli.main import main as command_line
from bench.harnesses.agentv_files import write_job
from bench.harnesses.job import Job, main


def prepare(job: Job) -> Callable[[], int]:
    """Write the files, and return the run. The command's exit code is 0 only if every case passed."""
    dataset = write_job(job, Path(mkdtemp(dir=Path.cwd())))

    def run() -> int:
        os.chdir(dataset.parent)
        try:
            command_line(["run", dataset.name, "--gate", "pass_rate >= 100%"])
        except SystemExit as ended:
            return 0 if ended.code else job.cases

    return run


if __name__ == "__main__":
    main(prepare)
