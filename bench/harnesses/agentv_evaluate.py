"""agentv as a library: `evaluate()` on cases in memory, like the peers; everything is stored and returned."""

from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from msgspec.structs import replace

from agentv import evaluate, load_suite
from agentv.types.cases import ListedCases
from bench.harnesses.agentv_files import write_job
from bench.harnesses.job import Job, main


def prepare(job: Job) -> Callable[[], int]:
    """Write the files, and read the cases."""
    folder = Path(mkdtemp(dir=Path.cwd()))
    suite = load_suite(write_job(job, folder))
    at_hand = replace(suite, cases=ListedCases(tuple(suite.cases)))

    def run() -> int:
        report = evaluate(at_hand, folder=folder / ".agentv")
        return sum(row.verdict == "pass" for row in report.results)

    return run


if __name__ == "__main__":
    main(prepare)
