"""Segments: whatever is moved and wherever a process is killed, a run is read as if nothing had been moved."""

import asyncio
import errno
import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from io import SEEK_END
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.stored import SLOT, at_noon, make_answer, make_case, make_result, make_run
from tests.support.waiting import until

from agentv.storage.files.line_file import joined_crc
from agentv.storage.files.object_store import check_url
from agentv.storage.files.run_file import open_file, size_of, whole_lines
from agentv.storage.files.segment_writer import SegmentRules
from agentv.storage.files.segments import node_segment_name
from agentv.storage.records.encode import encodable_answer, encodable_result
from agentv.storage.records.json_line import encode
from agentv.storage.run.checksums import changed_files, load_checksums
from agentv.storage.run.folder import LINE_FILES, RunFolder
from agentv.storage.run.housekeeping import remove_run
from agentv.storage.run.stored import StoredRun, open_run
from agentv.storage.run.stored_rows import StoredRows
from agentv.types.errors import ConfigError, StorageError
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.records.segment import UploadedSegment

TEXTS = st.lists(st.text(max_size=40), min_size=1, max_size=12)


def write(runs: Path, texts: list[str], *, segments: str | None = None, rules: SegmentRules | None = None) -> StoredRun:
    """Write a run with a case, an answer and a result for each text."""
    store = RunFolder(runs, "r", clock=at_noon, segments=segments, segment_rules=rules or SegmentRules())
    store.begin(make_run(run_id="r"))
    add(store, texts)
    store.close("finished")
    return open_run(runs / "r")


def add(store: RunFolder, texts: list[str]) -> None:
    for number, text in enumerate(texts):
        slot = ResultKey(SLOT.suite, f"{text}-{number}", SLOT.target)
        store.append_case(make_case(eval_id=slot.eval_id, case_key=slot.eval_id))
        answer = store.append_answer(make_answer(slot=slot, text=text))
        store.append(make_result(slot=slot, candidate_answer=text, answer_ref=AnswerRef(answer.seq or 0)))


def rows(run: StoredRun) -> list[str]:
    return [row.candidate_answer for row in run.results()]


def cut_at(size: int) -> SegmentRules:
    return SegmentRules(most_bytes=size)


@settings(max_examples=30, deadline=None)
@given(texts=TEXTS, size=st.integers(1, 8000), reads=st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 4000))))
def test_a_file_is_the_same_wherever_it_is_cut(texts: list[str], size: int, reads: list[tuple[int, int]]) -> None:
    with TemporaryDirectory() as folder:
        plain = write(Path(folder, "plain"), texts)
        moved = write(Path(folder, "moved"), texts, segments=f"{folder}/place", rules=cut_at(size))
        for name in LINE_FILES[1:]:
            assert not (moved.folder / name).exists()
            path, expected = moved.folder / name, (plain.folder / name).read_bytes()
            assert list(whole_lines(path)) == expected.splitlines()
            assert size_of(path) == len(expected)
            with open_file(path, buffering=256) as file:
                assert file.seek(0, SEEK_END) == len(expected)
                for offset, count in reads:
                    file.seek(offset)
                    assert file.read(count) == expected[offset : offset + count]
        assert (moved.counts(), rows(moved)) == (plain.counts(), rows(plain))
        assert changed_files(moved, load_checksums(moved)) == {}
        numbers = {row.answer_seq for row in moved.results() if row.answer_seq is not None}
        assert {seq: each.text for seq, each in moved.answers_at(numbers).items()} == dict(enumerate(texts))


@settings(max_examples=15, deadline=None)
@given(before=TEXTS, after=TEXTS, size=st.integers(1, 8000))
def test_a_run_that_is_continued_goes_on_with_the_next_part(before: list[str], after: list[str], size: int) -> None:
    with TemporaryDirectory() as folder:
        runs = Path(folder, "runs")
        write(runs, before, segments=f"{folder}/place", rules=cut_at(size))
        store = RunFolder(runs, "r", clock=at_noon, segment_rules=cut_at(size))
        store.begin(make_run(run_id="r"))
        add(store, after)
        during = open_run(runs / "r")
        assert [row.candidate_answer for row in during.all_results()] == before + after
        store.close("finished")
        run = open_run(runs / "r")
        assert [row.seq for row in run.all_results()] == list(range(len(before) + len(after)))
        assert changed_files(run, load_checksums(run)) == {}


def test_a_run_is_read_while_parts_of_it_are_moved(tmp_path: Path) -> None:
    texts = [f"row {number}" for number in range(300)]
    store = RunFolder(tmp_path, "r", clock=at_noon, segments=f"{tmp_path}/place", segment_rules=cut_at(2000))
    store.begin(make_run(run_id="r"))
    for number, text in enumerate(texts, start=1):
        add(store, [text])
        if number % 10 == 0:
            assert rows(open_run(tmp_path / "r")) == texts[:number]
    store.close("finished")
    assert rows(open_run(tmp_path / "r")) == texts


KILLED = """
import os, sys
from pathlib import Path
from agentv.storage.run.folder import RunFolder
from agentv.storage.files.segment_writer import SegmentRules
from tests.storage.test_segments import add
from tests.support.stored import at_noon, make_run
runs, step, file, times = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
def before_step(now, name):
    global times
    if (now, name) == (step, file):
        times -= 1
        if times == 0:
            os._exit(9)
rules = SegmentRules(most_bytes=4000, before_step=before_step)
store = RunFolder(runs, "r", clock=at_noon, segments=str(runs / "place"), segment_rules=rules)
store.begin(make_run(run_id="r"))
for number in range(200):
    add(store, [f"row {number}"])
    os.write(1, f"{number}\\n".encode())
store.close("finished")
"""


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("file", LINE_FILES[1:])
@pytest.mark.parametrize("step", ["begin the next part", "upload", "list", "delete"])
def test_a_kill_at_any_step_loses_and_doubles_nothing(tmp_path: Path, step: str, file: str, times: int) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path), step, file, str(times)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    acknowledged = int(done.stdout.split()[-1]) if done.stdout else -1
    found = rows(open_run(tmp_path / "r"))
    assert found == [f"row {number}" for number in range(len(found))]
    assert acknowledged < len(found) or found == []
    assert len(found) - acknowledged <= 2  # the one in progress
    run = continue_run(tmp_path)
    assert rows(run) == [*found, "last"]
    assert [row.seq for row in run.all_results()] == list(range(len(found) + 1))
    assert changed_files(run, load_checksums(run)) == {}
    assert not any((run.folder / name).exists() for name in LINE_FILES[1:])
    assert not list(run.folder.glob("*.[0-9]*.jsonl"))


def continue_run(runs: Path) -> StoredRun:
    """Add one row to a run as another process would that continues it."""
    store = RunFolder(runs, "r", clock=at_noon, segment_rules=cut_at(4000))
    store.begin(make_run(run_id="r"))
    add(store, ["last"])
    store.close("finished")
    return open_run(runs / "r")


def moved_run(tmp_path: Path) -> tuple[StoredRun, list[Path]]:
    """Return a run with several segments, and those of its results."""
    run = write(tmp_path / "runs", [f"row {n}" for n in range(9)], segments=str(tmp_path / "place"), rules=cut_at(4000))
    return run, sorted((tmp_path / "place" / "r").glob("results-*"))


def upload(store: RunFolder, texts: list[str], number: int) -> None:
    """Store rows as a node does: answers, then results that name their lines; none has its own number."""
    assert store.segments_place is not None
    place, epoch = Path(store.segments_place), f"node{number}"

    async def listed(file: str, lines: list[bytes]) -> int:
        data = b"".join(line + b"\n" for line in lines)
        name = node_segment_name(file, epoch, number)
        (place / name).write_bytes(data)
        uploaded = UploadedSegment(file=file, name=name, lines=len(lines), bytes=len(data), crc32=crc32(data))
        first = await store.list_segment(uploaded)
        assert first is not None
        return first

    slots = [ResultKey(SLOT.suite, f"{text}-{epoch}-{at}", SLOT.target) for at, text in enumerate(texts)]
    answers = [make_answer(slot=slot, text=text) for slot, text in zip(slots, texts, strict=True)]
    first = asyncio.run(listed("answers.jsonl", [encode(encodable_answer(answer)) for answer in answers]))
    results = [
        make_result(slot=slot, candidate_answer=text, answer_ref=AnswerRef(first + at))
        for at, (slot, text) in enumerate(zip(slots, texts, strict=True))
    ]
    asyncio.run(listed("results.jsonl", [encode(encodable_result(result)) for result in results]))


STEPS = st.lists(st.tuples(st.sampled_from(["here", "node", "reopen"]), TEXTS), min_size=1, max_size=6)


@settings(max_examples=30, deadline=None)
@given(steps=STEPS, size=st.integers(500, 8000))
def test_segments_of_nodes_and_own_parts_are_one_file(steps: list[tuple[str, list[str]]], size: int) -> None:
    with TemporaryDirectory() as folder:
        runs, expected = Path(folder, "runs"), list[str]()

        def opened() -> RunFolder:
            store = RunFolder(runs, "r", clock=at_noon, segments=f"{folder}/place", segment_rules=cut_at(size))
            store.begin(make_run(run_id="r"))
            return store

        store = opened()
        for number, (step, texts) in enumerate(steps):
            if step == "reopen":
                store.close("stopped")
                store = opened()
                continue
            add(store, texts) if step == "here" else upload(store, texts, number)
            expected += texts
            run = open_run(runs / "r")
            assert [row.candidate_answer for row in run.all_results()] == expected
            assert [row.seq for row in run.all_results()] == list(range(len(expected)))
        store.close("finished")
        run = open_run(runs / "r")
        answers = run.answers_at({row.answer_seq for row in run.all_results() if row.answer_seq is not None})
        assert {seq: each.text for seq, each in answers.items()} == dict(enumerate(expected))
        assert [each.seq for each in answers.values()] == list(answers)
        assert changed_files(run, load_checksums(run)) == {}


class WatchedPath(type(Path())):  # type: ignore[misc]  # its class depends on the system
    """A path that calls a function when the name of another part is requested for the first time."""

    changes: list[Callable[[], None]]

    def with_name(self, name: str) -> Path:
        while self.changes:
            self.changes.pop()()
        return Path(super().with_name(name))


def test_a_segment_that_is_listed_while_a_file_is_opened_is_read(tmp_path: Path) -> None:
    """The reader has the list and the local part, and looks for the next part, when both change."""
    store = RunFolder(tmp_path, "r", clock=at_noon, segments=f"{tmp_path}/place")
    store.begin(make_run(run_id="r"))
    path = WatchedPath(tmp_path / "r" / "results.jsonl")

    def change() -> None:
        upload(store, ["of a node"], 0)
        add(store, ["of the driver"])

    path.changes = [change]
    lines = [json.loads(line)["candidate_answer"] for line in whole_lines(path)]
    store.close("finished")
    assert lines == ["of a node", "of the driver"]


def test_a_row_is_found_by_its_key_with_its_number(tmp_path: Path) -> None:
    store = RunFolder(tmp_path, "r", clock=at_noon, segments=f"{tmp_path}/place")
    store.begin(make_run(run_id="r"))
    for number in range(5):
        upload(store, [f"row {at}" for at in range(40)], number)
    store.close("finished")
    run = open_run(tmp_path / "r")
    rows = StoredRows(run)
    try:
        found = [rows.find(row.slot) for row in run.all_results()]
        assert [row.seq for row in found if row is not None] == list(range(200))
    finally:
        rows.close()


KILLED_WHILE_LISTING = KILLED.replace("import add", "import add, upload").replace(
    """    add(store, [f"row {number}"])
""",
    """    upload(store, [f"row {number}"], number)
""",
)


@pytest.mark.parametrize("file", ["answers.jsonl", "results.jsonl"])
@pytest.mark.parametrize("step", ["list", "delete"])
def test_a_kill_while_a_segment_of_a_node_is_listed_loses_nothing(tmp_path: Path, step: str, file: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED_WHILE_LISTING), str(tmp_path), step, file, "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    acknowledged = int(done.stdout.split()[-1])
    found = rows(open_run(tmp_path / "r"))
    assert found == [f"row {number}" for number in range(len(found))]
    assert acknowledged < len(found) <= acknowledged + 2
    run = continue_run(tmp_path)
    assert rows(run) == [*found, "last"]
    assert [row.seq for row in run.all_results()] == list(range(len(found) + 1))
    assert not list(run.folder.glob("*.[0-9]*.jsonl"))


@given(st.binary(max_size=3000), st.binary(max_size=3000))
def test_the_crc_of_two_pieces_is_that_of_both_together(first: bytes, second: bytes) -> None:
    assert joined_crc(crc32(first), crc32(second), len(second)) == crc32(first + second)


def test_a_file_that_is_not_listed_does_not_count(tmp_path: Path) -> None:
    run, segments = moved_run(tmp_path)
    before = rows(run)
    segments[0].with_name(f"results-{len(segments):06}.jsonl").write_bytes(segments[0].read_bytes())
    assert rows(run) == before


def test_a_listed_segment_that_is_missing_is_an_error_with_its_line(tmp_path: Path) -> None:
    run, segments = moved_run(tmp_path)
    segments[1].unlink()
    with pytest.raises(StorageError, match=r"segments\.jsonl:\d+: cannot read .*results-000001\.jsonl: there is no"):
        rows(run)
    line = line_of(run, "results.jsonl", 1)
    with pytest.raises(StorageError, match=rf"segments\.jsonl:{line}: "):
        run.counts()


def line_of(run: StoredRun, file: str, part: int) -> int:
    """Return the number of the line of segments.jsonl that lists a part."""
    lines = (run.folder / "segments.jsonl").read_text().splitlines()
    found = [(record.get("file"), record.get("part")) for record in map(json.loads, lines)]
    return found.index((file, part)) + 1


def test_a_listed_segment_of_another_size_is_an_error(tmp_path: Path) -> None:
    run, segments = moved_run(tmp_path)
    os.truncate(segments[1], segments[1].stat().st_size - 1)
    with pytest.raises(StorageError, match=r"results-000001\.jsonl has \d+ bytes, but was listed with \d+"):
        rows(run)


def test_a_listed_segment_with_another_content_is_an_error(tmp_path: Path) -> None:
    run, segments = moved_run(tmp_path)
    segments[1].write_bytes(segments[1].read_bytes().replace(b"row", b"cow"))
    with pytest.raises(StorageError, match=r"results-000001\.jsonl has the CRC-32 [0-9a-f]{8}, but was listed"):
        rows(run)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda lines: [*lines[:2], *lines[3:]], r"segments\.jsonl:\d+: part \d+ of \w+\.jsonl does not follow"),
        (lambda lines: [*lines[:2], b"{}", *lines[2:]], r"segments\.jsonl:3: "),
        (lambda lines: [lines[0].replace(b"segments-1", b"segments-2"), *lines[1:]], r"segments\.jsonl:1: .*newer"),
    ],
)
def test_a_broken_list_is_an_error_with_its_line(tmp_path: Path, broken, message: str) -> None:  # type: ignore[no-untyped-def]
    run, _ = moved_run(tmp_path)
    path = run.folder / "segments.jsonl"
    path.write_bytes(b"\n".join(broken(path.read_bytes().splitlines())) + b"\n")
    with pytest.raises(StorageError, match=message):
        [*run.results(), *run.all_answers(), *run.cases()]
    with pytest.raises(StorageError, match=message):
        RunFolder(tmp_path / "runs", "r", clock=at_noon)


@pytest.mark.parametrize("name", ["../../precious", "/precious", "results-000001.jsonl/../../../precious", "run.json"])
def test_a_listed_name_cannot_lead_to_another_file(tmp_path: Path, name: str) -> None:
    run, _ = moved_run(tmp_path)
    (tmp_path / "precious").write_text("not ours")
    path = run.folder / "segments.jsonl"
    lines = path.read_bytes().splitlines()
    lines[-1] = json.dumps({**json.loads(lines[-1]), "name": name}).encode()
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(StorageError, match=rf"segments\.jsonl:{len(lines)}: .* is not the name of a segment"):
        remove_run(run.folder)
    assert (tmp_path / "precious").exists()


@pytest.mark.parametrize("content", [b"", b'{"schema":"agentv-seg'])
def test_a_list_without_its_first_line_is_an_error(tmp_path: Path, content: bytes) -> None:
    run, segments = moved_run(tmp_path)
    (run.folder / "segments.jsonl").write_bytes(content)
    for use in (lambda: rows(run), lambda: remove_run(run.folder), lambda: continue_run(tmp_path / "runs")):
        with pytest.raises(StorageError, match=r"segments\.jsonl:1: the first line is missing"):
            use()
    assert all(path.exists() for path in segments)


@pytest.mark.parametrize("lines", [-1, 1])
def test_a_run_whose_list_has_lost_lines_is_not_continued(tmp_path: Path, lines: int) -> None:
    """The segments that are no longer listed would be overwritten."""
    run, _ = moved_run(tmp_path)
    path, before = run.folder / "segments.jsonl", {each: each.read_bytes() for each in tmp_path.glob("place/r/*")}
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))
    with pytest.raises(StorageError, match=r"segments\.jsonl does not list \S+/r/\w+-\d{6}\.jsonl\. Restore"):
        continue_run(tmp_path / "runs")
    assert {each: each.read_bytes() for each in tmp_path.glob("place/r/*")} == before


def test_a_copy_of_a_run_does_not_overwrite_the_segments_of_the_first(tmp_path: Path) -> None:
    run, _ = moved_run(tmp_path)
    copytree(tmp_path / "runs", tmp_path / "copy")
    continue_run(tmp_path / "copy")
    with pytest.raises(StorageError, match="if another copy of this run was continued, continue that one"):
        continue_run(tmp_path / "runs")
    assert rows(open_run(tmp_path / "copy" / "r")) == [*rows(run), "last"]


def test_a_missing_local_part_with_later_parts_is_an_error(tmp_path: Path) -> None:
    """An object store that could not be reached for long leaves several parts in the folder of the run."""
    place = tmp_path / "place"
    store = RunFolder(tmp_path, "r", clock=at_noon, segments=str(place), segment_rules=cut_at(2000))
    store.begin(make_run(run_id="r"))
    place.joinpath("r").rename(tmp_path / "elsewhere")
    place.joinpath("r").write_text("a file")
    add(store, [f"row {number}" for number in range(20)])
    with pytest.raises(StorageError, match="cannot move a part"):
        store.close("finished")
    first, *_, last = sorted((tmp_path / "r").glob("results.*.jsonl"), key=lambda path: int(path.suffixes[0][1:]))
    first.rename(tmp_path / "lost")
    for use in (lambda: rows(open_run(tmp_path / "r")), lambda: continue_run(tmp_path)):
        with pytest.raises(StorageError, match=rf"{first.name} is missing, but later parts of the file exist"):
            use()
    assert last.exists()


def test_a_place_that_cannot_be_written_is_said_before_the_run_begins(tmp_path: Path) -> None:
    (tmp_path / "place").write_text("a file")
    store = RunFolder(tmp_path, "r", clock=at_noon, segments=str(tmp_path / "place"))
    with pytest.raises(StorageError, match=r"cannot write .*place/r/run\.json"):
        store.begin(make_run(run_id="r"))
    store.close("failed")
    assert not (tmp_path / "r" / "run.json").exists()


def test_rows_stay_in_the_folder_while_the_place_cannot_be_written(tmp_path: Path) -> None:
    place = tmp_path / "place"
    store = RunFolder(tmp_path, "r", clock=at_noon, segments=str(place), segment_rules=cut_at(2000))
    store.begin(make_run(run_id="r"))
    texts = [f"row {number}" for number in range(20)]
    add(store, texts[:10])
    files = ("cases", "answers", "results")
    # A part that is still being moved would make the folder again.
    assert until(lambda: all(len([*(tmp_path / "r").glob(f"{name}*.jsonl")]) <= 1 for name in files))
    place.rename(tmp_path / "elsewhere")
    place.write_text("a file")
    add(store, texts[10:])
    with pytest.raises(StorageError, match=r"Every result is saved in .*agentv resume r"):
        store.close("finished")
    place.unlink()
    (tmp_path / "elsewhere").rename(place)
    assert rows(open_run(tmp_path / "r")) == texts
    run = continue_run(tmp_path)
    assert rows(run) == [*texts, "last"]
    assert not (run.folder / "results.jsonl").exists()


def test_a_part_is_moved_when_it_is_old(tmp_path: Path) -> None:
    run = write(tmp_path, ["a", "b", "c"], segments=str(tmp_path / "place"), rules=SegmentRules(most_s=0))
    assert len(list((tmp_path / "place" / "r").glob("results-*"))) == 3
    assert rows(run) == ["a", "b", "c"]


def test_a_run_and_its_segments_can_be_moved_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write(tmp_path / "here" / "runs", ["a", "b"], segments="place")
    (tmp_path / "here").rename(tmp_path / "there")
    assert rows(open_run(tmp_path / "there" / "runs" / "r")) == ["a", "b"]


def test_deleting_a_run_deletes_its_segments(tmp_path: Path) -> None:
    run, segments = moved_run(tmp_path)
    orphan = segments[0].with_name(f"results-{len(segments):06}.jsonl")
    orphan.write_text("uploaded when the process was killed")
    kept = tmp_path / "place" / "r" / "notes.txt"
    kept.write_text("not ours")
    remove_run(run.folder)
    assert not run.folder.exists()
    assert [path.name for path in kept.parent.iterdir()] == ["notes.txt"]


def test_a_run_whose_segments_cannot_be_deleted_stays(tmp_path: Path) -> None:
    run, _ = moved_run(tmp_path)
    (tmp_path / "place").rename(tmp_path / "elsewhere")
    (tmp_path / "place").write_text("a file")
    with pytest.raises(StorageError, match=r"cannot delete .*-000000\.jsonl"):
        remove_run(run.folder)
    (tmp_path / "place").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "place")
    assert len(rows(open_run(run.folder))) == 9
    remove_run(run.folder)
    assert not (tmp_path / "place" / "r").exists()


def test_a_url_of_fsspec_works_as_a_folder_does(tmp_path: Path) -> None:
    memory = pytest.importorskip("fsspec.implementations.memory", reason="fsspec is not installed: agentv[segments]")
    texts = [f"row {number}" for number in range(9)]
    plain = write(tmp_path / "plain", texts)
    url = f"memory://bucket/{tmp_path.name}"
    moved = write(tmp_path / "moved", texts, segments=url, rules=cut_at(4000))
    for name in LINE_FILES[1:]:
        assert list(whole_lines(moved.folder / name)) == list(whole_lines(plain.folder / name))
    assert rows(continue_run(tmp_path / "moved")) == [*texts, "last"]
    remove_run(moved.folder)
    assert not memory.MemoryFileSystem().exists(f"/bucket/{tmp_path.name}/r/results-000000.jsonl")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "must not be empty"),
        ("s3://me:secret@bucket/runs", "must not contain a user or password"),
        ("nothing-like-this://bucket", "nothing-like-this://bucket: Protocol not known"),
        ("s3://[me:secret@bucket", "the URL of segments is not valid: Invalid IPv6 URL"),
        ("simplecache::s3://me:secret@bucket", "must name one object store, without '::'"),
        ("https://host/runs?sig=secret", "must not contain a query"),
        ("s3://", "s3:// names no bucket"),
        ("s3:///", "s3:/// names no bucket"),
        ("memory://bucket", "memory:// ends with the process"),
        ("github://bucket", "github://bucket: TypeError: "),
    ],
)
def test_an_unsafe_url_of_segments_is_refused(tmp_path: Path, url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        check_url(url, runs=tmp_path)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", [".", "../runs", "link", "file://{runs}", "local://{runs}"])
def test_the_folder_of_the_runs_is_not_a_place_for_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The segments of a run would be written into its own folder, over its run.json."""
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "link").symlink_to(runs)
    monkeypatch.chdir(runs)
    with pytest.raises(ConfigError, match="is the folder of the runs"):
        check_url(name.format(runs=runs), runs=runs)


def test_a_long_wait_for_the_last_segments_is_reported(tmp_path: Path) -> None:
    messages: list[str] = []
    may_upload = threading.Event()

    def report(message: str) -> None:
        messages.append(message)
        may_upload.set()

    def before_step(step: str, _file: str) -> None:
        if step == "upload":
            assert may_upload.wait(30)

    rules = SegmentRules(before_step=before_step, report_wait_s=0)
    store = RunFolder(tmp_path / "runs", "r", clock=at_noon, segments=str(tmp_path / "place"), segment_rules=rules)
    store.report_to(report)
    store.begin(make_run(run_id="r"))
    add(store, ["row"])
    store.close("finished")
    (message,) = messages
    assert message == (
        f"waiting for {tmp_path / 'place' / 'r'}: 3 parts of this run are not moved yet; what cannot be moved stays in "
        f"{tmp_path / 'runs' / 'r'}"
    )
    assert rows(open_run(tmp_path / "runs" / "r")) == ["row"]


def test_the_end_of_a_run_tries_once_to_move_its_parts(tmp_path: Path) -> None:
    tried: list[str] = []

    def before_step(step: str, file: str) -> None:
        if step == "upload":
            tried.append(file)
            raise OSError(errno.EIO, "broken")

    rules = SegmentRules(before_step=before_step)
    with pytest.raises(StorageError, match="broken"):
        write(tmp_path / "runs", ["row"], segments=str(tmp_path / "place"), rules=rules)
    assert tried == ["cases.jsonl"]
