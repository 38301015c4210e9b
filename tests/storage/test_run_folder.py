"""The run folder: its files, the lock, and recovery after failures."""

import json
import os
import socket
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace
from tests.support.opened import counted_opens
from tests.support.stored import NOON, RUN, at_noon, make_answer, make_case, make_result, make_run

from agentv.execution.processes.live_trees import process_mark
from agentv.storage.records.json_line import decode
from agentv.storage.run.folder import RunFolder, new_run_id
from agentv.storage.run.stored import open_run
from agentv.types.errors import StorageError
from agentv.types.messages import Message
from agentv.types.records.answer import AnswerRef


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / ".agentv" / "runs"


@pytest.fixture
def store(runs: Path) -> Iterator[RunFolder]:
    made = RunFolder(runs, RUN.run_id, clock=at_noon)
    made.begin(make_run())
    yield made
    made.close("finished")


def reopen(store: RunFolder) -> RunFolder:
    folder = Path(store.folder)
    return RunFolder(folder.parent, folder.name, clock=at_noon)


def test_the_folder_holds_the_files_of_the_format_for_its_owner_only(store: RunFolder) -> None:
    store.append_case(make_case())
    store.append_answer(make_answer())
    store.append(make_result())
    folder = Path(store.folder)
    assert {entry.name for entry in folder.iterdir()} == {
        "run.json", "events.jsonl", "cases.jsonl", "answers.jsonl", "results.jsonl", "lock",
    }  # fmt: skip
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(entry.stat().st_mode) for entry in folder.iterdir()} == {0o600}


def test_a_row_is_on_disk_when_the_write_returns(store: RunFolder) -> None:
    store.append(make_result())
    (line,) = Path(store.folder, "results.jsonl").read_bytes().splitlines()
    record = json.loads(line)
    assert record["schema"] == "agentv-result-1"
    assert record["seq"] == 0
    assert record["slot"] == {"suite": "evals/refunds.yaml", "eval_id": "refund-7", "target": "agent-v2", "trial": 0}
    assert record["score_key"] == {"contains": "v1:bb", "tone": "v1:cc"}


def test_a_row_refers_to_its_answer_instead_of_repeating_its_messages(store: RunFolder) -> None:
    answer = store.append_answer(make_answer())
    store.append(make_result(answer_ref=AnswerRef(answer.seq or 0), output_messages=answer.output_messages))
    run = open_run(Path(store.folder))
    (row,) = run.results()
    assert row.output_messages is None
    assert row.answer_seq is not None
    assert run.answers_at({row.answer_seq})[0].output_messages == answer.output_messages


def test_run_json_is_written_once(store: RunFolder) -> None:
    store.begin(make_run(name="another"))
    run = open_run(Path(store.folder))
    assert run.run == make_run()
    assert [event.type for event in run.events()] == ["started", "started"]


def test_started_says_who_writes(store: RunFolder) -> None:
    (started,) = open_run(Path(store.folder)).events()
    assert started.fields["pid"] == os.getpid()
    assert started.fields["host"] == socket.gethostname()


def test_the_home_folder_gets_a_gitignore_unless_it_has_one(runs: Path) -> None:
    RunFolder(runs, "a", clock=at_noon).close("finished")
    ignore = runs.parent / ".gitignore"
    assert "/runs/" in ignore.read_text()
    ignore.write_text("mine\n")
    RunFolder(runs, "b", clock=at_noon).close("finished")
    assert ignore.read_text() == "mine\n"


def test_no_gitignore_is_dropped_into_folders_that_are_not_ours(tmp_path: Path) -> None:
    RunFolder(tmp_path / "elsewhere", "a", clock=at_noon).close("finished")
    assert not (tmp_path / ".gitignore").exists()


def test_a_second_writer_is_refused_with_the_holder_of_the_run(store: RunFolder) -> None:
    who = f"process {os.getpid()} on {socket.gethostname()}"
    with pytest.raises(StorageError, match=f"{RUN.run_id} is being written by {who}"):
        reopen(store)


def test_the_lock_dies_with_its_process(runs: Path) -> None:
    code = f"""
        import os, pathlib, signal
        from agentv.storage.run.folder import RunFolder
        from tests.support.stored import at_noon
        store = RunFolder(pathlib.Path({str(runs)!r}), "r", clock=at_noon)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert done.returncode == -9
    RunFolder(runs, "r", clock=at_noon).close("finished")


def test_a_reopened_run_goes_on_counting_and_remembers_its_cases(runs: Path) -> None:
    first = RunFolder(runs, "r", clock=at_noon)
    first.begin(make_run())
    first.append_case(make_case())
    first.append(make_result())
    first.close("stopped")
    second = RunFolder(runs, "r", clock=at_noon)
    second.append_case(make_case())
    assert second.append(make_result()).seq == 1
    second.close("finished")
    run = open_run(runs / "r")
    assert len(list(run.cases())) == 1
    assert [event.type for event in run.events()] == ["started", "ended", "ended"]


def test_a_torn_last_line_is_skipped_when_reading_and_cut_when_writing(runs: Path) -> None:
    first = RunFolder(runs, "r", clock=at_noon)
    first.begin(make_run())
    row = first.append(make_result(answer_ref=AnswerRef(0)))
    first.close("stopped")
    path = runs / "r" / "results.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:100])

    assert list(open_run(runs / "r").results()) == [row]
    assert path.read_bytes() == whole + whole[:100], "reading must not write"

    second = RunFolder(runs, "r", clock=at_noon)
    assert path.read_bytes() == whole
    again = second.append(make_result(answer_ref=AnswerRef(0)))
    second.close("finished")
    run = open_run(runs / "r")
    assert list(run.results()) == [row, again]
    assert {"file": "results.jsonl", "bytes": 100} in [event.fields for event in run.events()]


def test_a_broken_line_in_the_middle_is_named_by_its_number(store: RunFolder) -> None:
    store.append(make_result())
    path = Path(store.folder, "results.jsonl")
    path.write_bytes(b"{not json\n" + path.read_bytes())
    with pytest.raises(StorageError, match=r"results\.jsonl:1: "):
        list(open_run(Path(store.folder)).results())


@pytest.mark.parametrize("generation", [2**32, -1])
def test_an_impossible_generation_is_an_error_with_its_place(store: RunFolder, generation: int) -> None:
    store.append(make_result())
    path = Path(store.folder, "results.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"generation":0', b'"generation":%d' % generation))
    run = open_run(Path(store.folder))
    for read in (run.results, run.all_results, run.counts):
        with pytest.raises(StorageError, match=r"results\.jsonl:1: .*generation"):
            tuple(read())


def test_a_damaged_event_of_a_retired_case_is_named_by_its_number(store: RunFolder) -> None:
    store.append(make_result())
    store.note("case_retired", {"slot": {"suite": "evals/a.yaml", "eval_id": "a", "target": "agent"}})
    path = Path(store.folder, "events.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    number = next(number for number, line in enumerate(lines) if b"case_retired" in line)
    lines[number] = lines[number].replace(b'"slot":', b'"slot" ')
    path.write_bytes(b"".join(lines))
    run = open_run(Path(store.folder))
    for read in (run.counts, run.retired, lambda: list(run.results())):
        with pytest.raises(StorageError, match=rf"events\.jsonl:{number + 1}: "):
            read()


def test_the_first_answer_of_a_slot_counts_and_the_newest_judging_of_it(store: RunFolder) -> None:
    other = make_result().slot.__class__("evals/refunds.yaml", "other", "agent-v2")
    store.append(make_result(candidate_answer="first", answer_ref=AnswerRef(0)))
    store.append(make_result(candidate_answer="kept", slot=other, answer_ref=AnswerRef(1)))
    store.append(make_result(candidate_answer="second", generation=1, answer_ref=AnswerRef(2)))
    store.append(make_result(candidate_answer="third", generation=2, answer_ref=AnswerRef(3), rerun="case"))
    run = open_run(Path(store.folder))
    assert [row.candidate_answer for row in run.results()] == ["first", "kept"]
    assert [(row.candidate_answer, row.rerun) for row in run.reruns()] == [("second", "fresh"), ("third", "case")]
    assert len(list(run.all_results())) == 4
    assert run.counts() == {"fail": 2}
    store.append(make_result(candidate_answer="judged again", generation=3, answer_ref=AnswerRef(0)))
    assert [row.candidate_answer for row in run.results()] == ["kept", "judged again"]


@pytest.mark.parametrize("generation", [0, 1])
def test_the_lines_that_count_may_be_limited_to_the_first_of_a_file(store: RunFolder, generation: int) -> None:
    slots = [replace(make_result().slot, eval_id=name) for name in "aba"]
    for number, slot in enumerate(slots[: 2 + generation]):
        rerun = generation if number > 1 else 0
        store.append_answer(make_answer(slot=slot, generation=rerun))
        store.append(make_result(slot=slot, answer_ref=AnswerRef(number), generation=rerun))
    run = open_run(Path(store.folder))
    for name in ("answers.jsonl", "results.jsonl"):
        numbers = [[number for number, _, _ in run.current_lines(name, lines)] for lines in (0, 1, 2, None)]
        assert numbers == [[], [1], [1, 2], [1, 2]]


def test_results_that_count_are_found_once_for_several_readers(store: RunFolder) -> None:
    store.append(make_result(answer_ref=AnswerRef(0)))
    store.note("generation_started", {"purpose": "retry", "only": "failed", "rows": 1})
    for number in range(1, 4):
        store.append(make_result(generation=number, answer_ref=AnswerRef(number)))
    run = open_run(Path(store.folder))
    with counted_opens() as opened:
        assert len(list(run.results())) == 1
    with counted_opens() as again:
        assert [row.rerun for row in run.reruns()] == ["failed"] * 3
        assert len(list(run.results())) == 1
    assert opened["results.jsonl"] == 3  # which generations there are, which of them count, and the rows
    assert again["results.jsonl"] == 2
    assert again["events.jsonl"] == 3  # the retired cases, twice, and the retries
    store.append(make_result(generation=4, answer_ref=AnswerRef(4), answer_key="edited"))
    assert [row.generation for row in run.results()] == [4]


def test_state_distinguishes_a_running_run_from_a_killed_one(runs: Path) -> None:
    store = RunFolder(runs, "r", clock=at_noon)
    store.begin(make_run())
    assert open_run(runs / "r").state() == "running"
    store.close("stopped")
    assert open_run(runs / "r").state() == "stopped"
    events = runs / "r" / "events.jsonl"
    events.write_bytes(events.read_bytes().splitlines(keepends=True)[0])
    assert open_run(runs / "r").state() == "interrupted"


def test_a_value_too_deep_to_write_costs_its_own_depth_only(store: RunFolder) -> None:
    deep: object = "bottom"
    for _ in range(5000):
        deep = [deep]
    store.append_answer(make_answer(output_messages=(Message("assistant", "ok", metadata={"deep": deep}),)))  # type: ignore[dict-item]  # lists in lists
    (answer,) = open_run(Path(store.folder)).answers()
    assert answer.text == make_answer().text


def test_run_ids_sort_by_time_and_differ_by_chance() -> None:
    assert new_run_id(at_noon, Random(1)) == "20260131T120000.000-2265b1"
    assert new_run_id(at_noon, Random(2)) != new_run_id(at_noon, Random(1))
    moments = iter(NOON + timedelta(milliseconds=ms) for ms in range(0, 3500, 7))
    ids = [new_run_id(moments.__next__, Random(number)) for number in range(500)]
    # An id without milliseconds (an older format) sorts before the others of its second.
    assert sorted(ids) == ids
    assert next(each for each in ids if "T120001" in each) > "20260131T120001-ffffff"


class Disk:
    """An fsync that records the synced files, and can be set to fail."""

    def __init__(self) -> None:
        self.error: OSError | None = None
        self._synced: list[int] = []
        self._news = threading.Condition()

    def __call__(self, descriptor: int) -> None:
        os.fsync(descriptor)
        with self._news:
            self._synced.append(os.fstat(descriptor).st_ino)
            self._news.notify_all()
        if self.error is not None:
            raise self.error

    def has_synced(self, path: Path) -> bool:
        """Wait until a file was synced; return False after ten seconds."""
        with self._news:
            return self._news.wait_for(lambda: path.stat().st_ino in self._synced, timeout=10)


def append_until_refused(store: RunFolder) -> None:
    while True:
        store.append(make_result())


def test_rows_and_the_names_of_files_are_synced_in_the_background(runs: Path) -> None:
    disk = Disk()
    store = RunFolder(runs, "r", clock=at_noon, fsync=disk)
    store.append(make_result())
    assert disk.has_synced(runs / "r" / "results.jsonl")
    assert disk.has_synced(runs / "r")
    assert disk.has_synced(runs)
    store.close("finished")


def test_a_failed_sync_is_raised_by_the_next_write(runs: Path) -> None:
    disk = Disk()
    disk.error = OSError(5, "Input/output error")
    store = RunFolder(runs, "r", clock=at_noon, fsync=disk)
    with pytest.raises(StorageError, match="Input/output error"):
        append_until_refused(store)
    store.close("failed")


def test_a_failed_sync_that_no_write_met_is_raised_at_the_end(runs: Path) -> None:
    disk = Disk()
    store = RunFolder(runs, "r", clock=at_noon, fsync=disk)
    assert disk.has_synced(runs)
    assert disk.has_synced(runs / "r")
    disk.error = OSError(5, "Input/output error")
    with pytest.raises(StorageError, match="Input/output error"):
        store.close("finished")
    RunFolder(runs, "r", clock=at_noon).close("finished")


def test_the_lock_file_names_its_holder_and_is_empty_afterwards(runs: Path) -> None:
    store = RunFolder(runs, "r", clock=at_noon)
    lock = runs / "r" / "lock"
    assert decode(lock.read_bytes()) == {"pid": os.getpid(), "host": socket.gethostname(), "mark": process_mark()}
    store.close("finished")
    assert lock.read_bytes() == b""
