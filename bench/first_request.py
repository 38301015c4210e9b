"""The time from the start of the process `agentv run` until the model gets the first request."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.harnesses.agentv_files import write_job
from bench.harnesses.job import Job
from bench.installed import installed_environment
from bench.measuring import Effort
from bench.model_server import serving
from bench.rows import AtMost, Row, row_of

COUNTS = (1000, 100_000)
ROUNDS = 3
"""Three times as many as elsewhere, because process starts vary much on a shared machine."""
AT_ONCE = 50
_PATIENCE_S = 60.0


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the wall seconds beyond those of `agentv --help`, and the additional time of a long dataset."""
    rounds = range(ROUNDS * effort.rounds if effort.rounds > 1 else 1)
    with TemporaryDirectory() as folder:
        few, many = (_write(Path(folder), effort.calls(count)) for count in COUNTS)
        compiled = Path(folder, "compiled")
        _first_request_s(few, compiled)  # the first start compiles the modules, as an installation would
        waited = [
            (_help_s(compiled), _first_request_s(few, compiled), _first_request_s(many, compiled)) for _ in rounds
        ]
    for place, count in enumerate(COUNTS, 1):
        beyond = [times[place] - times[0] for times in waited]
        yield row_of(f"{count:,} cases, beyond agentv --help", beyond, target=AtMost(0.25))
    yield row_of(f"{COUNTS[1]:,} cases, beyond {COUNTS[0]:,}", [times[2] - times[1] for times in waited])


def _write(folder: Path, cases: int) -> Path:
    """Write a suite whose model URL is a variable, which each start sets."""
    return write_job(Job(kind="ask", cases=cases, at_once=AT_ONCE, url="${{ MODEL_URL }}"), folder / str(cases))


def _help_s(compiled: Path) -> float:
    begin = time.monotonic()
    command = [sys.executable, "-m", "agentv", "--help"]
    subprocess.run(command, env=installed_environment(compiled), capture_output=True, check=True)  # noqa: S603 - ours
    return time.monotonic() - begin


def _first_request_s(dataset: Path, compiled: Path) -> float:
    """Start a run, wait for its first request and kill it; the model is slow, so that few requests follow."""
    with serving(delay_s=_PATIENCE_S, own_core=False) as server:
        begin = time.monotonic()
        with subprocess.Popen(  # noqa: S603 - ours
            [sys.executable, "-m", "agentv", "run", dataset.name, "--display", "none"],
            cwd=dataset.parent,
            env=installed_environment(compiled, MODEL_URL=server.url),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                return server.first_request_at(patience_s=_PATIENCE_S) - begin
            finally:
                process.kill()
