"""Checksums of a run's files: recorded as they grow, right after kills, broken by any change."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.support.opened import counted_opens
from tests.support.stored import RUN, at_noon, make_result, make_run

from agentv.storage.files import line_file
from agentv.storage.files.line_file import LineFile
from agentv.storage.run.checksums import changed_files, load_checksums
from agentv.storage.run.folder import RESULTS_PER_CHECKSUM, RunFolder
from agentv.storage.run.stored import open_run
from agentv.storage.run.stored_check import RESULTS_ONLY, StoredCheck, check_stored_run


def open_store(folder: Path) -> RunFolder:
    store = RunFolder(folder.parent, folder.name, clock=at_noon)
    store.begin(make_run())
    return store


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A run with more than 1,000 results, which was killed: nothing was closed."""
    folder = tmp_path / ".agentv" / "runs" / RUN.run_id
    store = open_store(folder)
    for _ in range(RESULTS_PER_CHECKSUM + 2):
        store.append(make_result())
    yield folder
    store.close("interrupted")


def problems(folder: Path) -> list[str]:
    run = open_run(folder)
    return list(changed_files(run, load_checksums(run)).values())


def kill(folder: Path) -> None:
    """Release the lock, as the death of its process does."""
    (folder / "lock").unlink()


def test_a_killed_run_has_a_checksum_of_its_first_thousand_results(folder: Path) -> None:
    recorded = load_checksums(open_run(folder)).of_files["results.jsonl"]
    assert [each.lines for each in recorded] == [0, RESULTS_PER_CHECKSUM]
    first = b"".join((folder / "results.jsonl").read_bytes().splitlines(keepends=True)[:RESULTS_PER_CHECKSUM])
    assert (recorded[-1].size, recorded[-1].crc32) == (len(first), f"{zlib.crc32(first):08x}")
    assert problems(folder) == []


def test_checksums_stay_right_when_a_killed_run_continues_after_a_torn_line(folder: Path) -> None:
    kill(folder)
    with (folder / "results.jsonl").open("ab") as file:
        file.write(b'{"torn')
    store = open_store(folder)
    store.append(make_result())
    store.close("finished")
    recorded = load_checksums(open_run(folder)).of_files["results.jsonl"]
    assert [each.lines for each in recorded] == [0, 1_000, 1_002, 1_003]
    assert recorded[-1].crc32 == f"{zlib.crc32((folder / 'results.jsonl').read_bytes()):08x}"
    assert problems(folder) == []


@pytest.mark.parametrize("seed", range(5))
def test_one_flipped_bit_before_a_checksum_is_found(folder: Path, seed: int) -> None:
    path = folder / "results.jsonl"
    data = bytearray(path.read_bytes())
    at = Random(seed).randrange(load_checksums(open_run(folder)).of_files["results.jsonl"][-1].size)
    data[at] ^= 1
    path.write_bytes(data)
    assert problems(folder) == [
        "results.jsonl was changed after it was written: its first 1,000 lines are not as recorded"
    ]


def test_a_change_is_still_found_after_a_resume(folder: Path) -> None:
    kill(folder)
    path = folder / "results.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines[2:]]))
    store = open_store(folder)
    store.append(make_result())
    store.close("finished")
    assert len(problems(folder)) == 1


def test_a_check_reads_the_results_once_and_not_without_checksums(folder: Path) -> None:
    with counted_opens() as opened:
        assert check_stored_run(open_run(folder)) == check_stored_run(open_run(folder), RESULTS_ONLY) == StoredCheck()
    assert opened["results.jsonl"] == 2
    (folder / "events.jsonl").write_text("")
    with counted_opens() as opened:
        assert check_stored_run(open_run(folder)) == StoredCheck(has_checksums=False)
    assert opened["results.jsonl"] == 0


def test_a_file_that_is_gone_is_found(folder: Path) -> None:
    (folder / "results.jsonl").unlink()
    assert len(problems(folder)) == 1


@pytest.mark.parametrize("fields", ["7", "{}", '{"results.jsonl":{"lines":"x","bytes":1,"crc32":"0"}}'])
def test_checksums_that_cannot_be_read_are_reported(folder: Path, fields: str) -> None:
    events = folder / "events.jsonl"
    line = f'{{"schema":"agentv-event-1","seq":9,"time":"2026-01-01T00:00:00Z","type":"x","checksums":{fields}}}\n'
    events.write_text(events.read_text() + line)
    assert problems(folder) == [
        "events.jsonl was changed after it was written: the checksums of event 9 cannot be read"
    ]


def test_the_event_of_a_label_says_nothing_of_other_files(folder: Path) -> None:
    events = folder / "events.jsonl"
    checksums = '{"labels.jsonl":{"lines":0,"bytes":0,"crc32":"00000000"},"run.json":{"crc32":"0badc0de"}}'
    line = (
        '{"schema":"agentv-event-1","seq":9,"time":"2026-01-01T00:00:00Z","type":"labelled",'
        f'"checksums":{checksums}}}\n'
    )
    events.write_text(events.read_text() + line)
    assert problems(folder) == []


def test_a_file_that_cannot_be_read_is_a_problem_beside_others(folder: Path) -> None:
    (folder / "results.jsonl").write_text("")
    (folder / "answers.jsonl").unlink()
    (folder / "answers.jsonl").mkdir()
    answers, results = problems(folder)
    assert answers.startswith("answers.jsonl cannot be compared with its checksums: ")
    assert results.startswith("results.jsonl was changed after it was written")


def test_lines_longer_than_one_read_have_the_same_checksum(tmp_path: Path) -> None:
    text = b"a" * line_file._READ_BYTES + b"\n" + b"b\n" + b"c" * (2 * line_file._READ_BYTES) + b"\n" + b"torn"
    (tmp_path / "x.jsonl").write_bytes(text)
    file = LineFile(tmp_path / "x.jsonl")
    file.append(b"d")
    file.close()
    whole = text.removesuffix(b"torn") + b"d\n"
    assert file.checksum == {"lines": 4, "bytes": len(whole), "crc32": f"{zlib.crc32(whole):08x}"}


def test_a_record_with_a_number_out_of_range_counts_as_changed(folder: Path) -> None:
    record = folder / "run.json"
    record.write_text(record.read_text().replace("{", '{"more": 1e999, ', 1))
    assert "run.json was changed after it was written" in problems(folder)
