"""After a kill or on a full disk every acknowledged row is there, and no torn line."""

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.support.stored import at_noon

from agentv.storage.run.folder import RunFolder
from agentv.storage.run.stored import open_run

OURS = """
store = RunFolder(runs, "r", clock=at_noon)
store.begin(make_run())
def write(number):
    store.append(make_result(candidate_answer=f"row {number}"))
"""
NAIVE = """
folder = runs / "r"
folder.mkdir(parents=True)
file = (folder / "results.jsonl").open("wb")
def write(number):
    file.write(encode(to_record(make_result(candidate_answer=f"row {number}"))) + b"\\n")
"""
UNBUFFERED = NAIVE.replace('open("wb")', 'open("wb", buffering=0)')
HEAD = """
import resource, sys
from pathlib import Path
from agentv.storage.run.folder import RunFolder
from agentv.storage.records.json_line import encode
from agentv.storage.records.encode import to_record
from agentv.types.errors import StorageError
from tests.support.stored import at_noon, make_result, make_run
runs = Path(sys.argv[1])
"""
WRITE_FOR_EVER = """
number = 0
while True:
    write(number)
    number += 1
    print(number, flush=True)
"""
WRITE_UNTIL_FULL = """
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
number = 0
try:
    while True:
        write(number)
        number += 1
except OSError as error:
    print(number)
    print(error)
"""


def writer(writes: str, work: str, runs: Path) -> subprocess.Popen[str]:
    code = textwrap.dedent(HEAD + writes + work)
    return subprocess.Popen([sys.executable, "-c", code, str(runs)], stdout=subprocess.PIPE, text=True)


def kill_after_hundred_rows(writes: str, runs: Path) -> tuple[int, bytes]:
    """Return the number of rows that a killed writer acknowledged, and its file."""
    process = writer(writes, WRITE_FOR_EVER, runs)
    with process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(100)]
        process.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]
    return acknowledged[-1], (runs / "r" / "results.jsonl").read_bytes()


def write_until_full(writes: str, runs: Path) -> tuple[int, str, bytes]:
    """Return the number of acknowledged rows, the error of the writer, and its file."""
    process = writer(writes, WRITE_UNTIL_FULL, runs)
    output, _ = process.communicate(timeout=60)
    count, message = output.split("\n", 1)
    return int(count), message, (runs / "r" / "results.jsonl").read_bytes()


def test_no_acknowledged_row_is_lost_to_sigkill(tmp_path: Path) -> None:
    acknowledged, _ = kill_after_hundred_rows(OURS, tmp_path)
    run = open_run(tmp_path / "r")
    rows = [row.candidate_answer for row in run.results()]
    assert rows[:acknowledged] == [f"row {number}" for number in range(acknowledged)]
    assert run.state() == "interrupted"


def test_a_buffered_writer_does_lose_rows_to_sigkill(tmp_path: Path) -> None:
    acknowledged, left = kill_after_hundred_rows(NAIVE, tmp_path)
    assert left.count(b"\n") < acknowledged + 1  # the rows are counted from 0


def test_a_full_disk_is_said_and_leaves_every_acknowledged_row(tmp_path: Path) -> None:
    acknowledged, message, left = write_until_full(OURS, tmp_path)
    assert "cannot write results.jsonl" in message
    assert "File too large" in message
    assert "readable" in message
    assert acknowledged > 5
    assert left.endswith(b"}\n")
    assert len(list(open_run(tmp_path / "r").results())) == acknowledged
    RunFolder(tmp_path, "r", clock=at_noon).close("finished")


def test_a_writer_without_rollback_leaves_a_torn_line_on_a_full_disk(tmp_path: Path) -> None:
    _, _, left = write_until_full(UNBUFFERED, tmp_path)
    with pytest.raises(json.JSONDecodeError):
        json.loads(left.splitlines()[-1])
