"""`--segments`: every command takes a run with segments as it takes one without."""

import errno
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from zlib import crc32

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.support.carrying import Project

from agentv.storage.files.line_file import part_path
from agentv.storage.files.run_file import append_to
from agentv.storage.files.segment_writer import SegmentRules, SegmentWriter, set_segments_folder
from agentv.storage.files.segments import node_segment_name
from agentv.storage.run.folder import LINE_FILES
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.records.segment import UploadedSegment

FORMATS = ("json", "jsonl", "csv", "md", "junit.xml", "html", "yaml", "sarif")
READING = (
    *(("report", "--format", each) for each in FORMATS),
    ("show",),
    ("show", "latest", "c7"),
    ("show", "latest", "c7", "--json"),
    ("compare", "latest", "latest", "--json"),
    ("compare", "latest", "latest"),
    ("runs", "list", "--json"),
    ("runs", "export", "latest", "-o", "cases.yaml"),
    ("trend", "--json"),
    ("baseline", "save", "latest", "-o", "scores.jsonl"),
)


def run_cases(project: Project, *options: str) -> tuple[int, str]:
    return project.call("run", project.suite, "--display", "none", *options)


def move_into_segments(folder: Path, place: str) -> None:
    """Move the rows of a run that has ended into two segments for each file."""
    set_segments_folder(folder, place)
    for name in LINE_FILES[1:]:
        path = folder / name
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:3]))
        part_path(path, 1).write_bytes(b"".join(lines[3:]))
    writer = SegmentWriter(folder, rules=SegmentRules())
    files = [append_to(folder / name) for name in LINE_FILES[1:]]
    for file in files:
        writer.resume_moving(file)
    writer.close(files)
    for file in files:
        file.close()
    assert writer.error is None


def move_into_segments_of_nodes(folder: Path, place: str) -> None:
    """Move the rows of a run that has ended into segments as nodes write them: their lines have no number."""
    set_segments_folder(folder, place)
    writer = SegmentWriter(folder, rules=SegmentRules())
    files = []
    for name in LINE_FILES[2:]:
        lines = [
            re.sub(rb'"seq":\d+,', b"", line, count=1)
            for line in (folder / name).read_bytes().splitlines(keepends=True)
        ]
        (folder / name).write_bytes(b"")
        files.append(append_to(folder / name))
        for number, part in enumerate((lines[:3], lines[3:])):
            data, segment = b"".join(part), node_segment_name(name, "node", number)
            path = Path(place, folder.name, segment)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            uploaded = UploadedSegment(file=name, name=segment, lines=len(part), bytes=len(data), crc32=crc32(data))
            writer.list_uploaded(files[-1], uploaded)
    writer.close(files)
    for file in files:
        file.close()


def remove_checksums(folder: Path) -> None:
    """Remove the recorded checksums of a run, whose lines are about to be rewritten."""
    path = folder / "events.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    kept = ({key: value for key, value in record.items() if key != "checksums"} for record in records)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in kept))


@pytest.fixture
def ten(project: Project) -> Project:
    """A project with ten cases, of which one fails and one has an error."""
    project.cases = {f"c{number}": f"question {number}" for number in range(10)}
    project.cases["c7"] = "another"
    project.evaluators = "{name: has, type: contains, value: question}"
    (project.folder / "broken").write_text("c3")
    return project


def test_what_reads_a_run_says_the_same_of_its_segments(ten: Project) -> None:
    run_cases(ten)
    before = {words: ten.call(*words) for words in READING}
    scores = (ten.folder / "scores.jsonl").read_bytes()
    assert {code for code, _ in before.values()} == {0}, {w: said for w, (code, said) in before.items() if code}
    move_into_segments(ten.run, str(ten.folder / "place"))
    assert len(list((ten.folder / "place").glob("*/*-00000[01].jsonl"))) == 6
    assert not any((ten.run / name).exists() for name in LINE_FILES[1:])
    for name in ("scores.jsonl", "cases.yaml"):
        (ten.folder / name).unlink()
    assert {words: ten.call(*words) for words in READING} == before
    assert (ten.folder / "scores.jsonl").read_bytes() == scores


def test_what_reads_a_run_says_the_same_of_segments_of_nodes(ten: Project) -> None:
    run_cases(ten)
    remove_checksums(ten.run)
    before = {words: ten.call(*words) for words in READING}
    move_into_segments_of_nodes(ten.run, str(ten.folder / "place"))
    for name in ("scores.jsonl", "cases.yaml"):
        (ten.folder / name).unlink()
    assert {words: ten.call(*words) for words in READING} == before


def test_a_run_with_segments_of_nodes_is_continued(ten: Project) -> None:
    run_cases(ten)
    remove_checksums(ten.run)
    move_into_segments_of_nodes(ten.run, str(ten.folder / "place"))
    ten.calls()
    (ten.folder / "broken").unlink()
    assert ten.call("resume", "latest")[0] == 1
    assert ten.calls() == []
    assert ten.call("retry", "latest", "--errors")[0] == 1
    assert ten.calls() == ["c3"]
    ten.evaluators = "{name: has, type: contains, value: another}"
    assert ten.call("rescore", "latest")[0] == 1
    assert ten.calls() == []
    run = open_run(ten.run)
    assert run.counts() == {"pass": 1, "fail": 9}
    check_answers(run)


def check_answers(run: StoredRun) -> None:
    """Check that each result of a run names the line of its own answer."""
    answers = run.answers_at({row.answer_seq for row in run.all_results() if row.answer_seq is not None})
    for row in run.results():
        assert row.answer_seq is not None
        assert answers[row.answer_seq].slot == row.slot


def test_runs_with_segments_of_nodes_are_merged(ten: Project) -> None:
    for shard in ("1/2", "2/2"):
        run_cases(ten, "--shard", shard)
        folder = max((ten.folder / ".agentv" / "runs").iterdir())
        remove_checksums(folder)
        move_into_segments_of_nodes(folder, str(ten.folder / "place"))
    first, second = sorted((ten.folder / ".agentv" / "runs").iterdir())
    assert ten.call("merge", first.name, second.name)[0] == 1
    merged = open_run(max((ten.folder / ".agentv" / "runs").iterdir()))
    assert sum(merged.counts().values()) == 10
    check_answers(merged)


def test_a_run_moves_its_rows_and_is_continued(ten: Project) -> None:
    code, said = run_cases(ten, "--segments", "place")
    assert code == 1, said
    ten.calls()
    (ten.folder / "broken").unlink()
    assert ten.call("retry", "latest", "--errors")[0] == 1
    assert ten.calls() == ["c3"]
    ten.evaluators = "{name: has, type: contains, value: another}"
    assert ten.call("rescore", "latest")[0] == 1
    assert ten.calls() == []
    run = open_run(ten.run)
    assert run.counts() == {"pass": 1, "fail": 9}
    assert len(list(run.all_results())) == 21
    assert sorted(path.name for path in ten.run.glob("*.jsonl")) == ["events.jsonl", "segments.jsonl"]
    assert len(list((ten.folder / "place").glob("*/results-*.jsonl"))) == 3


KILLING = """
import json, os, signal
from pathlib import Path

def answer(request):
    here = Path(__file__).parent
    with (here / "calls").open("a") as calls:
        calls.write(request.eval_case_id + "\\n")
    if len((here / "calls").read_text().splitlines()) == 5:
        (lock,) = here.glob(".agentv/runs/*/lock")
        os.kill(json.loads(lock.read_text())["pid"], signal.SIGKILL)
    return f"answer to {request.question}"
"""


def test_a_killed_run_is_resumed_without_calling_again(ten: Project) -> None:
    ten.write()
    (ten.folder / "broken").unlink()
    agent = (ten.folder / "agent.py").read_text()
    (ten.folder / "agent.py").write_text(KILLING)
    command = (sys.executable, "-m", "agentv", "run", ten.suite, "--segments", "place", "--display", "none")
    assert subprocess.run(command, cwd=ten.folder, check=False).returncode == -signal.SIGKILL
    (ten.folder / "agent.py").write_text(agent)
    called = ten.calls()
    assert len(called) == 5
    assert (ten.run / "results.jsonl").exists()
    code, said = ten.call("resume", "latest")
    assert code == 1, said
    assert sorted([*called[:4], *ten.calls()]) == sorted(ten.cases)
    assert sorted(row.eval_id for row in open_run(ten.run).all_results()) == sorted(ten.cases)
    assert not (ten.run / "results.jsonl").exists()


def test_shards_are_merged_into_a_run_with_segments(ten: Project) -> None:
    (ten.folder / "broken").unlink()
    for part in (1, 2):
        code, said = run_cases(ten, "--shard", f"{part}/2", "--segments", f"place{part}", "--name", f"part{part}")
        assert code in (0, 1), said
    assert ten.call("merge", "part1", "part2", "--name", "whole", "--segments", "place")[0] == 1
    assert ten.call("show", "whole", "c7")[0] == 0
    whole = max((ten.folder / ".agentv" / "runs").iterdir())
    assert open_run(whole).counts() == {"pass": 9, "fail": 1}
    assert len(list((ten.folder / "place" / whole.name).glob("results-*.jsonl"))) == 1
    assert ten.call("runs", "rm", "whole")[0] == 0
    assert not (ten.folder / "place" / whole.name).exists()


class Refusing(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """An object store that takes run.json, and no segment."""

    protocol = "refusing"

    def put_file(self, lpath: str, rpath: str, *arguments: Any, **options: Any) -> None:
        if not rpath.endswith("run.json"):
            raise OSError(errno.EIO, "set to fail")
        super().put_file(lpath, rpath, *arguments, **options)


def test_a_merge_whose_rows_cannot_be_moved_leaves_nothing(ten: Project) -> None:
    fsspec.register_implementation("refusing", Refusing, clobber=True)
    for part in (1, 2):
        run_cases(ten, "--shard", f"{part}/2", "--name", f"part{part}")
    runs = sorted((ten.folder / ".agentv" / "runs").iterdir())
    code, said = ten.call("merge", "part1", "part2", "--segments", "refusing://team")
    assert (code, "set to fail" in said) == (3, True), said
    assert sorted((ten.folder / ".agentv" / "runs").iterdir()) == runs


def test_a_place_that_cannot_be_written_ends_the_run_before_its_first_call(ten: Project) -> None:
    (ten.folder / "place").write_text("a file")
    code, said = run_cases(ten, "--segments", "place")
    assert (code, ten.calls()) == (3, [])
    assert "cannot write" in said
    assert "place" in said
    code, said = run_cases(ten, "--segments", "what-is-this://bucket")
    assert (code, ten.calls()) == (4, [])
    assert "Protocol not known" in said
    assert ten.call("runs", "list")[1].startswith("no runs in ")


@pytest.mark.parametrize("command", ["resume", "rescore"])
def test_a_run_that_has_lost_its_list_of_segments_is_not_continued(ten: Project, command: str) -> None:
    run_cases(ten, "--segments", "place")
    (ten.run / "segments.jsonl").unlink()
    ten.calls()
    code, said = ten.call(command, "latest")
    assert (code, ten.calls()) == (3, [])
    assert "segments.jsonl, the list of the segments, is missing; restore it from a copy" in said


def test_the_folder_of_the_runs_is_not_a_place_for_segments(ten: Project) -> None:
    code, said = run_cases(ten, "--segments", ".agentv/runs")
    assert (code, ten.calls()) == (4, [])
    assert "is the folder of the runs" in said


def test_replaying_a_run_with_segments_is_refused(ten: Project) -> None:
    run_cases(ten, "--segments", "place")
    (ten.folder / "targets.yaml").write_text(f"targets: [{{name: t, provider: replay, run: {ten.run.name}}}]")
    code, said = run_cases(ten)
    assert code in (3, 4)
    assert "are in segments, which replay cannot read" in said + ten.call("show", "latest", "c1")[1]
