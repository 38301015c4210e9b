"""The server of a benchmark shares no core with the measured program."""

import os
import subprocess
import sys

import pytest

from bench.cores import core_of_its_own

_COUNTS_CORES = (sys.executable, "-c", "import os; print(*os.sched_getaffinity(0)); input()")


@pytest.mark.skipif(sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="needs Linux and a second core")
def test_a_process_has_a_core_that_nothing_started_meanwhile_may_use() -> None:
    before = os.sched_getaffinity(0)
    with subprocess.Popen(_COUNTS_CORES, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        with core_of_its_own(other.pid):
            its_own = os.sched_getaffinity(other.pid)
            started = subprocess.run(_COUNTS_CORES, input="\n", capture_output=True, text=True, check=True)
        other.kill()

    assert len(its_own) == 1
    assert set(map(int, started.stdout.split())) == before - its_own
    assert os.sched_getaffinity(0) == before
