"""The driver of a run on several machines: it leases rows to nodes and stores what they send back.

A node runs a leased row as long as the driver keeps calling the node; the rows of a lost node are leased to others.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.calling.budget import BudgetStop
from agentv.engine.cluster.lines import (
    AnsweredLine,
    BudgetLine,
    Crash,
    EndedRow,
    Line,
    LogText,
    NodeDone,
    NoteText,
    NotStored,
    QuotaLine,
    QuotaLoss,
    RetryLine,
    SegmentLine,
    StoredLine,
    decode_lines,
    encode_grant,
)
from agentv.engine.cluster.node_segments import MAX_UNLISTED, line_key
from agentv.engine.cluster.tasks import TaskData, encode_tasks, to_data
from agentv.engine.planning.plan import AnswerToScore, CaseTask
from agentv.engine.planning.workspaces import wanted_workspace
from agentv.engine.running.recorder import UNLISTED, RunRecorder
from agentv.engine.running.rows import crashed_row, failed_row, not_begun_row
from agentv.execution.backends.local import LocalBackend
from agentv.execution.quotas import QuotaClient
from agentv.storage.records.decode import ANSWERS, CASES, RESULTS
from agentv.storage.records.encode import numbered
from agentv.types.cases import EvalCase
from agentv.types.errors import AgentvError, ClusterError, ConfigError, QuotaError, StorageError
from agentv.types.events import AnswerArrived, LogLine
from agentv.types.failures import Failure
from agentv.types.protocols import NODE_LEASE_S, Clock, EncodedCaseStore, SegmentStore
from agentv.types.records.answer import Answer, AnswerRef, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.records.segment import UploadedSegment
from agentv.types.targets import ResolvedTarget


class Timing(Struct, frozen=True):
    """Intervals of a run on several machines, in seconds."""

    wait_s: float = 1.0
    """How long `Node.take` waits for the first line."""
    lease_s: float = NODE_LEASE_S
    """A node that the driver has not called for this time cancels its rows."""
    search_s: float = 1.0
    """The interval at which the driver looks for new nodes."""
    grace_s: float = 30.0
    """The run ends if a target has no node for this time."""
    begin_s: float = 300.0
    """The time that a node has to read the run's files and check the targets."""
    stop_s: float = 5.0
    """The time that a node has to close."""
    store_s: float = 60.0
    """The additional time that a node has to close if it stores its rows."""
    list_s: float = 5.0
    """The time after which a segment that could not be listed is tried again."""


ROUNDING = 1e-9
AHEAD_S = 0.2
"""A node gets its next rows ahead of time: as many as it finishes in AHEAD_S, and at most as many as it runs
concurrently. Rows that take minutes are not sent ahead, because another node may be free first."""
MEASURED_S = 0.25
"""The shortest time, in seconds, over which the finished rows of a node are counted."""
MAX_LOSSES = 3
"""A row becomes an error after this number of lost nodes: it may be the cause."""


class NodeLostError(Exception):
    """A node cannot be reached any more."""


class Node(Protocol):
    """A process on one machine that runs rows. All methods but `kill` raise NodeLostError if it cannot be reached."""

    @property
    def name(self) -> str:
        """The name of the machine, for messages."""

    @property
    def resources(self) -> Mapping[str, float]:
        """The resources of the machine, by name: `CPU`, `GPU` and those that its cluster defines."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the machine."""

    async def begin(self) -> str | None:
        """Read the run's files and check targets; return why rows cannot run. Raises AgentvError if files differ."""

    async def give(self, tasks: bytes) -> None:
        """Begin rows (`encode_tasks`)."""

    async def take(self, wait_s: float) -> bytes:
        """Return the next lines (`encode_lines`) after at most `wait_s` seconds. The call renews the leases of rows."""

    async def grant(self, number: int, grant: bytes) -> None:
        """Answer a request for a lease of the quota (`encode_grant`)."""

    async def flush(self) -> None:
        """Store the finished rows now, or send them, because the driver waits for them."""

    async def listed(self, name: str, first: int | None) -> None:
        """Pass on the number of a segment's first line in the run's file, None if the segment could not be listed."""

    async def stop(self) -> bytes:
        """Cancel the rows in flight, close everything, and return the remaining lines."""

    def kill(self) -> None:
        """End the process."""


class Machines(Protocol):
    """The machines of a cluster."""

    @property
    def timing(self) -> Timing:
        """The intervals at which the driver works with these machines."""

    async def find(self) -> list[Node]:
        """Start a process on each machine that has none yet, and return the new ones. Raises ClusterError."""

    async def aclose(self) -> None:
        """Leave the cluster."""


class LeasedRow(Struct):
    """A row that a node runs."""

    task: CaseTask
    result: asyncio.Future[CaseResult]
    answers: list[Answer] = field(default_factory=list)
    """The stored answers of the row, in the order in which the node sent them."""


class NodeSession:
    """The driver's state of one node: the `rows` that it runs, and the finished ones that are `unlisted`.

    A row leaves `unlisted` when its segment arrives, and returns if the segment cannot be listed. `in_flight` counts
    the running rows by target. `unsent` are leased rows that the next call sends.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.rows: dict[ResultKey, LeasedRow] = {}
        self.unlisted: dict[ResultKey, LeasedRow] = {}
        self.is_done = False  # after a NodeDone: the node sends no more lines
        self.in_flight: Counter[int] = Counter()  # by the id of the target: names may repeat between folders
        self.used_resources: Counter[str] = Counter()
        self.unsent: list[TaskData] = []
        self.serve_task: asyncio.Task[None] | None = None
        self._ahead_by_target: dict[int, int] = {}
        self._ended_counts: Counter[int] = Counter()
        self._measured_at = 0.0

    def can_run(self, target: ResolvedTarget) -> bool:
        """Return True if the machine has what a row of a target requires, free or not."""
        if not target.node_label and not target.resources:
            return True
        has_labels = all(self.node.labels.get(name) == value for name, value in target.node_label.items())
        return has_labels and all(self._resource_amount(name) >= amount for name, amount in target.resources.items())

    def capacity(self, target: ResolvedTarget, *, workers: int) -> int:
        """Return how many rows of a target an idle node takes; it runs at most `workers` concurrently."""
        if not self.can_run(target):
            return 0
        by_resource = (
            int(self._resource_amount(name) / amount + ROUNDING) for name, amount in target.resources.items()
        )
        return min((workers + self._rows_ahead(target, workers), *by_resource))

    def room(self, target: ResolvedTarget, *, workers: int) -> int:
        """Return how many more rows of a target the node takes now; it runs at most `workers` concurrently."""
        if not self.can_run(target):
            return 0
        room = workers + self._rows_ahead(target, workers) - self.in_flight[id(target)]
        if self.unlisted:
            room = min(room, MAX_UNLISTED - len(self.unlisted) - len(self.rows))
        for name, amount in target.resources.items():
            free = self._resource_amount(name) - self.used_resources[name.lower()]
            room = min(room, int(free / amount + ROUNDING))
        return room

    def _rows_ahead(self, target: ResolvedTarget, workers: int) -> int:
        return min(self._ahead_by_target.get(id(target), 0), workers)

    def _resource_amount(self, name: str) -> float:
        return next((amount for own, amount in self.node.resources.items() if own.lower() == name.lower()), 0.0)

    def add(self, key: ResultKey, row: LeasedRow) -> None:
        """Add a row that the node begins."""
        target = row.task.target
        self.rows[key] = row
        self.in_flight[id(target)] += 1
        for name, amount in target.resources.items():
            self.used_resources[name.lower()] += amount  # type: ignore[assignment]  # a Counter of floats

    def end(self, key: ResultKey) -> LeasedRow:
        """Remove a row that the node has finished."""
        row = self.rows.pop(key)
        target = row.task.target
        self.in_flight[id(target)] -= 1
        if not target.resources:  # rows that need resources are not sent ahead
            self._ended_counts[id(target)] += 1
        for name, amount in target.resources.items():
            self.used_resources[name.lower()] -= amount  # type: ignore[assignment]  # as above
        return row

    def update_rows_ahead(self, now: float) -> bool:
        """Update how many rows are sent ahead; return True if a number has changed."""
        passed_s = now - self._measured_at
        if passed_s < MEASURED_S:
            return False
        ahead = {target: int(AHEAD_S * rows / passed_s) for target, rows in self._ended_counts.items()}
        has_changed = ahead != self._ahead_by_target
        self._ahead_by_target, self._measured_at = ahead, now
        self._ended_counts.clear()
        return has_changed


class Cluster:
    """The nodes of a run. `run` leases a row to one of them and waits for its result; a lost row is leased again.

    `workers` returns the number of concurrent rows of a target on one node. The nodes lease permits and money from
    `quota`; `on_budget_stop` is called when the money is used up. Use it as an async context manager.

    With `segments` the nodes store the rows in files, the segments, and the driver lists these: the `seq` of a finished
    row is UNLISTED until its segment is listed, and only then is the row recorded. `settle` waits for all listings.
    """

    def __init__(
        self,
        machines: Machines,
        recorder: RunRecorder,
        *,
        workers: Callable[[ResolvedTarget], int],
        clock: Clock,
        quota: QuotaClient,
        on_budget_stop: Callable[[BudgetStop], None],
        segments: SegmentStore | None = None,
    ) -> None:
        self._machines = machines
        self._timing = machines.timing
        self._recorder = recorder
        self._workers = workers
        self._clock = clock
        self._quota = quota
        self._on_budget_stop = on_budget_stop
        # A comparison with a baseline needs the cases decoded.
        is_compared = recorder.comparison is not None
        self._encoded_cases = (
            recorder.store if isinstance(recorder.store, EncodedCaseStore) and not is_compared else None
        )
        self._workers_by_target: dict[int, int] = {}
        self._sessions: list[NodeSession] = []
        self._changed = asyncio.Event()  # a node has room, or the run failed
        self._has_waiting_rows = False
        self._segments = segments
        self._unlisted_pass = self._unlisted_row(None)
        self._listings: set[asyncio.Task[None]] = set()
        self._repeated_rows: set[asyncio.Task[None]] = set()
        self._progress = asyncio.Event()
        self._closing = asyncio.Event()
        self._search: asyncio.Task[None] | None = None
        self._joins: set[asyncio.Task[None]] = set()
        self._calls: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._watchers: list[Callable[[], None]] = []

    def capacity(self, target: ResolvedTarget) -> int:
        """Return how many rows of a target all present nodes take together."""
        workers = self._workers_per_node(target)
        return sum(session.capacity(target, workers=workers) for session in self._sessions)

    def _workers_per_node(self, target: ResolvedTarget) -> int:
        """Return the number of concurrent rows of a target on one node."""
        workers = self._workers_by_target.get(id(target))
        if workers is None:
            workers = self._workers_by_target[id(target)] = self._workers(target)
        return workers

    def watch(self, call: Callable[[], None]) -> None:
        """Call a function whenever the number of rows that the nodes take may have changed."""
        self._watchers.append(call)

    async def __aenter__(self) -> Self:
        """Start the nodes. Raises AgentvError if there is none, or if one cannot take rows."""
        try:
            problem = await self._begin()
        except BaseException:
            await self._close()
            raise
        if problem is not None:
            await self._close()
            raise problem
        self._search = asyncio.create_task(self._search_nodes())
        return self

    async def _begin(self) -> AgentvError | None:
        """Start the nodes of the cluster; return the error that prevents the run, None if there is none."""
        problems = await self._join(await self._machines.find())
        if problems:
            return problems[0]
        if not self._sessions:
            return ClusterError("the cluster has no node")
        target = self._unplaced_target()
        if target is None:
            return None
        return ConfigError(f"target {target.name!r}: no node of the cluster has {_requirements(target)}")

    def _unplaced_target(self) -> ResolvedTarget | None:
        """Return a target that no node can run, None if there is none."""
        for target in self._recorder.plan.targets:
            if not any(session.can_run(target) for session in self._sessions):
                return target
        return None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the nodes, and store their last lines."""
        await self._close()

    async def run(self, task: CaseTask) -> CaseResult:
        """Return the row of a task, run by a node. Raises ClusterError if there is no node left."""
        losses = 0
        while True:
            session = await self._free_session(task.target)
            if self._recorder.stop.reason is not None:  # while the row waited
                return not_begun_row(self._recorder.store.run_id, task, now=self._clock())
            row = self._lease(session, task)
            try:
                return await row.result
            except NodeLostError as error:
                losses += 1
                if losses == MAX_LOSSES and isinstance(task.case, EvalCase):
                    message = f"{losses} nodes were lost while they ran this case: {error}"
                    return failed_row(
                        self._recorder.store.run_id, task, Failure("transport", message), now=self._clock()
                    )
                # The answer is stored, so it only has to be scored; a row with a workspace starts again in a new one.
                if row.answers and not _has_workspace(task):
                    task = replace(task, stored=AnswerToScore(row.answers[-1]))

    def _lease(self, session: NodeSession, task: CaseTask) -> LeasedRow:
        key = task.slot
        row = LeasedRow(task, asyncio.get_running_loop().create_future())
        session.add(key, row)
        if not session.unsent:  # one call sends all rows that are leased until then
            asyncio.get_running_loop().call_soon(self._start_giving, session)
        session.unsent.append(to_data(task))
        return row

    def _start_giving(self, session: NodeSession) -> None:
        self._start_call(self._give(session))

    def _start_call(self, call: Coroutine[None, None, None]) -> None:
        """Call a node without waiting for the answer."""
        self._start_task(self._calls, call)

    def _start_task(self, tasks: set[asyncio.Task[None]], work: Coroutine[None, None, None]) -> None:
        """Start a task, which is in `tasks` until it ends."""
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(lambda _task: self._progress.set())

    async def _give(self, session: NodeSession) -> None:
        tasks, session.unsent = session.unsent, []
        try:
            await session.node.give(encode_tasks(tasks))
        except NodeLostError as error:
            self._lose(session, error)
        except Exception as error:  # noqa: BLE001 - its rows would never end
            self._fail(error)

    async def _grant(self, session: NodeSession, line: QuotaLine) -> None:
        """Answer a node's request for a lease. On a QuotaError there is no answer, and the node makes no calls."""
        with suppress(QuotaError):
            grant = await self._quota.exchange(line.request)
            try:
                await session.node.grant(line.number, encode_grant(grant))
            except NodeLostError as error:
                self._lose(session, error)
            except Exception as error:  # noqa: BLE001 - its calls would wait for ever
                self._fail(error)

    async def _free_session(self, target: ResolvedTarget) -> NodeSession:
        """Return the node with the most room for a target, waiting until one has any. Raises ClusterError."""
        while True:
            if self._failure is not None:
                raise self._failure
            workers = self._workers_per_node(target)
            best, best_room = None, 0
            for session in self._sessions:
                room = session.room(target, workers=workers)
                if room > best_room:
                    best, best_room = session, room
            if best is not None:
                return best
            self._has_waiting_rows = True
            await self._changed.wait()

    def _wake(self) -> None:
        """Wake the rows that wait for a node with room."""
        self._has_waiting_rows = False
        self._changed.set()
        self._changed = asyncio.Event()

    def _nodes_changed(self) -> None:
        self._wake()
        for call in self._watchers:
            call()

    async def _join(self, nodes: Iterable[Node]) -> list[AgentvError]:
        """Start nodes, which take rows as soon as they have begun; return the problems of those that cannot."""
        outcomes = await asyncio.gather(*map(self._begin_node, nodes))
        return [outcome for outcome in outcomes if outcome is not None]

    async def _begin_node(self, node: Node) -> AgentvError | None:
        problem: AgentvError | None = None
        try:
            async with asyncio.timeout(self._timing.begin_s):
                failed = await node.begin()
            if failed is not None:
                problem = ClusterError(f"node {node.name}: {failed}")
        except ConfigError as error:
            problem = ConfigError(f"node {node.name}: {error}")
        except (NodeLostError, TimeoutError) as error:
            reason = str(error) or f"it did not begin within {self._timing.begin_s:.0f} s"
            self._recorder.note(f"node {node.name} was lost before it could begin: {reason}", is_urgent=True)
            node.kill()
            return None
        if problem is not None:
            node.kill()
            return problem
        session = NodeSession(node)
        session.serve_task = asyncio.create_task(self._serve(session))
        self._sessions.append(session)
        self._nodes_changed()
        return None

    async def _search_nodes(self) -> None:
        """Add the nodes that join the cluster later; end the run if a target has had no node for `grace_s`.

        A node that is about to begin counts as one, for at most `begin_s`.
        """
        loop = asyncio.get_running_loop()
        all_placed_at = loop.time()
        try:
            while True:
                await asyncio.sleep(self._timing.search_s)
                await self._add_new_nodes()
                unplaced = self._unplaced_target()
                if unplaced is None:
                    all_placed_at = loop.time()
                elif not self._joins and loop.time() - all_placed_at > self._timing.grace_s:
                    which = f"all nodes that can run target {unplaced.name!r}" if self._sessions else "all nodes"
                    waited = f"no new one joined within {self._timing.grace_s:.0f} s"
                    self._fail(ClusterError(f"{which} were lost, and {waited}"))
                    return
        except Exception as error:  # noqa: BLE001 - rows that wait for a node would wait for ever
            self._fail(error)

    async def _add_new_nodes(self) -> None:
        """Start the nodes that joined the cluster; report a cluster that does not answer."""
        try:
            new = await self._machines.find()
        except ClusterError as error:
            self._recorder.note(str(error), is_urgent=True)
            return
        if new:  # without waiting: a node whose network is cut off may take minutes to begin
            self._start_task(self._joins, self._add_nodes(new))

    async def _add_nodes(self, nodes: Sequence[Node]) -> None:
        """Start nodes that joined the cluster later, and report them."""
        try:
            problems = await self._join(nodes)
        except Exception as error:  # noqa: BLE001 - rows that wait for a node would wait for ever
            self._fail(error)
            return
        for problem in problems:
            self._recorder.note(f"a new node cannot run cases: {problem}", is_urgent=True)
        joined = sum(session.node in nodes for session in self._sessions)
        if joined > 0:
            self._recorder.note(f"{joined} more node{'s' if joined > 1 else ''} joined the run", is_urgent=True)

    async def _serve(self, session: NodeSession) -> None:
        """Store the lines of a node until it is done or lost, or the run ends."""
        try:
            while not session.is_done and (self._segments is not None or not self._closing.is_set()):
                async with asyncio.timeout(self._timing.wait_s + 2 * self._timing.lease_s):
                    data = await session.node.take(self._timing.wait_s)
                for line in decode_lines(data).lines:
                    self._store(session, line)
                if session.update_rows_ahead(asyncio.get_running_loop().time()):
                    self._nodes_changed()
        except (NodeLostError, TimeoutError) as error:
            self._lose(session, error)
        except Exception as error:  # noqa: BLE001 - a full disk, for example: it ends the run
            self._fail(error)

    def _lose(self, session: NodeSession, error: Exception) -> None:
        """Remove a lost node, and lease its rows again. Lines that it still sends are not stored."""
        if session not in self._sessions:
            return
        self._sessions.remove(session)
        session.node.kill()
        if session.serve_task is not None and session.serve_task is not asyncio.current_task():
            session.serve_task.cancel()
        reason = str(error) or "it does not answer"
        unlisted = [row.task for row in session.unlisted.values()]
        count = len(session.rows) + len(unlisted)
        cases = "1 case runs" if count == 1 else f"{count} cases run"
        self._recorder.note(
            f"node {session.node.name} was lost ({reason}); {cases} again on other nodes", is_urgent=True
        )
        for row in session.rows.values():
            if not row.result.done():
                row.result.set_exception(NodeLostError(reason))
        if unlisted:
            session.unlisted.clear()
            self._start_task(self._repeated_rows, self._repeat(unlisted))
        self._nodes_changed()

    async def _repeat(self, tasks: Sequence[CaseTask]) -> None:
        """Run rows again that a lost node had finished, but not stored."""
        try:
            await LocalBackend(self._workers_per_node(tasks[0].target)).run(self.run, tasks, self._recorder.row)
        except Exception as error:  # noqa: BLE001 - there is no node left, for example: it ends the run
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """End the run: the rows in flight raise the error."""
        self._failure = error
        self._progress.set()
        for session in self._sessions:
            for row in session.rows.values():
                if not row.result.done():
                    row.result.set_exception(error)
        self._wake()

    def _store(self, session: NodeSession, line: Line) -> None:
        """Store or report one line of a node. Answers and results of rows that are not leased to it are dropped."""
        match line:
            case StoredLine():
                self._store_line(session, line)
            case EndedRow(row=key, error=error) if key in session.rows:
                row = session.unlisted[key] = self._end(session, key)
                if not row.result.done():
                    row.result.set_result(self._unlisted_pass if error is None else self._unlisted_row(error))
            case SegmentLine():
                self._store_segment(session, line)
            case NodeDone():
                session.is_done = True
            case Crash(row=key, message=message) if key in session.rows:
                row = self._end(session, key)
                if not row.result.done() and isinstance(row.task.case, EvalCase):
                    run_id = self._recorder.store.run_id
                    failed = crashed_row(run_id, row.task, message, now=self._clock())
                    row.result.set_result(failed)
            case NotStored(message=message):
                self._fail(StorageError(f"node {session.node.name}: {message}"))
            case QuotaLine() | QuotaLoss() | BudgetLine():
                self._handle_quota(session, line)
            case RetryLine() | LogText() | NoteText() | AnsweredLine():
                self._report(line)

    def _handle_quota(self, session: NodeSession, line: QuotaLine | QuotaLoss | BudgetLine) -> None:
        """Answer a request for permits or money; end the run if the quota is lost or the money is used up."""
        match line:
            case QuotaLine():
                self._start_call(self._grant(session, line))
            case QuotaLoss(reason=reason):
                self._quota.on_loss(reason)
            case BudgetLine(stop=stop):
                self._on_budget_stop(stop)

    def _unlisted_row(self, error: Failure | None) -> CaseResult:
        """Return a placeholder for a row that a node stores: it has only a status and `error`."""
        return CaseResult(
            run_id=self._recorder.store.run_id,
            seq=UNLISTED,
            timestamp=self._clock(),
            dataset="",
            status="pass" if error is None else "error",
            score=None,
            verdict=None,
            error=error,
        )

    def _store_segment(self, session: NodeSession, line: SegmentLine) -> None:
        """List a segment. From now on its rows are stored even if the node is lost."""
        keys = (line_key(row) for row in line.rows)
        leased = {key: session.unlisted.pop(key) for key in keys if key in session.unlisted}
        self._start_task(self._listings, self._record_segment(session, line, leased))

    async def _record_segment(
        self, session: NodeSession, line: SegmentLine, leased: Mapping[ResultKey, LeasedRow]
    ) -> None:
        """List a segment, record its rows, and pass the number of its first line to the node."""
        try:
            first = await self._list_segment(line.segment)
            if first is None:  # the node sends the rows themselves
                session.unlisted.update(leased)
            else:
                for number, row in enumerate(map(RESULTS.of_line, line.rows), start=first):
                    self._recorder.row(numbered(row, seq=number, run_id=row.run_id))
            self._wake()
            await session.node.listed(line.segment.name, first)
        except NodeLostError as error:
            self._lose(session, error)
        except Exception as error:  # noqa: BLE001 - a full disk, for example: it ends the run
            self._fail(error)

    async def _list_segment(self, segment: UploadedSegment) -> int | None:
        """List a segment, retrying until the run ends; return the number of its first line, or None."""
        while self._segments is not None:
            first = await self._segments.list_segment(segment)
            if first is not None or self._closing.is_set():
                return first
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.list_s):
                    await self._closing.wait()
        return None

    async def settle(self) -> None:
        """Wait until all rows that nodes have finished are recorded; those of a lost node are run again first."""
        while self._failure is None:
            waiting = [session for session in self._sessions if session.unlisted]
            if not (waiting or self._listings or self._repeated_rows):
                return
            for session in waiting:
                self._start_call(self._flush(session))
            self._progress.clear()
            await self._progress.wait()
        raise self._failure

    async def _flush(self, session: NodeSession) -> None:
        try:
            await session.node.flush()
        except NodeLostError as error:
            self._lose(session, error)

    def _store_line(self, session: NodeSession, line: StoredLine) -> None:
        if line.file == "case":
            if self._encoded_cases is None:
                self._recorder.case(CASES.of_line(line.line))
            else:
                self._encoded_cases.append_encoded_case(line.line)
            return
        leased = session.rows.get(line.row) or session.unlisted.get(line.row)
        if leased is None:
            return
        if line.file == "answer":
            leased.answers.append(self._recorder.answer(ANSWERS.of_line(line.line)))
        elif line.row in session.unlisted:
            self._recorder.row(_with_answer(RESULTS.of_line(line.line), session.unlisted.pop(line.row)))
            self._progress.set()
        else:
            row = self._end(session, line.row)
            if not row.result.done():
                row.result.set_result(_with_answer(RESULTS.of_line(line.line), row))

    def _report(self, line: RetryLine | LogText | NoteText | AnsweredLine) -> None:
        match line:
            case AnsweredLine(answer=answer):
                self._recorder.emit(AnswerArrived(ANSWERS.of_line(answer)))
            case RetryLine(row=key, kind=kind, error=error, wait_s=wait_s):
                self._recorder.retry(key, kind, error, wait_s)
            case LogText(row=key, target=target, text=text):
                self._recorder.emit(LogLine(key, target, text))
            case NoteText(text=text):
                self._recorder.note(text, is_urgent=True)

    def _end(self, session: NodeSession, key: ResultKey) -> LeasedRow:
        row = session.end(key)
        self._progress.set()
        if self._has_waiting_rows:
            self._has_waiting_rows = False
            # Later, so that the result is counted first: it may stop the run.
            asyncio.get_running_loop().call_soon(self._wake)
        return row

    async def _close(self) -> None:
        """Stop the nodes, store their last lines, and leave the cluster."""
        self._closing.set()
        for work in (*self._repeated_rows, *self._joins, *([] if self._search is None else [self._search])):
            work.cancel()
        sessions, self._sessions = self._sessions, []
        await asyncio.gather(*map(self._stop, sessions), return_exceptions=True)
        await asyncio.gather(*self._calls, *self._listings, *self._joins, return_exceptions=True)
        await self._machines.aclose()

    async def _stop(self, session: NodeSession) -> None:
        """Stop a node; store the lines that `take` still returns, then the last ones."""
        is_served = session.serve_task is not None and not session.serve_task.done()
        store_s = self._timing.store_s if self._segments is not None and is_served else 0.0
        try:
            async with asyncio.timeout(self._timing.stop_s + store_s):
                lines = decode_lines(await session.node.stop()).lines
                if session.serve_task is not None:
                    await asyncio.wait({session.serve_task})
            for line in lines:
                self._store(session, line)
        except (NodeLostError, TimeoutError):
            return
        finally:
            if session.serve_task is not None:
                session.serve_task.cancel()
            session.node.kill()
            if session.unlisted:
                count = len(session.unlisted)
                results = "1 result" if count == 1 else f"{count} results"
                ended = f"node {session.node.name} ended before it stored {results}"
                self._recorder.note(f"{ended}; agentv resume repeats the work", is_urgent=True)


def _requirements(target: ResolvedTarget) -> str:
    return ", ".join(f"{name}: {value}" for name, value in {**target.resources, **target.node_label}.items())


def _has_workspace(task: CaseTask) -> bool:
    case = task.case
    return isinstance(case, EvalCase) and wanted_workspace(case, task.suite, task.target) is not None


def _with_answer(result: CaseResult, row: LeasedRow) -> CaseResult:
    """Return a result with the number under which the driver stored its answer, and with the answer's trace."""
    seq = result.answer_seq
    if seq is None:
        return result
    stored = None if row.task.stored is None else row.task.stored.answer
    answer = row.answers[-1 - seq] if seq < 0 else stored
    if answer is None or answer.seq is None:
        return result
    return replace(result, answer_ref=AnswerRef(answer.seq), trace=answer.trace, output_messages=answer.output_messages)
