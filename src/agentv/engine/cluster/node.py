"""One node of a run on several machines: it runs the rows that the driver sends and returns their lines."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.calling.budget import Budget
from agentv.engine.calling.fingerprints import Fingerprints
from agentv.engine.calling.runtime import Runtime, failed_check
from agentv.engine.cluster.lines import (
    GATHER_S,
    MAX_BYTES,
    MAX_LINES,
    AnsweredLine,
    BudgetLine,
    Crash,
    EndedRow,
    Line,
    Lines,
    LogText,
    NodeDone,
    NoteText,
    NotStored,
    QuotaLine,
    QuotaLoss,
    RetryLine,
    SegmentLine,
    StoredLine,
)
from agentv.engine.cluster.node_segments import NodeSegments, SpoolRules, check_segment_storage, slim_answer
from agentv.engine.cluster.packing import placed_workspaces, unpack
from agentv.engine.cluster.tasks import RunSpec, TaskData, TaskReader, load_plan, moved_path
from agentv.engine.cluster.workspaces import PlacedWorkspaces
from agentv.engine.planning.plan import CaseTask, RunPlan
from agentv.engine.running.answer_cache import make_run_cache
from agentv.engine.running.case import CaseRunner
from agentv.engine.running.clock import make_clock
from agentv.engine.running.recorder import judge_outcomes
from agentv.evaluators.watched_files import WatchedFiles
from agentv.execution.processes.left_behind import remove_temporary
from agentv.execution.quotas import QuotaClient
from agentv.execution.user_code import described
from agentv.scoring.keys.identity import files_of
from agentv.scoring.results.aggregation import row_state
from agentv.storage.records.encode import encodable_answer, encodable_case, encodable_result
from agentv.storage.records.json_line import encode
from agentv.storage.run.blobs import may_have_blobs
from agentv.types.errors import StorageError
from agentv.types.events import LogLine
from agentv.types.protocols import NODE_LEASE_S, Amounts, Clock, QuotaGrant, QuotaRequest, QuotaService
from agentv.types.provider import CallRecord
from agentv.types.records.answer import Answer, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord


class Load(Struct):
    """The number of answers and results among some lines, and the size of the encoded lines in bytes."""

    answers: int = 0
    results: int = 0
    size: int = 0

    def add(self, line: Line, *, sign: int = 1) -> None:
        """Count a line; with `sign` -1 remove it from the counts."""
        if isinstance(line, EndedRow):
            self.results += sign
        elif isinstance(line, StoredLine):
            self.answers += sign * (line.file == "answer")
            self.results += sign * (line.file == "result")
            self.size += sign * len(line.line)

    @property
    def is_full(self) -> bool:
        """True if the lines reach a limit of one message: of answers, of results, or of bytes."""
        return max(self.answers, self.results) >= MAX_LINES or self.size >= MAX_BYTES


class Outbox:
    """The lines that the driver has not taken yet."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque()
        self._load = Load()
        self._has_lines = asyncio.Event()
        self._is_due = asyncio.Event()
        self._is_closed = False

    def put(self, line: Line) -> None:
        """Add a line."""
        self._lines.append(line)
        self._load.add(line)
        self._has_lines.set()
        # A QuotaLine or SegmentLine is not delayed, because the node waits for the driver's answer to it.
        if self._load.is_full or isinstance(line, QuotaLine | SegmentLine):
            self._is_due.set()

    def close(self) -> None:
        """Let `take` return without waiting from now on."""
        self._is_closed = True
        self._has_lines.set()
        self._is_due.set()

    async def take(self, wait_s: float) -> list[Line]:
        """Return the next lines, as many as fit in one message; after `wait_s` seconds without any, an empty list.

        After the first line, wait up to GATHER_S seconds for more, unless the lines are due now.
        """
        if self._is_closed:
            wait_s = 0
        if not self._lines and wait_s:
            await _wait_at_most(self._has_lines, wait_s)
        if self._lines and wait_s and not self._is_due.is_set():
            await _wait_at_most(self._is_due, GATHER_S)
        taken: list[Line] = []
        message = Load()
        while self._lines and not message.is_full:
            line = self._lines.popleft()
            taken.append(line)
            message.add(line)
            self._load.add(line, sign=-1)
        if not self._lines:
            self._has_lines.clear()
        if not self._load.is_full:
            self._is_due.clear()
        return taken


async def _wait_at_most(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


class DriverQuota:
    """The driver's quota, seen from a node: requests are sent as lines, and `grant` receives the driver's answers."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._grants: dict[int, asyncio.Future[QuotaGrant]] = {}
        self._last_number = 0
        self._is_closed = False

    def __str__(self) -> str:
        """Return the name for messages."""
        return "the driver of the run"

    async def exchange(self, request: QuotaRequest) -> QuotaGrant:
        """Report the use of leases, and return a new lease, which is empty after `close`."""
        self._last_number += 1
        number = self._last_number
        self._outbox.put(QuotaLine(number, request))
        if self._is_closed:
            return QuotaGrant(Amounts())
        grant: asyncio.Future[QuotaGrant] = asyncio.get_running_loop().create_future()
        self._grants[number] = grant
        try:
            return await grant
        finally:
            del self._grants[number]

    def grant(self, number: int, grant: QuotaGrant) -> None:
        """Pass a grant to the request with this number, unless the request was cancelled."""
        waiting = self._grants.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(grant)

    def close(self) -> None:
        """Answer all requests with an empty grant, because the driver sends no more grants."""
        self._is_closed = True
        for number in list(self._grants):
            self.grant(number, QuotaGrant(Amounts()))

    async def aclose(self) -> None:
        """Do nothing: there is no connection to close."""


class NodeWork:
    """The rows of a run on one node, with a `Runtime` of its own. The driver calls `take` again and again.

    If the driver calls neither `give` nor `take` for `lease_s` seconds, all rows are cancelled. `on_lost` is called
    when they have ended, at most `lease_s` seconds later. `machine` names the machine in messages, and in the paths of
    workspaces that stay on it. `quota_of` gets the driver's quota and returns the quota to lease from. `spool_rules`
    are for a run whose nodes store their rows.
    """

    def __init__(
        self,
        spec: RunSpec,
        *,
        machine: str,
        on_lost: Callable[[], object] = lambda: None,
        quota_of: Callable[["DriverQuota"], QuotaService] = lambda driver: driver,
        lease_s: float = NODE_LEASE_S,
        spool_rules: SpoolRules = SpoolRules(),  # noqa: B008 - frozen
    ) -> None:
        self._spec = spec
        self._machine = machine
        self._project_copy: Path | None = None
        self._on_lost = on_lost
        self._lease_s = lease_s
        self._spool_rules = spool_rules
        self._segments: NodeSegments | None = None
        self._outbox = Outbox()
        self._quota = DriverQuota(self._outbox)
        self._quota_of = quota_of
        self._rows: dict[ResultKey, asyncio.Task[None]] = {}
        self._semaphores: dict[int, asyncio.Semaphore] = {}  # by the id of the target
        self._sent_answers: dict[ResultKey, int] = {}  # the `seq` of the row's last answer sent to the driver
        self._renewed_at = monotonic()
        self._runtime: Runtime | None = None
        self._watch: asyncio.Task[None] | None = None

    async def begin(self, env: Mapping[str, str]) -> str | None:
        """Read the run's files and check targets and judges; return the message of a failed check, or None.

        Raises ConfigError if the files cannot be read or differ from the driver's, or if this node must store segments
        and cannot. Raises PluginError for a provider that cannot be created.
        """
        spec, clock = self._spec, make_clock()
        if spec.segments is not None:
            await asyncio.to_thread(check_segment_storage, spec.segments)
            self._segments = self._open_segments(spec.segments)
        moved: tuple[str, str] | None = None
        placed: PlacedWorkspaces | None = None
        if spec.packed is not None:
            self._project_copy = await asyncio.to_thread(unpack, spec.packed)
            moved = (spec.packed.root, str(self._project_copy))
            placed = placed_workspaces(spec.packed, self._project_copy)
            spec = replace(spec, folder=moved_path(spec.folder, *moved))
        self._plan = plan = load_plan(spec, env=env, placed=placed)
        self._reader = TaskReader(plan, moved=moved)
        runtime = self._runtime = self._make_runtime(plan, clock=clock)
        self._runner = CaseRunner(
            run_id=spec.run_id,
            runtime=runtime,
            sink=self,
            fingerprints=Fingerprints(runtime),
            on_retry=self._on_retry,
            on_log_line=self._on_log_line if spec.shows_log_lines else None,
            place_workspace=None if placed is None else placed.place,
        )
        targets = (*(plan.targets if spec.calls_targets else ()), *(plan.judges if spec.calls_judges else ()))
        return await failed_check(targets, plan, runtime)

    def _open_segments(self, url: str) -> NodeSegments:
        return NodeSegments(
            url,
            send=self._outbox.put,
            note=lambda text: self._outbox.put(NoteText(f"node {self._machine}: {text}")),
            now=monotonic,
            sends_whole_rows=self._spec.needs_whole_rows,
            rules=self._spool_rules,
        )

    def _make_runtime(self, plan: RunPlan, *, clock: Clock) -> Runtime:
        client = QuotaClient(
            self._quota_of(self._quota),
            asyncio.get_running_loop().time,
            on_unanswered=lambda text: self._outbox.put(NoteText(text)),
            on_loss=lambda reason: self._outbox.put(QuotaLoss(reason)),
        )
        shared = self._spec.budget
        budget = None
        if shared is not None:
            budget = Budget(
                shared.limit_usd,
                lambda stop: self._outbox.put(BudgetLine(stop)),
                max_call_cost_by_target=shared.max_call_cost_by_target,
                name=shared.name,
                client=client,
            )
        return Runtime(
            specs=plan.specs,
            clock=clock,
            rng=random.SystemRandom(),
            home=plan.home,
            machine=self._machine,
            run_id=self._spec.run_id,
            prices=plan.prices,
            note=lambda text: self._outbox.put(NoteText(text)),
            workers=plan.workers,
            cache=make_run_cache(plan, run_id=self._spec.run_id, clock=clock),
            quota=client,
            uncalled_targets=() if self._spec.calls_targets else plan.non_judge_targets,
            budget=budget,
            watched_files=WatchedFiles(plan.evaluator_files),
        )

    def give(self, tasks: Sequence[TaskData]) -> None:
        """Begin rows. At most `workers` rows of a target run at once; further rows wait."""
        self._renew()
        for data in tasks:
            task = self._reader.task(data)
            key = task.slot
            semaphore = self._semaphores.get(id(task.target))
            if semaphore is None:
                semaphore = asyncio.Semaphore(self._plan.workers(task.target))
                self._semaphores[id(task.target)] = semaphore
            self._rows[key] = asyncio.create_task(self._run(task, key, semaphore))

    def grant(self, number: int, grant: QuotaGrant) -> None:
        """Pass on the driver's answer to a request for a lease of the quota."""
        self._quota.grant(number, grant)

    async def take(self, wait_s: float) -> Lines:
        """Return the next lines, as many as fit in one message; wait up to `wait_s` seconds for the first."""
        self._renew()
        lines = await self._outbox.take(wait_s)
        self._renew()
        return Lines(lines)

    def _renew(self) -> None:
        """Renew the lease of the rows; the first time, start to watch the lease."""
        self._renewed_at = monotonic()
        if self._watch is None:
            self._watch = asyncio.create_task(self._watch_lease())

    def flush(self) -> None:
        """Store the finished rows now, because the driver waits for them."""
        if self._segments is not None:
            self._segments.flush()

    def listed(self, name: str, first: int | None) -> None:
        """Accept the number of a segment's first line in the run's file, None if the segment could not be listed."""
        if self._segments is not None:
            self._segments.listed(name, first)

    async def stop(self) -> Lines:
        """Cancel the rows in flight, close everything, and return the remaining lines.

        If the node stores its rows, the driver must call `take` meanwhile, until it gets a NodeDone.
        """
        if self._watch is not None:
            self._watch.cancel()
        await self._cancel_rows()
        if self._segments is not None:
            await self._segments.finish()
            self._outbox.put(NodeDone())
        self._outbox.close()
        if self._runtime is not None:
            self._quota.close()
            await self._runtime.__aexit__(None, None, None)
            self._runtime = None
        if self._project_copy is not None:
            await asyncio.to_thread(remove_temporary, self._project_copy)
            self._project_copy = None
        lines: list[Line] = []
        while taken := await self._outbox.take(0):
            lines += taken
        return Lines(lines)

    async def _cancel_rows(self) -> None:
        rows = list(self._rows.values())
        for row in rows:
            row.cancel()
        await asyncio.gather(*rows, return_exceptions=True)

    async def _watch_lease(self) -> None:
        """Cancel all rows when the lease has expired, then call `on_lost`."""
        loop = asyncio.get_running_loop()
        lost = asyncio.Event()

        def check(scheduled_at: float) -> None:
            now = monotonic()
            # A check this late means that a row blocked the event loop, which delayed the driver's calls as well.
            if now - scheduled_at > self._lease_s / 2:
                self._renewed_at = now
            left_s = self._renewed_at + self._lease_s - now
            if left_s > 0:
                loop.call_later(left_s, check, now + left_s)
            else:
                lost.set()

        check(monotonic())
        await lost.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._lease_s):
                await self._cancel_rows()
                if self._segments is not None:
                    await self._segments.aclose()
        self._on_lost()

    async def _run(self, task: CaseTask, key: ResultKey, semaphore: asyncio.Semaphore) -> None:
        try:
            async with semaphore:
                result = await self._runner.run(task)
            self._store(key, result)
        except StorageError as error:
            self._outbox.put(NotStored(str(error)))
        except Exception as error:  # noqa: BLE001 - a bug must reach the driver, which waits for the row
            self._outbox.put(Crash(key, described(error)))
        finally:
            self._rows.pop(key, None)
            self._sent_answers.pop(key, None)

    def _store(self, key: ResultKey, result: CaseResult) -> None:
        """Send a result to the driver, or store it here if this node stores its rows.

        A result is always sent if the budget refused its call, or if its answer was sent.
        """
        is_refused = result.error is not None and result.error.kind == "budget"
        if self._segments is None or is_refused or key in self._sent_answers:
            if is_refused:
                result = replace(result, answer_ref=None)
            line = encode(encodable_result(result, with_trace=result.answer_ref is None))
            self._outbox.put(StoredLine("result", key, line))
            return
        result = replace(result, run_id=self._spec.run_id)
        line = encode(encodable_result(result, with_trace=result.answer_ref is None))
        self._segments.result(
            key, result, line, is_stored_by_driver=may_have_blobs(line), is_urgent=self._may_stop_the_run(result)
        )

    def _may_stop_the_run(self, result: CaseResult) -> bool:
        if self._spec.options.fail_fast is not None and row_state(result) not in ("pass", "skipped"):
            return True
        return any(failure is not None for _, failure in judge_outcomes(result.evaluator_results))

    def case(self, record: CaseRecord) -> None:
        """Send a case before its first call; the driver itself stores cases with binary attachments."""
        if not any(part.text is None for part in files_of((*record.input_messages, *record.expected_messages))):
            key = ResultKey(record.suite, record.eval_id, "")
            self._outbox.put(StoredLine("case", key, encode(encodable_case(record))))

    def answer(self, answer: Answer) -> Answer:
        """Store or send an answer before it is judged, and return it with a provisional `seq`.

        The numbers are -1, -2, and so on: sent answers are counted per row, stored ones over all rows of this node.
        An answer whose call the budget refused is returned unchanged.
        """
        if answer.error is not None and answer.error.kind == "budget":
            return answer
        if self._segments is not None and answer.slot not in self._sent_answers:
            line = encode(encodable_answer(replace(answer, run_id=self._spec.run_id)))
            if not may_have_blobs(line):
                if self._spec.shows_answers:
                    self._outbox.put(AnsweredLine(slim_answer(answer)))
                return replace(answer, seq=self._segments.answer(line))
        self._outbox.put(StoredLine("answer", answer.slot, encode(encodable_answer(answer))))
        number = self._sent_answers[answer.slot] = self._sent_answers.get(answer.slot, 0) - 1
        return replace(answer, seq=number)

    def _on_retry(self, task: CaseTask, call: CallRecord, wait_s: float) -> None:
        self._outbox.put(RetryLine(task.slot, call.kind, call.error, wait_s))

    def _on_log_line(self, line: LogLine) -> None:
        self._outbox.put(LogText(line.slot, line.target, line.text))
