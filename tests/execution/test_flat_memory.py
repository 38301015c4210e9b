import json
import subprocess
import sys

import pytest
from tests.support.hostile import hostile

PROGRAM = """
import asyncio, json, resource, subprocess, sys
from agentv.execution.processes.process import Command, run_process

how, *argv = sys.argv[1:]
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 100 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
if how == "naive":
    subprocess.run(argv, capture_output=True, check=False)
outcome = asyncio.run(run_process(Command(argv=tuple(argv)), timeout_s=60))
print(json.dumps([outcome.too_large, outcome.exit_code, len(outcome.stderr)]))
"""


def flood(how: str, mode: str) -> "subprocess.CompletedProcess[str]":
    """Take 600 MB from a command, in a process that may use 100 MB more than it has."""
    argv = [sys.executable, "-c", PROGRAM, how, *hostile(mode)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=100)


def test_600_mb_of_output_need_little_memory() -> None:
    too_large, exit_code, _ = json.loads(flood("ours", "flood").stdout)

    assert too_large
    assert exit_code is None


def test_600_mb_of_errors_need_little_memory_and_hide_no_answer() -> None:
    assert json.loads(flood("ours", "flood-errors").stdout) == [False, 0, 2_000]


@pytest.mark.parametrize("mode", ["flood", "flood-errors"])
def test_the_naive_version_needs_all_the_memory_there_is(mode: str) -> None:
    result = flood("naive", mode)

    assert result.returncode != 0
    assert "MemoryError" in result.stderr
