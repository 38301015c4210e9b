"""What holds for a run wherever its cases run: here, on one node, on several, and when nodes are lost."""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.support.cluster import QUICK, Calls, ProcessMachines, ProcessNode, plan_of, run_on, stored_rows
from tests.support.fake_server import serving_fake

from agentv.engine.cluster.driver import MAX_LOSSES, Node
from agentv.engine.cluster.lines import MAX_LINES, Lines, NotStored, QuotaLoss, StoredLine, encode_lines
from agentv.engine.cluster.node import Outbox
from agentv.engine.cluster.tasks import TaskReader, decode_tasks, encode_tasks, to_data
from agentv.engine.running.recorder import StopSignal
from agentv.execution.quotas import InProcessQuota
from agentv.storage.records.decode import ANSWERS
from agentv.storage.run.blobs import BLOB_LIMIT
from agentv.types.cases import EvalCase
from agentv.types.errors import ConfigError
from agentv.types.events import AnswerArrived, RowBegun, RowFinished
from agentv.types.protocols import NODE_LEASE_S, QuotaGrant, QuotaRequest
from agentv.types.provider import CallRecord
from agentv.types.records.answer import ResultKey
from agentv.types.results import RunReport

TARGET = """
import asyncio, os, pathlib
async def answer(request):
    with open(pathlib.Path(__file__).with_name("calls.txt"), "a") as calls:
        calls.write(request.eval_case_id + "\\n")
    await asyncio.sleep(0.05)
    if request.eval_case_id == "broken":
        raise ValueError("no answer")
    return request.question.upper()
"""

SUITE = """
description: words
execution:
  target: upper
  evaluators:
    - {name: has, type: contains, value: A}
evalcases:
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "upper.py").write_text(TARGET)
    (tmp_path / ".agentv").mkdir()
    (tmp_path / ".agentv" / "targets.yaml").write_text(
        'targets:\n  - {name: upper, provider: python, workers: 2, callable: "../upper.py:answer"}\n'
    )
    write_cases(tmp_path, [f"case-{number}" for number in range(12)])
    return tmp_path


def write_cases(folder: Path, names: list[str], more: str = "") -> None:
    cases = "".join(f"  - {{id: {name}, input: 'a {name}', expected_outcome: A{more}}}\n" for name in names)
    (folder / "words.yaml").write_text(SUITE + cases)


def calls(folder: Path) -> list[str]:
    return (folder / "calls.txt").read_text().split()


def files_of(folder: Path) -> dict[str, list[str]]:
    """Return the lines of a run's files without times, durations and ids, sorted."""
    changing = re.compile(
        r'"(run_id|seq|timestamp|started_at|ended_at|duration_ms|time|wait_ms)":("[^"]*"|[-0-9.e]+)|"answer_ref":{[^}]*}'
    )
    run = next((folder / ".agentv" / "runs").iterdir())
    names = ("cases.jsonl", "answers.jsonl", "results.jsonl")
    return {name: sorted(changing.sub("", line) for line in (run / name).read_text().splitlines()) for name in names}


@pytest.mark.parametrize("nodes", [1, 3])
def test_nodes_write_the_same_rows_as_a_run_on_this_machine(folder: Path, tmp_path: Path, nodes: int) -> None:
    write_cases(folder, [*(f"case-{number}" for number in range(12)), "broken"])
    here = asyncio.run(run_on(folder, None))
    of_here = files_of(folder)
    run = next((folder / ".agentv" / "runs").iterdir())
    run.rename(tmp_path / "here")
    elsewhere = asyncio.run(run_on(folder, ProcessMachines(nodes)))
    assert files_of(folder) == of_here
    assert elsewhere.verdict == here.verdict


def test_a_long_case_is_stored_by_nodes_as_on_this_machine(folder: Path, tmp_path: Path) -> None:
    case = {"id": "long", "input": "a " + "word " * BLOB_LIMIT, "expected_outcome": "A"}
    (folder / "words.yaml").write_text(SUITE + f"  - {json.dumps(case)}\n")
    asyncio.run(run_on(folder, None))
    of_here = files_of(folder)
    next((folder / ".agentv" / "runs").iterdir()).rename(tmp_path / "here")
    asyncio.run(run_on(folder, ProcessMachines(1)))
    assert files_of(folder) == of_here
    blobs = [
        sorted(path.name for path in place.rglob("blobs/**/*")) for place in (folder / ".agentv", tmp_path / "here")
    ]
    assert blobs[0] == blobs[1] != []


def test_messages_of_long_rows_hold_fewer_of_them() -> None:
    outbox = Outbox()
    lines = [StoredLine("result", ResultKey("s", str(number), "t"), b"x" * 5_000) for number in range(MAX_LINES)]
    for line in lines:
        outbox.put(line)
    messages = []
    while taken := asyncio.run(outbox.take(0)):
        messages.append(taken)
    assert [line for message in messages for line in message] == lines
    assert max(len(encode_lines(Lines(message))) for message in messages) < 100_000  # what Ray sends in one step


def test_cases_with_the_same_evaluators_share_them_on_a_node(folder: Path) -> None:
    write_cases(folder, ["first", "second"], ", evaluators: [{name: own, type: contains, value: A}]")
    plan = plan_of(folder)
    messages = [encode_tasks([to_data(task)]) for task in plan.tasks(plan.targets[0], by_trial=False)]
    reader = TaskReader(plan)
    cases = [reader.task(data).case for message in messages for data in decode_tasks(message)]
    first, second = (case.evaluators for case in cases if isinstance(case, EvalCase))
    assert first
    assert first is second


@pytest.mark.parametrize("file", ["answer", "result"])
def test_a_message_holds_the_answers_or_the_results_of_fifty_rows(file: Literal["answer", "result"]) -> None:
    outbox = Outbox()
    for number in range(2 * MAX_LINES + 1):
        outbox.put(StoredLine(file, ResultKey("s", str(number), "t"), b"x"))
    sizes = [len(asyncio.run(outbox.take(0))) for _ in range(4)]
    assert sizes == [MAX_LINES, MAX_LINES, 1, 0]


def test_the_rows_are_spread_over_the_nodes(folder: Path) -> None:
    machines = ProcessMachines(3)
    report = asyncio.run(run_on(folder, machines))
    assert all(2 <= node.given <= 6 for node in machines.nodes)
    assert len(stored_rows(report)) == 12


def test_each_result_names_the_line_of_its_own_answer(folder: Path) -> None:
    report = asyncio.run(run_on(folder, ProcessMachines(3)))
    assert report.folder is not None
    answers = [json.loads(line) for line in Path(report.folder, "answers.jsonl").read_text().splitlines()]
    for row in stored_rows(report):
        assert row.answer_seq is not None
        assert answers[row.answer_seq]["slot"]["eval_id"] == row.eval_id


def test_the_rows_of_a_lost_node_run_on_another(folder: Path) -> None:
    machines = ProcessMachines(2)
    lost = Calls(RowFinished, lambda _event: machines.nodes[0].lose())
    report = asyncio.run(run_on(folder, machines, observers=(lost,)))
    assert sorted(row.eval_id for row in stored_rows(report)) == sorted(f"case-{number}" for number in range(12))
    assert report.verdict.exit_code == 0
    assert len(calls(folder)) <= 12 + 2  # the two that were in flight
    assert any("node-0 was lost" in note for note in report.notes)


def test_an_answer_that_arrived_before_its_node_was_lost_is_not_paid_for_again(folder: Path) -> None:
    (folder / "judge.py").write_text('print(\'{"score": 1.0, "hits": [], "misses": []}\')')
    write_cases(folder, ["case-0"])
    path = folder / "words.yaml"
    path.write_text(
        path.read_text().replace("type: contains, value: A", "type: code_judge, script: [python3, judge.py]")
    )
    machines = ProcessMachines(2)
    lost = Calls(AnswerArrived, lambda _event: next(node for node in machines.nodes if node.given).lose())
    report = asyncio.run(run_on(folder, machines, observers=(lost,)))
    assert calls(folder) == ["case-0"]
    assert [(row.score, row.error and row.error.message, row.misses) for row in stored_rows(report)] == [
        (1.0, None, ())
    ]


def test_a_row_that_ends_every_node_is_an_error(folder: Path) -> None:
    write_cases(folder, ["case-0"])
    machines = ProcessMachines(MAX_LOSSES + 1)
    begun = Calls(RowBegun, lambda _event: None)

    async def run() -> list[str | None]:
        running = asyncio.create_task(run_on(folder, machines, observers=(begun,)))
        while not running.done():
            for node in machines.nodes:
                if node.given:
                    node.lose()
            await asyncio.sleep(0.005)
        report = await running
        return [row.error.message if row.error else None for row in stored_rows(report)]

    (message,) = asyncio.run(run())
    assert message is not None
    assert f"{MAX_LOSSES} nodes were lost while they ran this case" in message


def test_a_run_without_a_node_fails_and_says_so(folder: Path) -> None:
    machines = ProcessMachines(1)
    lost = Calls(RowFinished, lambda _event: machines.nodes[0].lose())
    report = asyncio.run(run_on(folder, machines, observers=(lost,)))
    assert report.state == "failed"
    assert "no new one joined" in str(report.verdict)
    assert report.verdict.exit_code == 3
    rows = stored_rows(report)
    assert len({row.eval_id for row in rows}) == len(rows) < 12


def test_a_node_that_joins_later_takes_rows(folder: Path) -> None:
    machines = ProcessMachines(1)

    def replace_it(_event: RowFinished) -> None:
        if len(machines.nodes) == 1:
            machines.nodes[0].lose()
            machines.add()

    report = asyncio.run(run_on(folder, machines, observers=(Calls(RowFinished, replace_it),)))
    assert len(stored_rows(report)) == 12
    assert machines.nodes[1].given > 0


def test_a_node_that_never_begins_does_not_keep_others_from_joining(folder: Path) -> None:
    class Silent(ProcessNode):
        async def begin(self) -> str | None:
            if self.name == "node-1":
                machines.add()
                await asyncio.Event().wait()
            return await super().begin()

    machines = ProcessMachines(1, node=Silent)

    def replace_it(_event: RowFinished) -> None:
        if not machines.nodes[0].is_lost:
            machines.nodes[0].lose()
            machines.add()

    report = asyncio.run(run_on(folder, machines, observers=(Calls(RowFinished, replace_it),)))
    assert len(stored_rows(report)) == 12
    assert machines.nodes[2].given > 0


class InFlight:
    """Records how many rows are in flight at each event."""

    event_types = (RowBegun, RowFinished)

    def __init__(self, on_row: Callable[[int], object]) -> None:
        self.now, self.finished = 0, 0
        self.counts: list[int] = []
        self._on_row = on_row

    def notify(self, event: Any) -> None:
        self.now += 1 if isinstance(event, RowBegun) else -1
        self.counts.append(self.now)
        if isinstance(event, RowFinished):
            self.finished += 1
            self._on_row(self.finished)

    def close(self) -> None:
        return


def test_rows_in_flight_follow_the_number_of_nodes(folder: Path) -> None:
    write_cases(folder, [f"case-{number}" for number in range(40)])
    machines = ProcessMachines(1)

    def change(finished: int) -> None:
        if finished == 4:
            machines.add()
            machines.add()
        if finished == 16:
            machines.nodes[1].lose()
            machines.nodes[2].lose()

    rows = InFlight(change)
    report = asyncio.run(run_on(folder, machines, observers=(rows,)))
    assert len(stored_rows(report)) == 40
    most = 2 * 2  # its two workers, and as many rows ahead
    assert max(rows.counts[:8]) <= most
    assert 3 * 2 <= max(rows.counts) <= 3 * most
    assert max(rows.counts[-10:]) <= most


AT_ONCE = """
import asyncio, pathlib
now = most = 0
async def answer(request):
    global now, most
    now += 1
    most = max(most, now)
    pathlib.Path(__file__).with_name("most.txt").write_text(str(most))
    await asyncio.sleep(0.01)
    now -= 1
    return request.question.upper()
"""


def test_rows_that_are_sent_ahead_wait_for_a_worker_of_the_node(folder: Path) -> None:
    (folder / "upper.py").write_text(AT_ONCE)
    write_cases(folder, [f"case-{number}" for number in range(80)])
    rows = InFlight(lambda _finished: None)
    report = asyncio.run(run_on(folder, ProcessMachines(1), observers=(rows,)))
    assert len(stored_rows(report)) == 80
    assert max(rows.counts) > 2
    assert (folder / "most.txt").read_text() == "2"


def test_a_node_that_the_driver_does_not_call_stops_its_calls(folder: Path) -> None:
    """As when only the process that connects a machine to its cluster was killed."""
    machines = ProcessMachines(2)

    async def run() -> float:
        loop = asyncio.get_running_loop()
        begun = asyncio.Event()
        beginning = Calls(RowBegun, lambda _event: begun.set())
        running = asyncio.create_task(run_on(folder, machines, observers=(beginning,)))
        await begun.wait()
        machines.nodes[0].lose()
        began = loop.time()
        await machines.nodes[0].has_stopped_itself.wait()
        took = loop.time() - began
        await running
        return took

    assert asyncio.run(run()) <= 2 * QUICK.lease_s


def test_a_node_with_other_files_takes_no_rows(folder: Path) -> None:
    plan_of(folder)

    class OtherFiles(ProcessMachines):
        async def find(self) -> list[Node]:
            write_cases(folder, ["another"])
            return await super().find()

    with pytest.raises(ConfigError, match=r"node-0: eval file words.yaml differs on the node"):
        asyncio.run(run_on(folder, OtherFiles(1)))


def test_an_interrupted_run_has_no_rows_of_what_was_in_flight(folder: Path) -> None:
    stop = StopSignal()
    interrupting = Calls(RowFinished, lambda _event: stop.interrupt("interrupted"))
    report = asyncio.run(run_on(folder, ProcessMachines(2), stop=stop, observers=(interrupting,)))
    assert report.state == "interrupted"
    assert all(row.score == 1.0 for row in stored_rows(report))


def test_a_case_waits_for_its_dependency_on_another_node(folder: Path) -> None:
    (folder / "words.yaml").write_text(
        SUITE
        + "  - {id: broken, input: a, expected_outcome: A}\n"
        + "  - {id: after, input: a, expected_outcome: A, execution: {depends_on: [broken]}}\n"
    )
    report = asyncio.run(run_on(folder, ProcessMachines(2)))
    assert calls(folder) == ["broken"]
    errors = {row.eval_id: row.error.kind for row in stored_rows(report) if row.error}
    assert errors["after"] == "dependency"


def with_target_keys(folder: Path, keys: str) -> None:
    path = folder / ".agentv" / "targets.yaml"
    path.write_text(path.read_text().replace("workers: 2,", f"workers: 2, {keys},"))


def test_a_target_runs_only_on_nodes_that_have_what_it_requires(folder: Path) -> None:
    with_target_keys(folder, "resources: {gpu: 1}, node_label: {pool: large}")
    machines = ProcessMachines(
        3, about=[({}, {"pool": "large"}), ({"GPU": 1.0}, {"pool": "large"}), ({"GPU": 4.0}, {})]
    )
    report = asyncio.run(run_on(folder, machines))
    assert len(stored_rows(report)) == 12
    assert [node.given for node in machines.nodes] == [0, 12, 0]


def test_a_target_that_no_node_can_run_is_an_error_before_the_first_call(folder: Path) -> None:
    with_target_keys(folder, "resources: {gpu: 1}")
    with pytest.raises(ConfigError, match=r"target 'upper': no node of the cluster has gpu: 1"):
        asyncio.run(run_on(folder, ProcessMachines(2)))
    assert not (folder / "calls.txt").exists()


def with_fake_model(folder: Path, url: str, keys: str) -> None:
    (folder / ".agentv" / "targets.yaml").write_text(
        "targets:\n  - {name: upper, provider: openai, model: m, api_key: k, workers: 4, "
        f"base_url: {url}/v1, {keys}}}\n"
    )


def test_nodes_share_one_budget(folder: Path) -> None:
    write_cases(folder, [f"case-{number}" for number in range(100)])
    with serving_fake() as server:
        with_fake_model(folder, server.url, "price: {input_per_million: 1000, output_per_million: 1000}")
        report = asyncio.run(run_on(folder, ProcessMachines(3), budget_usd=0.5))
    spent = sum(row.cost_usd or 0.0 for row in stored_rows(report))
    assert report.state == "stopped"
    assert 0.2 < spent <= 0.5 + 1e-9  # a lease that a late node loses counts as spent
    assert report.needs == "--budget-usd X"


def test_nodes_share_one_rate_limit(folder: Path) -> None:
    write_cases(folder, [f"case-{number}" for number in range(60)])
    with serving_fake() as server:
        with_fake_model(folder, server.url, "requests_per_minute: 600")
        report = asyncio.run(run_on(folder, ProcessMachines(3)))
    started = sorted(call.started_at for call in calls_of(report))
    assert len(started) == 60
    soon = sum((each - started[0]).total_seconds() < 1 for each in started)
    assert soon <= 20 + 10 + 1  # two seconds' worth at once, then ten a second


class StartsHolders(InProcessQuota):
    """Records the accounts whose holders are started, and those that are used."""

    def __init__(self) -> None:
        super().__init__(time.monotonic, lease_s=NODE_LEASE_S)
        self.started: set[str] = set()
        self.used: set[str] = set()

    def start(self, account: str) -> None:
        assert not self.used
        self.started.add(account)

    async def exchange(self, request: QuotaRequest) -> QuotaGrant:
        self.used.add(request.account)
        return await super().exchange(request)


def test_the_holders_that_nodes_will_need_are_started_before_the_first_call(folder: Path) -> None:
    quota = StartsHolders()
    with serving_fake() as server:
        keys = "requests_per_minute: 6000, price: {input_per_million: 1, output_per_million: 1}"
        with_fake_model(folder, server.url, keys)
        asyncio.run(run_on(folder, ProcessMachines(2), quota=quota, budget_usd=1.0))
    assert len(quota.started) == 2
    assert quota.started == quota.used


def calls_of(report: RunReport) -> list[CallRecord]:
    assert report.folder is not None
    lines = Path(report.folder, "answers.jsonl").read_bytes().splitlines()
    return [call for line in lines for call in ANSWERS.of_line(line).calls]


def test_targets_of_one_name_in_two_folders_are_told_apart(folder: Path) -> None:
    (folder / ".git").mkdir()
    for name in ("one", "two"):
        suite = folder / name
        (suite / ".agentv").mkdir(parents=True)
        (suite / ".agentv" / "targets.yaml").write_text(
            f"targets:\n  - {{name: upper, provider: mock, response: A from {name}}}\n"
        )
        (suite / "words.yaml").write_text((folder / "words.yaml").read_text())
    (folder / "words.yaml").unlink()
    report = asyncio.run(run_on(folder, ProcessMachines(2)))
    assert {(row.suite, row.candidate_answer) for row in stored_rows(report)} == {
        ("one/words.yaml", "A from one"),
        ("two/words.yaml", "A from two"),
    }


def test_a_node_that_begins_slowly_loses_no_other(folder: Path) -> None:
    class Slow(ProcessNode):
        async def begin(self) -> str | None:
            problem = await super().begin()
            await asyncio.sleep(3 * QUICK.lease_s if self.name == "node-1" else 0)
            return problem

    machines = ProcessMachines(2, node=Slow)
    report = asyncio.run(run_on(folder, machines))
    assert len(stored_rows(report)) == 12
    assert not any("lost" in note for note in report.notes)


def test_a_problem_of_files_on_a_node_names_the_node(folder: Path) -> None:
    class BrokenFiles(ProcessMachines):
        async def find(self) -> list[Node]:
            (folder / "words.yaml").write_text("evalcases: [")
            return await super().find()

    with pytest.raises(ConfigError, match=r"node node-0: .*words.yaml:2:1"):
        asyncio.run(run_on(folder, BrokenFiles(1)))


def test_a_row_in_a_workspace_is_called_again_if_its_node_is_lost(folder: Path) -> None:
    (folder / "template").mkdir()
    write_cases(folder, ["case-0"], more=", execution: {workspace: {template: template}}")
    machines = ProcessMachines(2)
    lost = Calls(AnswerArrived, lambda _event: next(node for node in machines.nodes if node.given).lose())
    path = folder / "words.yaml"
    path.write_text(
        path.read_text().replace("type: contains, value: A", "type: code_judge, script: [python3, judge.py]")
    )
    (folder / "judge.py").write_text(
        'import time; time.sleep(0.5); print(\'{"score": 1.0, "hits": [], "misses": []}\')'
    )
    report = asyncio.run(run_on(folder, machines, observers=(lost,)))
    assert len(calls(folder)) >= 2, report.notes
    assert len(stored_rows(report)) == 1


def test_a_binary_attachment_is_stored_with_its_case(folder: Path) -> None:
    (folder / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\xff")
    (folder / "words.yaml").write_text(
        SUITE
        + "  - id: case-0\n    expected_outcome: A\n    input_messages:\n"
        + "      - {role: user, content: [{type: text, value: a}, {type: file, value: image.png}]}\n"
    )
    report = asyncio.run(run_on(folder, ProcessMachines(1)))
    assert report.folder is not None
    assert len(Path(report.folder, "cases.jsonl").read_text().splitlines()) == 1
    assert any(b"PNG" in path.read_bytes() for path in Path(report.folder, "blobs").rglob("*") if path.is_file())


def test_what_was_said_before_an_interrupt_is_stored(folder: Path) -> None:
    """The last call of the driver for lines is still in progress when it stops its nodes."""
    stop = StopSignal()
    arrived = Calls(RowFinished, lambda _event: stop.interrupt("interrupted"))
    report = asyncio.run(run_on(folder, ProcessMachines(2), stop=stop, observers=(arrived,)))
    assert report.folder is not None
    answers = Path(report.folder, "answers.jsonl").read_text().splitlines()
    assert len(answers) >= len(set(calls(folder))) - 4  # at most those in flight have no answer
    assert len(stored_rows(report)) <= len(answers)


def test_a_row_that_waits_when_the_run_is_stopped_does_not_begin(folder: Path) -> None:
    """Two targets need the one device of the node; after the first result that does not pass, no other case begins."""
    (folder / "upper.py").write_text(TARGET.replace("request.question.upper()", "'nothing'"))
    (folder / ".agentv" / "targets.yaml").write_text(
        "targets:\n"
        '  - {name: upper, provider: python, callable: "../upper.py:answer", resources: {device: 1}}\n'
        '  - {name: other, provider: python, callable: "../upper.py:answer", resources: {device: 1}}\n'
    )
    machines = ProcessMachines(1, about=[({"device": 1.0}, {})])
    report = asyncio.run(run_on(folder, machines, targets=("upper", "other"), fail_fast=1))
    assert len(calls(folder)) == 1
    assert [row.status for row in stored_rows(report)] == ["fail"]


def test_a_row_whose_dependency_was_left_is_left_as_well(folder: Path) -> None:
    (folder / "upper.py").write_text(TARGET.replace("request.question.upper()", "'nothing'"))
    (folder / "words.yaml").write_text(
        SUITE
        + "  - {id: one, input: a, expected_outcome: A}\n"
        + "  - {id: two, input: a, expected_outcome: A}\n"
        + "  - {id: after, input: a, expected_outcome: A, execution: {depends_on: [two]}}\n"
    )
    with_target_keys(folder, "resources: {device: 1}")
    machines = ProcessMachines(3, about=[({"device": 1.0}, {})] * 3)

    def lose_two(_event: RowBegun) -> None:
        if len(machines.nodes) == 3:
            machines.nodes[1].lose()
            machines.nodes[2].lose()

    begun = Calls(RowBegun, lose_two)
    report = asyncio.run(run_on(folder, machines, fail_fast=1, observers=(begun,)))
    assert [(row.eval_id, row.status) for row in stored_rows(report)] == [("one", "fail")]


def test_a_node_that_cannot_write_ends_the_run(folder: Path) -> None:
    class FullDisk(ProcessNode):
        async def take(self, wait_s: float) -> bytes:
            await super().take(wait_s)
            return encode_lines(Lines([NotStored("no space left on its disk")]))

    report = asyncio.run(run_on(folder, ProcessMachines(1, node=FullDisk)))
    assert report.state == "failed"
    assert "store_error: node node-0: no space left on its disk" in str(report.verdict)


def test_a_node_whose_quota_is_lost_ends_the_run_to_be_resumed(folder: Path) -> None:
    class Lost(ProcessNode):
        async def _take(self, wait_s: float) -> bytes:
            lines = (await self.work.take(wait_s)).lines
            return encode_lines(Lines([*lines, QuotaLoss("the quota has not answered for 60 s")]))

    report = asyncio.run(run_on(folder, ProcessMachines(1, node=Lost)))
    assert (report.state, report.verdict.exit_code) == ("failed", 3)
    assert "quota_error: the quota has not answered for 60 s" in str(report.verdict)
    assert len(stored_rows(report)) < 12


BATCHES = """
import json, pathlib, sys
with open(pathlib.Path(__file__).with_name("batches.txt"), "a") as batches:
    print("batch", file=batches)
for line in open(sys.argv[1]):
    case = json.loads(line)
    print(json.dumps({"id": case["id"], "text": "ANSWER"}))
"""


def with_batches(folder: Path, keys: str = "") -> None:
    (folder / "batches.py").write_text(BATCHES)
    (folder / ".agentv" / "targets.yaml").write_text(
        "targets:\n  - {name: upper, provider: cli, provider_batching: true, "
        f"command_template: 'python3 batches.py {{CASES_FILE}}'{keys}}}\n"
    )


def test_the_answers_of_a_batch_are_scored_by_nodes(folder: Path) -> None:
    with_batches(folder)
    machines = ProcessMachines(2)
    report = asyncio.run(run_on(folder, machines))
    assert report.verdict.exit_code == 0, report.notes
    assert (folder / "batches.txt").read_text() == "batch\n"
    assert sum(node.given for node in machines.nodes) == 12
    assert all(row.answer_seq is not None for row in stored_rows(report))


def test_a_target_with_batches_is_checked_where_they_are_called_from(folder: Path) -> None:
    """The check succeeds once, on the node, and not on the machine of the driver."""
    with_batches(folder, ", healthcheck: {command_template: 'mkdir checked'}")
    report = asyncio.run(run_on(folder, ProcessMachines(1)))
    assert report.state == "failed"
    assert not (folder / "batches.txt").exists()


def test_two_eval_files_of_one_name_are_told_apart(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "words.yaml").write_text((folder / "words.yaml").read_text())
    (folder / "words.yaml").unlink()
    report = asyncio.run(run_on(folder, ProcessMachines(2)))
    assert report.verdict.exit_code == 0, report.notes
    assert Counter(row.suite for row in stored_rows(report)) == {"one/words.yaml": 12, "two/words.yaml": 12}
