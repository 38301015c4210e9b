"""Damaged files end in an answer or a clear error: a hundred of those that `bench.mutated_files` makes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.nightly import IS_NIGHTLY

from bench.mutated_files import Limits, Original, Outcome, Tally, outcomes

ROOT = Path(__file__).parents[2]
ORIGINAL = Original("suites", "suite.yaml", ())


def called(*command: str) -> subprocess.CompletedProcess[str]:
    """Call the program in a process of its own: it forks, and changes its environment."""
    arguments = [sys.executable, "-m", "bench.mutated_files", *command]
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)


@pytest.mark.timeout(300)
def test_damaged_files_give_no_finding() -> None:
    done = called("100" if IS_NIGHTLY else "20")
    assert (done.returncode, "0 findings" in done.stdout) == (0, True), done.stdout + done.stderr


def test_outcomes_name_what_went_wrong(tmp_path: Path) -> None:
    suite = "evalcases: [{id: a, expected_outcome: x, input_messages: [{role: user, content: hi}]}]"
    (tmp_path / "suite.yaml").write_text(suite)
    limits = Limits(seconds=60, megabytes=10_000)
    (found,) = outcomes(1, ORIGINAL, [("check", "suite.yaml", "--no-such-option")], tmp_path, limits)
    assert (found.code, found.problem) == (4, "")
    (found,) = outcomes(1, ORIGINAL, [("check", "suite.yaml")], tmp_path, Limits(seconds=0.0, megabytes=1))
    # A process that is large already may not get the memory to read the file.
    assert re.fullmatch(r"(MemoryError at \S+; )?took \d+\.\d s; took \d+ MB", found.problem)


def test_tally_counts_findings_and_keeps_the_worst() -> None:
    tally = Tally()
    slow = Outcome(1, ORIGINAL, ("check", "."), 0, 2.0, 50, "")
    large = Outcome(2, ORIGINAL, ("show", "."), "KeyError", 1.0, 90, "KeyError at agentv/cli/main.py:1")
    for each in (slow, large):
        tally.add(each)
    assert (tally.commands, tally.findings, tally.slowest, tally.largest) == (2, 1, slow, large)
    assert tally.codes["show", "KeyError"] == 1
