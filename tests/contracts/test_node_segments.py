"""Nodes that store their rows as segments: the same run as on this machine, whatever is lost on the way."""

import asyncio
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.contracts.test_backends import SUITE, TARGET, calls, write_cases
from tests.support.cluster import Calls, ProcessMachines, ProcessNode, plan_of, run_on, stored_rows
from tests.support.stored import at_noon, make_answer, make_result

from agentv.engine.cluster.driver import LeasedRow, Node, NodeLostError, NodeSession
from agentv.engine.cluster.lines import EndedRow, Line, Lines, SegmentLine, StoredLine, decode_lines, encode_lines
from agentv.engine.cluster.node_segments import MAX_UNLISTED, NodeSegments, SpoolRules
from agentv.engine.running.recorder import StopSignal
from agentv.storage.files.run_file import whole_lines
from agentv.storage.records.decode import RESULTS
from agentv.storage.records.json_line import encode
from agentv.storage.run.blobs import BLOB_LIMIT
from agentv.storage.run.checksums import changed_files, load_checksums
from agentv.storage.run.folder import LINE_FILES, RunFolder
from agentv.storage.run.housekeeping import remove_run
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import ConfigError
from agentv.types.events import AnswerArrived, RowFinished, RunNote
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.results import RunReport

NAMES = [f"case-{number}" for number in range(12)]
CHANGING = re.compile(
    r'"(run_id|seq|timestamp|started_at|ended_at|duration_ms|time|wait_ms)":("[^"]*"|[-0-9.e]+),?|"answer_ref":{[^}]*},?'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "upper.py").write_text(TARGET)
    (tmp_path / ".agentv").mkdir()
    (tmp_path / ".agentv" / "targets.yaml").write_text(
        'targets:\n  - {name: upper, provider: python, workers: 2, callable: "../upper.py:answer"}\n'
    )
    write_cases(tmp_path, NAMES)
    return tmp_path


class OneByOne(ProcessNode):
    """A node that stores its rows often."""

    rules = SpoolRules(min_wait_s=0.01, wait_share=0.0, retry_s=0.02)


def on_nodes(folder: Path, machines: ProcessMachines, **options: object) -> RunReport:
    return asyncio.run(run_on(folder, machines, segments=str(folder / "place"), **options))  # type: ignore[arg-type]


def run_of(report: RunReport) -> StoredRun:
    assert report.folder is not None
    return open_run(Path(report.folder))


def files_of(report: RunReport) -> dict[str, list[str]]:
    """Return the lines of a run's files without times, durations, ids and numbers, sorted."""
    folder = run_of(report).folder
    lines = {name: [line.decode() for line in whole_lines(folder / name)] for name in LINE_FILES[1:]}
    return {name: sorted(CHANGING.sub("", line) for line in each) for name, each in lines.items()}


def check_whole(report: RunReport, names: Sequence[str] = NAMES) -> None:
    """Check that a run has each row once, that the report counted it, and that each names its own answer."""
    run = run_of(report)
    rows = list(run.all_results())
    assert Counter(row.eval_id for row in rows) == dict.fromkeys(names, 1)
    assert f" of {len(names)} judged results passed" in report.verdict.sentence
    assert [row.seq for row in rows] == list(range(len(rows)))
    assert [answer.seq for answer in run.all_answers()] == list(range(sum(1 for _ in run.all_answers())))
    answers = run.answers_at({row.answer_seq for row in rows if row.answer_seq is not None})
    for row in rows:
        assert row.answer_seq is not None
        assert answers[row.answer_seq].slot == row.slot
    assert changed_files(run, load_checksums(run)) == {}


@pytest.mark.parametrize("nodes", [1, 3])
def test_nodes_store_the_rows_of_a_run_on_this_machine(folder: Path, nodes: int) -> None:
    cases = [*NAMES, "broken"]
    write_cases(folder, cases)
    with (folder / "words.yaml").open("a") as suite:
        suite.write(f"  - {{id: long, input: 'a {'word ' * BLOB_LIMIT}', expected_outcome: A}}\n")
    here = asyncio.run(run_on(folder, None))
    there = on_nodes(folder, ProcessMachines(nodes))
    assert files_of(there) == files_of(here)
    assert there.verdict == here.verdict
    listed = (run_of(there).folder / "segments.jsonl").read_text()
    assert len(re.findall(r'"name":"results-', listed)) >= nodes
    check_whole(on_nodes(folder, ProcessMachines(nodes), case_globs=("case-*",)))


def test_the_lines_of_a_node_do_not_pass_through_the_driver(folder: Path) -> None:
    sent: list[object] = []

    class Watched(ProcessNode):
        async def _take(self, wait_s: float) -> bytes:
            data = await super()._take(wait_s)
            sent.extend(decode_lines(data).lines)
            return data

    check_whole(on_nodes(folder, ProcessMachines(1, node=Watched)))
    assert {line.file for line in sent if isinstance(line, StoredLine)} == {"case"}
    rows = [row for line in sent if isinstance(line, SegmentLine) for row in line.rows]
    assert len(rows) == len(NAMES)
    assert not any(b"A CASE-" in row for row in rows)


def losing(at: str) -> type[ProcessNode]:
    """Return nodes of which the first is lost at a point of storing its rows."""

    class Losing(OneByOne):
        @property
        def is_first(self) -> bool:
            return self.name == "node-0"

        async def _take(self, wait_s: float) -> bytes:
            data = await super()._take(wait_s)
            for line in decode_lines(data).lines if self.is_first else ():
                if isinstance(line, SegmentLine) and at == f"{line.segment.file} uploaded":
                    self.lose()
                    raise NodeLostError("its machine is gone")
                if isinstance(line, EndedRow) and at == "row ended":
                    asyncio.get_running_loop().call_soon(self.lose)  # the driver gets this line, and no other
            return data

        async def listed(self, name: str, first: int | None) -> None:
            if self.is_first and at == f"{name.split('-', maxsplit=1)[0]}.jsonl listed":
                self.lose()
            await super().listed(name, first)

    return Losing


LOSSES = [
    "row ended",
    "answers.jsonl uploaded",
    "answers.jsonl listed",
    "results.jsonl uploaded",
    "results.jsonl listed",
]


@pytest.mark.parametrize("at", LOSSES)
def test_no_row_is_lost_or_doubled_when_a_node_is_lost(folder: Path, at: str) -> None:
    report = on_nodes(folder, ProcessMachines(2, node=losing(at)))
    assert any("node-0 was lost" in note for note in report.notes)
    check_whole(report)
    assert len(calls(folder)) <= 2 * len(NAMES)


def test_rows_that_ended_before_an_interrupt_are_stored_and_counted(folder: Path) -> None:
    """None of them is listed when the run is interrupted."""
    stop = StopSignal()
    arrived: list[str] = []

    def interrupt(event: AnswerArrived) -> None:
        arrived.append(event.answer.slot.eval_id)
        if len(arrived) == 6:
            stop.interrupt("interrupted")

    report = on_nodes(folder, ProcessMachines(2), stop=stop, observers=(Calls(AnswerArrived, interrupt),))
    rows = stored_rows(report)
    assert report.state == "interrupted"
    assert 2 <= len(rows) < len(NAMES)
    assert sum(target.counts["pass"] for target in report.targets) == len(rows)
    assert set(arrived) <= {answer.slot.eval_id for answer in run_of(report).all_answers()}


def test_rows_that_cannot_be_listed_before_an_interrupt_are_named(folder: Path) -> None:
    class Mute(ProcessNode):
        async def _take(self, wait_s: float) -> bytes:
            lines = decode_lines(await super()._take(wait_s)).lines
            return encode_lines(Lines([line for line in lines if not isinstance(line, SegmentLine)]))

    stop = StopSignal()
    arrived: list[str] = []

    def interrupt(event: AnswerArrived) -> None:
        arrived.append(event.answer.slot.eval_id)
        if len(arrived) == 6:
            stop.interrupt("interrupted")

    report = on_nodes(folder, ProcessMachines(1, node=Mute), stop=stop, observers=(Calls(AnswerArrived, interrupt),))
    assert any(re.search(r"node-0 ended before it stored \d results?;", note) for note in report.notes)
    assert stored_rows(report) == []
    assert all(target.counts["pass"] == 0 for target in report.targets)


def test_a_result_that_fails_stops_the_run_soon(folder: Path) -> None:
    (folder / "upper.py").write_text(TARGET.replace("request.question.upper()", "'nothing'"))
    report = on_nodes(folder, ProcessMachines(1), fail_fast=1)
    rows = stored_rows(report)
    assert report.state == "stopped"
    assert 1 <= len(rows) < len(NAMES)
    assert sum(target.counts["fail"] for target in report.targets) == len(rows)


def test_a_node_on_another_disk_is_an_error_that_names_it(folder: Path) -> None:
    class OtherDisk(ProcessMachines):
        async def find(self) -> list[Node]:
            for path in (folder / "place").glob("*/run.json"):
                path.unlink()
            return await super().find()

    with pytest.raises(ConfigError, match=r"node node-0: cannot store segments: cannot read .*run\.json.* all nodes"):
        on_nodes(folder, OtherDisk(1))
    assert not (folder / "calls.txt").exists()


def test_a_folder_of_this_machine_is_refused_if_nodes_get_a_copy(folder: Path) -> None:
    from agentv.engine.cluster.opening import check_segments  # noqa: PLC0415

    plan = plan_of(folder, segments="place", backend="ray", ray_address="10.0.0.1:6379")
    with pytest.raises(ConfigError, match=r"--segments place is a folder of this machine"):
        check_segments(plan)
    for place in ("/mnt/team/place", "s3://bucket/runs"):
        check_segments(plan_of(folder, segments=place, backend="ray", ray_address="10.0.0.1:6379"))


def break_place(folder: Path) -> None:
    (folder / "place").rename(folder / "elsewhere")
    (folder / "place").write_text("a file")


def mend_place(folder: Path) -> None:
    (folder / "place").unlink()
    (folder / "elsewhere").rename(folder / "place")


def once(work: Callable[[Path], object], folder: Path) -> Callable[[object], None]:
    done: list[object] = []

    def call(event: object) -> None:
        if not done:
            done.append(event)
            work(folder)

    return call


def test_nodes_go_on_when_the_place_can_be_written_again(folder: Path) -> None:
    observers = (
        Calls(AnswerArrived, once(break_place, folder)),
        Calls(RunNote, lambda event: "cannot be stored for now" in event.message and mended(event)),
    )
    mended = once(mend_place, folder)
    report = on_nodes(folder, ProcessMachines(2, node=OneByOne), observers=observers)
    assert any("node-0: its segments cannot be stored for now" in note for note in report.notes)
    assert report.state == "finished"
    check_whole(report)
    listed = (run_of(report).folder / "segments.jsonl").read_text().splitlines()
    assert all('"name":' in line for line in listed if '"file":"results.jsonl"' in line)  # none went to the driver


def test_rows_that_nodes_cannot_store_are_stored_by_the_driver(folder: Path) -> None:
    breaking = Calls(AnswerArrived, once(break_place, folder))
    with pytest.raises(Exception, match=r"Every result is saved in .* agentv\s+resume") as raised:
        on_nodes(folder, ProcessMachines(2), observers=(breaking,))
    (run,) = (folder / ".agentv" / "runs").iterdir()
    assert str(run) in str(raised.value)
    rows = [row.eval_id for row in open_run(run).all_results()]
    assert sorted(rows) == sorted(NAMES)
    mend_place(folder)
    store = RunFolder(run.parent, run.name, clock=at_noon)
    store.close("finished")
    assert not (run / "results.jsonl").exists()
    assert [row.eval_id for row in open_run(run).all_results()] == rows
    assert changed_files(open_run(run), load_checksums(open_run(run))) == {}


def test_a_result_follows_its_answer_to_the_driver(folder: Path) -> None:
    """The answer went to the driver because the place could not be written; meanwhile it can be."""
    sent: list[Line] = []
    row = ResultKey("words.yaml", "case-0", "upper")
    place = folder / "place"

    async def go() -> None:
        place.write_text("a file")
        has_sent = asyncio.Event()

        def send(line: Line) -> None:
            sent.append(line)
            has_sent.set()

        segments = NodeSegments(str(place), send=send, note=lambda _text: None, now=lambda: 0.0)
        seq = segments.answer(encode(make_answer(slot=row)))
        segments.flush()
        await has_sent.wait()
        place.unlink()
        result = make_result(slot=row, answer_ref=AnswerRef(seq))
        segments.result(row, result, encode(result), is_stored_by_driver=False, is_urgent=False)
        async with asyncio.timeout(5):
            await segments.finish()

    asyncio.run(go())
    answer, ended, result = sent
    assert isinstance(answer, StoredLine)
    assert isinstance(ended, EndedRow)
    assert isinstance(result, StoredLine)
    assert [answer.file, result.file] == ["answer", "result"]
    assert RESULTS.of_line(result.line).answer_seq == -1  # the first answer of this row that the driver got
    assert not place.exists()


def test_a_node_whose_disk_fails_ends_the_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spools = folder / "spools"
    spools.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spools))
    breaking = Calls(AnswerArrived, once(lambda _folder: shutil.rmtree(spools), folder))
    report = on_nodes(folder, ProcessMachines(1), observers=(breaking,))
    assert report.state == "failed"
    assert "store_error: node node-0: cannot write to" in str(report.verdict)


def test_a_node_with_too_many_unlisted_rows_gets_no_more(folder: Path) -> None:
    plan = plan_of(folder)
    task = next(plan.tasks(plan.targets[0]))
    node = NodeSession(ProcessNode.__new__(ProcessNode))
    assert node.room(task.target, workers=2) == 2

    async def fill() -> None:
        row = LeasedRow(task, asyncio.get_running_loop().create_future())
        keys = (ResultKey("s", str(number), "upper") for number in range(MAX_UNLISTED - 1))
        node.unlisted.update(dict.fromkeys(keys, row))

    asyncio.run(fill())
    assert node.room(task.target, workers=2) == 1


def test_deleting_a_run_deletes_segments_that_a_lost_node_uploaded(folder: Path) -> None:
    report = on_nodes(folder, ProcessMachines(2, node=losing("results.jsonl uploaded")))
    run = run_of(report)
    listed = (run.folder / "segments.jsonl").read_text()
    uploaded = list((folder / "place" / run.run_id).glob("results-*"))
    assert any(path.name not in listed for path in uploaded)
    remove_run(run.folder)
    assert list((folder / "place").iterdir()) == []


def test_what_a_node_cannot_give_to_segments_keeps_its_order(folder: Path) -> None:
    """Answers of more than 256 KiB go through the driver, between segments of nodes."""
    (folder / "upper.py").write_text(
        TARGET.replace(
            "request.question.upper()", f"'A' * ({BLOB_LIMIT} * 2 if request.eval_case_id[-1] in '147' else 9)"
        )
    )
    (folder / "words.yaml").write_text(
        SUITE + "".join(f"  - {{id: {name}, input: a, expected_outcome: A}}\n" for name in NAMES)
    )
    here = asyncio.run(run_on(folder, None))
    report = on_nodes(folder, ProcessMachines(2, node=OneByOne))
    check_whole(report)
    assert files_of(report) == files_of(here)
    assert sum('"$blob":' in line for line in files_of(report)["answers.jsonl"]) == 4


def test_observers_of_whole_rows_get_whole_rows(folder: Path) -> None:
    rows: list[str] = []
    observer = Calls(RowFinished, lambda event: rows.append(event.result.candidate_answer))
    on_nodes(folder, ProcessMachines(1), observers=(observer,))
    assert sorted(rows) == sorted(f"A {name.upper()}" for name in NAMES)
