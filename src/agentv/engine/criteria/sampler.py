"""Judging of a sample of a service's answers in the background, in a thread of its own."""

import asyncio
import logging
import selectors
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import msgspec
from msgspec import Struct

from agentv.engine.criteria.config import EvaluationRunConfig
from agentv.engine.criteria.judgements import snapshot_of
from agentv.engine.criteria.runner import EvaluationRunner
from agentv.execution.forks import call_in_forks
from agentv.execution.user_code import described
from agentv.loading.suites.recorded import read_log_line
from agentv.messages.logs.mapping import Extra
from agentv.messages.logs.reading import TraceStep
from agentv.scoring.counting.sampling import Sample, make_sample
from agentv.types.aggregated_result import AggregatedEvaluationResult
from agentv.types.errors import AgentvError, ConfigError
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.json_value import JsonValue, camel_case, snake_case

if TYPE_CHECKING:
    from agentv.engine.criteria.sampled_run import SampledRun
    from agentv.engine.stored.destinations import ServiceName
    from agentv.telemetry.sending.destination import Destination

log = logging.getLogger("agentv")

OfferedLine: TypeAlias = Mapping[str, Any] | EvaluationInput | str | bytes
"""An answer as `agentv score` reads it: an object, its JSON, or an EvaluationInput."""

POLL_S = 0.01
"""Seconds after which the thread looks for lines. `offer` does not wake it: that system call would release the GIL."""
DROPS_LOGGED_EVERY_S = 10.0
_SOURCE = "sampler"


class SamplerStats(Struct, frozen=True):
    """The numbers of lines of a sampler so far."""

    offered: int = 0
    sampled: int = 0
    """The lines in the sample; each of them is counted in one of the fields below."""
    dropped: int = 0
    """The lines that found the queue full or the sampler closed."""
    judged: int = 0
    """The lines that have a judgement."""
    unreadable: int = 0
    """The lines that could not be read or judged."""
    failed: int = 0
    """The lines that ended with an unexpected error."""
    lost: int = 0
    """The lines that were not judged before the sampler was closed or its thread ended."""
    pending: int = 0
    """The lines that are not done yet."""


class Sampler:
    """Judges a sample of a service's answers in the background, and saves the judgements as `run_evaluation` does.

    `sample` is the share of lines to judge, as 0.05 or "5%". `by` is the path of a key, such as `session_id`: lines
    with the same value are all judged or all skipped. They are the same lines that `agentv score --sample SHARE
    --sample-by KEY --seed SEED` takes. At most `queue` lines wait and at most `workers` are judged concurrently; a
    further line is dropped and counted. `on_result` is called with each judgement, in the sampler's thread. `extra`
    is the treatment of unknown keys of a line: "metadata" keeps them, "error" refuses the line.

    With `otel`, True or the URL of an OpenTelemetry collector, the judgements are also stored in a run, called `name`,
    and sent from there; `otel_content` also sends questions, answers and explanations. `export`, "langfuse" or
    "phoenix", does the same for a service that has the traces; `export_reasons` also sends explanations.

    Use it as a context manager, synchronous or asynchronous: entering waits until the sampler is warm, leaving until
    all lines are judged, `flush_s` seconds at most. Otherwise it starts with the first line, and is closed when the
    program ends. Run errors and unreadable lines are logged by the logger `agentv` as warnings, failures of stores as
    errors. A forked process has a thread and counts of its own: lines that wait are judged by its parent. Raises
    EvalFileError with every problem of the configuration.

        sampler = Sampler(config, sample=0.05, by="session_id")
        with sampler:
            sampler.offer({"id": "1", "session_id": "s-7", "prompt": "Capital?", "response": "Paris"})
    """

    def __init__(
        self,
        config: EvaluationRunConfig | Mapping[str, Any],
        *,
        sample: float | str = 1.0,
        by: str | None = None,
        seed: int = 0,
        queue: int = 1000,
        workers: int = 10,
        flush_s: float = 30.0,
        extra: Extra = "error",
        on_result: Callable[[AggregatedEvaluationResult], object] | None = None,
        otel: bool | str = False,
        otel_content: bool = False,
        export: "ServiceName | None" = None,
        export_reasons: bool = False,
        name: str | None = None,
    ) -> None:
        for option, number in (("queue", queue), ("workers", workers)):
            if number < 1:
                raise ConfigError(f"{option} must be at least 1, not {number}")
        self._sample = _sample_of(sample, by, seed)
        share = sample if isinstance(sample, str) else f"{sample:.4%}".rstrip("0%").rstrip(".") + "%"
        self._share_text = share if by is None else f"{share} by {by}"
        # None without a key, and for a key inside another object.
        self._plain_key = self._sample.by[0] if len(self._sample.by) == 1 else None
        self._config = config if isinstance(config, EvaluationRunConfig) else EvaluationRunConfig.from_dict(config)
        self._max_queued, self._workers, self._flush_s, self._extra = queue, workers, flush_s, extra
        self._on_result = on_result
        self._name = name
        self._destinations = _destinations_of(
            otel=otel, export=export, otel_content=otel_content, export_reasons=export_reasons, name=name
        )
        self._set_up()
        self._runner.check()
        call_in_forks(self._reset_after_fork)

    def _set_up(self) -> None:
        """Set up the queue and the counts, in a new process as well: locks and connections are not shared."""
        self._runner = EvaluationRunner(self._config)
        self._run_of_thread: SampledRun | None = None
        self._lines: deque[_QueuedLine] = deque()
        self._lock = threading.Lock()
        self._offered = self._sampled = self._dropped = 0
        self._judged = self._unreadable = self._failed = self._lost = self._in_progress = 0
        self._drops_logged = 0
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._is_late = False
        self._ready: Future[None] = Future()

    def _reset_after_fork(self) -> None:
        """Start anew in a forked process, unless the sampler is closed."""
        was_closed = self._is_closed
        self._set_up()
        if was_closed:
            self._is_closing = True
            self._ready.set_result(None)

    @property
    def _is_closed(self) -> bool:
        return self._is_closing and self._thread is None and self._ready.done()

    def __repr__(self) -> str:
        """Return the share and the counts so far, as in `Sampler(5% by session_id: 3 of 60 sampled, 3 judged)`."""
        now = self.stats
        others = ("dropped", "unreadable", "failed", "lost", "pending")
        counts = [f"{now.sampled:,} of {now.offered:,} sampled", f"{now.judged:,} judged"]
        counts += [f"{getattr(now, name):,} {name}" for name in others if getattr(now, name)]
        return f"Sampler({self._share_text}: {', '.join(counts)})"

    def offer(self, line: OfferedLine) -> bool:
        """Hand over an answer; return False if it is not in the sample, cannot be read, or was dropped.

        Never waits and never raises for the content of a line. The line is copied: it may be changed afterwards.
        """
        key_hash = self._hash_of_plain_dict(line)
        if key_hash is not None and not self._sample.includes(key_hash):
            with self._lock:
                self._offered += 1
            return False
        queued = self._queued_line(line, key_hash)
        return queued is not None and self._add(queued, counts_drop=True)

    async def put(self, line: OfferedLine) -> bool:
        """Do the same as `offer`, but wait while the queue is full; a line is dropped only if the sampler closes."""
        queued = self._queued_line(line)
        if queued is None:
            return False
        while not self._add(queued, counts_drop=False):
            if self._is_closing:
                with self._lock:
                    self._dropped += 1
                return False
            await asyncio.sleep(POLL_S)
        return True

    @property
    def stats(self) -> SamplerStats:
        """The numbers of lines so far."""
        return SamplerStats(
            offered=self._offered,
            sampled=self._sampled,
            dropped=self._dropped,
            judged=self._judged,
            unreadable=self._unreadable,
            failed=self._failed,
            lost=self._lost,
            pending=len(self._lines) + self._in_progress,
        )

    @property
    def run_id(self) -> str | None:
        """The id of the latest run of this process; None without `otel` or `export`, and before the first judgement."""
        return None if self._run_of_thread is None else self._run_of_thread.run_id

    def start(self) -> None:
        """Start the thread, and wait until it has created the judge and the evaluators."""
        self._start_thread()
        self._ready.result()

    def close(self) -> None:
        """Judge the lines that wait, `flush_s` seconds at most, and end the thread. Lost lines are logged and counted.

        Do not call it in an event loop: it waits. Leave the sampler's `async with` instead.
        """
        with self._lock:
            thread, self._thread = self._thread, None
            self._is_closing = True
        if thread is None:
            return
        thread.join(self._flush_s)
        self._is_late = True
        thread.join(_LATE_S)
        self._lost += len(self._lines)
        self._lines.clear()
        self._log_drops()
        lost = self._lost + self._in_progress
        if lost:
            log.error("sampler: %d lines were not judged within %g s of closing", lost, self._flush_s)

    def __enter__(self) -> Self:
        """Start the sampler."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Judge the lines that wait, and close."""
        self.close()

    async def __aenter__(self) -> Self:
        """Start the sampler, while the event loop goes on."""
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Judge the lines that wait, and close, while the event loop goes on."""
        await asyncio.to_thread(self.close)

    def _hash_of_plain_dict(self, line: OfferedLine) -> int | None:
        """Return the hash of the sampling key of a dict if the key is an ASCII text; None for any other line.

        Most lines are such dicts, and this takes a third of the time of `_queued_line` (bench/).
        """
        value = line.get(self._plain_key) if type(line) is dict else None
        if type(value) is not str or not value.isascii():
            return None
        return self._sample.hash_of(msgspec.json.encode(value))

    def _queued_line(self, line: OfferedLine, key_hash: int | None = None) -> "_QueuedLine | None":
        """Return a copy of a line with its number in the sample; None if it is not in the sample or cannot be read."""
        try:
            encoded = None
            if key_hash is None:
                # A line without a key is encoded now, to be hashed; the others are encoded when they are queued.
                key = self._sample.key_of(_part_with_key(line, self._sample.by)) if self._sample.by else None
                if key is None:
                    encoded = _encoded(line)
                    key = encoded.strip()
                key_hash = self._sample.hash_of(key)
            is_sampled = self._sample.includes(key_hash)
            copy = None
            if is_sampled:
                copy = snapshot_of(line) if isinstance(line, EvaluationInput) else encoded or _encoded(line)
        except Exception as error:  # noqa: BLE001 - also of objects inside the line: the service must go on
            with self._lock:
                self._offered += 1
                self._sampled += 1
                self._unreadable += 1
            log.warning("sampler: a line cannot be read: %s", error)
            return None
        with self._lock:
            self._offered += 1
            self._sampled += is_sampled
            return None if copy is None else (self._sampled, copy)

    def _add(self, line: "_QueuedLine", *, counts_drop: bool) -> bool:
        with self._lock:
            if self._is_closed:
                self._dropped += counts_drop
                return False
            is_free = len(self._lines) < self._max_queued
            if is_free:
                self._lines.append(line)
            else:
                self._dropped += counts_drop
        if is_free and self._thread is None:
            self._start_thread()
        return is_free

    def _start_thread(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            self._is_closing = self._is_late = False
            self._ready = Future()
            thread = threading.Thread(target=self._run, args=(self._ready,), name="agentv-sampler", daemon=True)
            self._thread = thread
            thread.start()
        # Not a daemon: the program waits for this thread, which waits for the lines that are left.
        threading.Thread(target=self._close_at_exit, args=(thread,), name="agentv-sampler-exit").start()

    def _close_at_exit(self, thread: threading.Thread) -> None:
        while thread.is_alive():
            thread.join(_EXIT_POLL_S)
            if not threading.main_thread().is_alive():
                self.close()
                return

    def _run(self, ready: "Future[None]") -> None:
        try:
            with asyncio.Runner(loop_factory=_yielding_loop) as runner:
                runner.run(self._judge_all(ready))
        except BaseException as error:  # noqa: BLE001 - the service must go on, and a waiting caller must know
            lost = self._forget_thread()
            log.error(  # noqa: TRY400 - described names the place
                "sampler: stopped with %d lines that were not judged; the next line starts it again: %s",
                lost,
                described(error),
            )
            if not ready.done():
                ready.set_exception(error)

    def _forget_thread(self) -> int:
        """Count the lines that wait as lost, and return their number. The next line starts another thread."""
        with self._lock:
            if self._thread is threading.current_thread():
                self._thread = None
            lost = len(self._lines)
            self._lost += lost
            self._lines.clear()
        return lost

    async def _judge_all(self, ready: "Future[None]") -> None:
        """Judge lines until the sampler is closed and none is left."""
        task_ended = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        logged_at = loop.time()
        async with self._runner:
            run = self._run_of_thread = self._new_run()
            with suppress(Exception):  # each judgement reports it
                self._runner.warm()
            ready.set_result(None)
            while (not self._is_closing or self._lines or tasks) and not self._is_late:
                task_ended.clear()
                while self._lines and self._in_progress < self._workers:
                    self._in_progress += 1
                    task = loop.create_task(self._judge(self._lines.popleft()))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                    task.add_done_callback(lambda _task: task_ended.set())
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await task_ended.wait()
                if loop.time() - logged_at > DROPS_LOGGED_EVERY_S:
                    logged_at = loop.time()
                    self._log_drops()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if run is not None:
                run.close()

    def _new_run(self) -> "SampledRun | None":
        """Return the run in which this thread stores its judgements; None if they are sent nowhere."""
        if not self._destinations:
            return None
        from agentv.engine.criteria.sampled_run import SampledRun  # noqa: PLC0415 - few samplers send judgements

        return SampledRun(self._runner.tasks, self._destinations, name=self._name, path=self._config.path)

    async def _judge(self, queued: "_QueuedLine") -> None:
        try:
            given = self._read(queued)
            if given is None:
                self._unreadable += 1
                return
            result, judged = await self._runner.judge(given)
            _log_errors(result)
            if self._run_of_thread is not None:
                self._run_of_thread.add(result.input_snapshot, judged)
            self._judged += 1
            self._call_on_result(result)
        except AgentvError as error:
            self._unreadable += 1
            log.warning("sampler: a line cannot be judged: %s", error)
        except asyncio.CancelledError:
            self._lost += 1
            raise
        except Exception as error:  # noqa: BLE001 - one line must not end the sampler
            self._failed += 1
            log.error("sampler: a line was not judged: %s", described(error))  # noqa: TRY400 - as above
        finally:
            self._in_progress -= 1

    def _call_on_result(self, result: AggregatedEvaluationResult) -> None:
        if self._on_result is None:
            return
        try:
            self._on_result(result)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a function of the service must not end the sampler
            log.error("sampler: on_result failed: %s", described(error))  # noqa: TRY400 - as above

    def _read(self, queued: "_QueuedLine") -> EvaluationInput | None:
        """Return a line as an input; None for a part of a longer trace. Raises EvalFileError."""
        number, line = queued
        if isinstance(line, EvaluationInput):
            return line
        logged = read_log_line(line, _SOURCE, number, extra=self._extra)
        if isinstance(logged, TraceStep):
            log.warning("sampler: a line is a part of a trace (%s), not an answer", logged.kind)
            return None
        return logged.given

    def _log_drops(self) -> None:
        dropped = self._dropped - self._drops_logged
        if dropped:
            self._drops_logged = self._dropped
            log.warning(
                "sampler: %d lines dropped because %d wait already; raise `queue` or `workers`, or lower `sample`",
                dropped,
                self._max_queued,
            )


def _destinations_of(
    *, otel: object, export: "ServiceName | None", otel_content: bool, export_reasons: bool, name: str | None
) -> "tuple[Destination[Any], ...]":
    """Return where judgements are sent; () if nowhere. Raises ConfigError."""
    if otel is False and export is None and not otel_content and not export_reasons:
        if name is not None:
            raise ConfigError("`name` requires `otel` or `export`, because only judgements that are sent have a run")
        return ()
    from agentv.engine.criteria.sampled_run import find_destinations  # noqa: PLC0415 - few samplers send judgements

    return tuple(find_destinations(otel=otel, export=export, otel_content=otel_content, export_reasons=export_reasons))


_QueuedLine: TypeAlias = tuple[int, bytes | EvaluationInput]
"""A line in the queue, with its number in the sample, from 1."""


class _YieldingSelector(selectors.DefaultSelector):
    """Releases the interpreter before it looks for events, for long enough that a waiting thread gets it.

    A poll that returns at once takes the interpreter back before the service's thread has woken up: callbacks of
    the service would wait for several steps of judging (bench/).
    """

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Pause, then return the events."""
        time.sleep(_PAUSE_S)
        return super().select(timeout)


def _yielding_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop that leaves the interpreter to other threads between its steps."""
    if sys.platform == "win32":  # only its own loop can start processes
        return asyncio.new_event_loop()
    return asyncio.SelectorEventLoop(_YieldingSelector())


_PAUSE_S = 0.0001
_EXIT_POLL_S = 0.2
_LATE_S = 5.0
"""How long closing waits for the calls that it cancelled."""


def _sample_of(sample: float | str, by: str | None, seed: int) -> Sample:
    """Return the sample. Raises ConfigError unless it is a share."""
    if isinstance(sample, bool) or not isinstance(sample, float | int | str):
        raise ConfigError(f"sample must be a share, such as 0.05 or '5%', not {sample!r}")
    if not isinstance(sample, str) and not 0 < sample <= 1:
        raise ConfigError(f"sample must be a share above 0 and at most 1, not {sample!r}")
    text = sample if isinstance(sample, str) else f"{float(sample):.12f}"
    made = make_sample(text, by=by, seed=seed)
    if made.count is not None:
        raise ConfigError(f"sample must be a share, such as 0.05 or '5%', not {sample!r} lines")
    return made


def _encoded(line: OfferedLine) -> bytes:
    """Return a line as the bytes that a log has. Raises TypeError for what is not JSON."""
    if isinstance(line, dict):  # the usual kind first (bench/)
        return msgspec.json.encode(line)
    if isinstance(line, bytes):
        return line
    if isinstance(line, str):
        return line.encode()
    if isinstance(line, EvaluationInput):
        return msgspec.json.encode(line.to_dict())
    if isinstance(line, Mapping):
        return msgspec.json.encode(line)
    raise TypeError(f"a line must be a dict, JSON or an EvaluationInput, not {type(line).__name__}")


def _part_with_key(line: OfferedLine, by: tuple[str, ...]) -> JsonValue:
    """Return a line, or the part of it that contains the sampling key."""
    if isinstance(line, EvaluationInput):
        names = (by[0], camel_case(by[0]), snake_case(by[0]))
        return next(({by[0]: getattr(line, name)} for name in names if hasattr(line, name)), None)
    if isinstance(line, str | bytes):
        with suppress(ValueError):  # reported when the line is judged
            decoded: JsonValue = msgspec.json.decode(line)
            return decoded
        return None
    return line


def _log_errors(result: AggregatedEvaluationResult) -> None:
    for error in result.run_errors:
        level = logging.ERROR if error.kind == "store_error" else logging.WARNING
        log.log(level, "sampler: %s: %s", error.criterion or error.evaluator, error.message)
