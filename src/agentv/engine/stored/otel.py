"""Evaluations of a stored run, sent to an OpenTelemetry collector. The stored run is the queue."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from agentv.storage.run.find import runs_folder
from agentv.storage.run.sent import Position, SentFile, lines_after, results_after
from agentv.storage.run.stored import StoredRun, open_run
from agentv.storage.run.stored_rows import StoredCases
from agentv.telemetry.collector import Collector, Signal
from agentv.telemetry.evaluations import Exported, RunContent, exported_result
from agentv.telemetry.otlp_out import Source, logs_request, traces_request
from agentv.telemetry.post import Accepted, Refused, post
from agentv.templating.secrets import SecretRedactor
from agentv.types.errors import StorageError
from agentv.types.events import RowFinished, RowKept, RowRerun, RunEvent, RunStarted
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord
from agentv.version import __version__

MAX_ROWS = 256
MAX_BYTES = 1 << 20
"""The stored size of the results of one request; a single result may be larger."""

END_WAIT_S = 3.0
"""How long the end of a run waits until its last results are sent."""

_GATHER_S = 1.0
"""The pause between requests while a run goes on, so that a request has many results."""

_BACKOFF_S, _MAX_BACKOFF_S, _DAY_S = 1.0, 60.0, 86_400.0
MAX_REASON = 200
"""The characters of a collector's own words that are shown."""

_ATTEMPTS = 3
"""How often an export in the foreground tries in vain before it gives up."""


class ExportReport(Struct, frozen=True):
    """What an export has sent, counted in results, and what is left."""

    run_id: str
    collector: Collector
    with_content: bool
    sent: int
    unsent: int
    rejected: int = 0
    """The spans or log records in accepted requests that the collector says it dropped."""
    reason: str | None = None
    """Why results are unsent, or were rejected."""
    without_logs: str | None = None
    """Why the collector gets no log records; None if it gets them."""

    @property
    def command(self) -> str:
        """The command that sends the rest."""
        content = " --otel-content" if self.with_content else ""
        return f"agentv runs export {self.collector.option}{content} {self.run_id}"


class Exporter:
    """Sends the results of a run that a collector does not have yet, and notes in the run's folder what was sent."""

    def __init__(
        self,
        folder: Path,
        collector: Collector,
        *,
        with_content: bool = False,
        resends: bool = False,
        env: Mapping[str, str],
    ) -> None:
        self.run: StoredRun = open_run(folder)
        self.sent = self.rejected = 0
        self.reason: str | None = None
        self._collector, self._with_content = collector, with_content
        self._file = SentFile(folder)
        self._keys = {signal: collector.key(signal, with_content=with_content) for signal in collector.endpoints}
        self._positions = {
            signal: Position() if resends else self._file.position(key) for signal, key in self._keys.items()
        }
        self._redactor = SecretRedactor(
            value for endpoint in collector.endpoints.values() for value in endpoint.headers.values()
        )
        self._source = Source(resource_attributes(env), "agentv", __version__)
        self._content = RunContent(self.run.run.name, with_content)
        self._cases: StoredCases | None = None
        self._most = MAX_ROWS
        self._without: dict[Signal, str] = {}
        self._read: tuple[Position, tuple[Exported, ...], Position] | None = None

    def send(self, is_over: Callable[[], bool] = lambda: False) -> Refused | None:
        """Send all that is stored; return the refusal that ended it before, or None.

        `is_over` is asked before each request. Raises StorageError for a result that cannot be read.
        """
        has_sent = True
        while has_sent and not is_over():
            has_sent = False
            for signal in [each for each in self._keys if each not in self._without]:
                exported, end = self._next(self._positions[signal])
                refused = self._send_batch(signal, exported, end) if exported else None
                if refused is not None:
                    self.reason = refused.reason
                    return refused
                has_sent = has_sent or bool(exported)
        return None

    def report(self) -> ExportReport:
        """Return what was sent so far."""
        unsent = lines_after(self.run.folder, self._positions[self._main])
        return ExportReport(
            self.run.run_id,
            self._collector,
            self._with_content,
            sent=self.sent,
            unsent=unsent,
            rejected=self.rejected,
            reason=self.reason if unsent or self.rejected else None,
            without_logs=self._without.get("logs"),
        )

    def close(self) -> None:
        """Close the files."""
        if self._cases is not None:
            self._cases.close()
            self._cases = None

    @property
    def _main(self) -> Signal:
        """The signal by which sent results are counted."""
        return next(iter(self._keys))

    def _send_batch(self, signal: Signal, exported: Sequence[Exported], end: Position) -> Refused | None:
        outcome = post(
            self._collector.endpoints[signal],
            self._request(signal, exported),
            user_agent=f"agentv-OTLP-exporter/{__version__}",
        )
        if isinstance(outcome, Accepted):
            if outcome.rejected is not None:
                self.rejected += outcome.rejected.count
                said = self._redactor.redact(outcome.rejected.message)[:MAX_REASON] or "no reason"
                self.reason = f"the collector says: {said}"
            self._advance(signal, end, sent=len(exported))
            return None
        if outcome.is_too_large:
            if len(exported) > 1:
                self._most = len(exported) // 2
                self._read = None
                return None
            self.rejected += 1
            self.reason = "a result is too large for the collector (HTTP 413)"
            self._advance(signal, end, sent=0)
            return None
        if signal != self._main and outcome.is_unsupported:
            self._without[signal] = outcome.reason
            return None
        return outcome

    def _advance(self, signal: Signal, end: Position, *, sent: int) -> None:
        self._positions[signal] = end
        if signal == self._main:
            self.sent += sent
        try:
            self._file.add(self._keys[signal], end)
        except OSError as error:  # the results would only be sent again
            self.reason = f"what was sent is not noted: {error.strerror or error}"

    def _request(self, signal: Signal, exported: Sequence[Exported]) -> bytes:
        if signal == "traces":
            return traces_request(self._source, (span for each in exported for span in each.spans))
        return logs_request(self._source, (record for each in exported for record in each.logs))

    def _next(self, start: Position) -> tuple[tuple[Exported, ...], Position]:
        """Return the results after a position; those of the other signal are the same, and read once."""
        if self._read is None or self._read[0] != start or not self._read[1]:
            rows, end = results_after(self.run, start, most=self._most, most_bytes=MAX_BYTES)
            cases = self._cases_of(rows)
            exported = tuple(exported_result(row, self._content, case) for row, case in zip(rows, cases, strict=True))
            self._read = start, exported, end
        return self._read[1], self._read[2]

    def _cases_of(self, rows: Sequence[CaseResult]) -> Iterator[CaseRecord | None]:
        """Yield the case of each result; None if content is not sent."""
        if self._with_content and self._cases is None:
            self._cases = StoredCases(self.run)
        if self._cases is not None:
            self._cases.refresh()
        for row in rows:
            yield None if self._cases is None else self._cases.find(row.slot.suite, row.slot.eval_id)


def resource_attributes(env: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes of the resource: those of the standard variables, and the service's name."""
    pairs = (part.partition("=") for part in env.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","))
    named = {key.strip(): unquote(value.strip()) for key, equals, value in pairs if equals and key.strip()}
    return {"service.name": env.get("OTEL_SERVICE_NAME") or named.get("service.name") or "agentv"} | {
        key: value for key, value in named.items() if key != "service.name"
    }


def export_run(exporter: Exporter, *, wait: Callable[[float], object] = time.sleep) -> ExportReport:
    """Send the rest of a run and wait for it. A collector that refuses for now is tried again, a few times."""
    for attempt in range(1, _ATTEMPTS + 1):
        refused = exporter.send()
        if refused is None or not refused.is_retryable or attempt == _ATTEMPTS:
            break
        pause_s = _pause_s(refused, attempt)
        if pause_s > _MAX_BACKOFF_S:  # a person may try again later
            break
        wait(pause_s)
    return exporter.report()


def _pause_s(refused: Refused, attempt: int) -> float:
    """Return the seconds before the next attempt: as the collector asked, a day at most, else a growing pause."""
    if refused.retry_after_s is not None:
        return min(refused.retry_after_s, _DAY_S)
    return min(_BACKOFF_S * (1 << min(attempt - 1, 10)), _MAX_BACKOFF_S)


class BackgroundExport:
    """An observer of a run that sends its stored results in a thread, and slows down nothing.

    The thread reads what is stored: events only wake it. A collector that is dead, silent or slow keeps only the thread
    waiting. `close` waits END_WAIT_S for the last results; then the thread is left behind, and ends with the process.
    """

    event_types: tuple[type[RunEvent], ...] = (RunStarted, RowFinished, RowRerun, RowKept)
    needs_whole_rows = False

    def __init__(self, home: Path, collector: Collector, *, with_content: bool = False, env: Mapping[str, str]) -> None:
        self._home, self._collector, self._with_content, self._env = home, collector, with_content, env
        self._folder: Path | None = None
        self._thread: Thread | None = None
        self._exporter: Exporter | None = None
        self._has_more, self._ending = Event(), Event()
        self._problem: str | None = None
        self._ends_at = 0.0

    def notify(self, event: RunEvent) -> None:
        """Wake the thread; start it with the first event that says which run it is."""
        if self._thread is None:
            self._folder = self._folder_of(event)
            if self._folder is None:
                return
            self._thread = Thread(target=self._work, name="agentv-otel", daemon=True)
            self._thread.start()
        if not self._has_more.is_set():
            self._has_more.set()

    def _folder_of(self, event: RunEvent) -> Path | None:
        match event:
            case RunStarted(folder=str(folder)):
                return Path(folder)
            case RowFinished() | RowRerun() | RowKept() if event.result.run_id:
                return runs_folder(self._home) / event.result.run_id
        return None

    def close(self) -> None:
        """Let the thread send the last results, and wait for it, END_WAIT_S at most."""
        if self._thread is not None:
            self._ends_at = time.monotonic() + END_WAIT_S
            self._ending.set()
            self._has_more.set()
            self._thread.join(END_WAIT_S)

    def report(self) -> ExportReport | None:
        """Return what was sent; None if the run has no results. Call it after `close`."""
        if self._folder is None:
            return None
        if self._exporter is None:
            unsent = lines_after(self._folder, Position())
            return ExportReport(self._folder.name, self._collector, self._with_content, 0, unsent, reason=self._problem)
        found = self._exporter.report()
        reason = self._problem or found.reason or f"not done {END_WAIT_S:g} s after the run"
        return replace(found, reason=reason) if found.unsent else found

    def _work(self) -> None:
        try:
            self._exporter = Exporter(
                self._folder or Path(), self._collector, with_content=self._with_content, env=self._env
            )
            with closing(self._exporter) as exporter:
                self._send_until_end(exporter)
        except (StorageError, OSError) as error:
            self._problem = str(error)

    def _send_until_end(self, exporter: Exporter) -> None:
        attempt = 0
        while True:
            self._has_more.wait()
            self._ending.wait(_GATHER_S)
            self._has_more.clear()
            is_last = self._ending.is_set()
            refused = exporter.send(self._is_over)
            attempt = 0 if refused is None else attempt + 1
            if refused is not None and self._waits_in_vain(refused, attempt):
                return
            if refused is not None:
                self._has_more.set()
            elif is_last:
                return

    def _waits_in_vain(self, refused: Refused, attempt: int) -> bool:
        """Wait before the next attempt; return True if there is none before the end.

        The end of the run cuts a pause short, but not one that the collector asked for.
        """
        was_ending, pause_s = self._ending.is_set(), _pause_s(refused, attempt)
        until = time.monotonic() + pause_s
        if not self._ending.wait(pause_s):
            return False
        if refused.retry_after_s is None:
            return was_ending
        if until > self._ends_at:
            return True
        time.sleep(max(0.0, until - time.monotonic()))
        return False

    def _is_over(self) -> bool:
        return self._ending.is_set() and time.monotonic() >= self._ends_at
