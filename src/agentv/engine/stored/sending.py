"""Results of a stored run, sent to a destination such as an OpenTelemetry collector. The stored run is the queue."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agentv.storage.run.find import runs_folder
from agentv.storage.run.sent import Position, SentFile, lines_after, results_after
from agentv.storage.run.stored import StoredRun, open_run
from agentv.storage.run.stored_rows import StoredCases
from agentv.telemetry.sending.destination import Delivered, Destination, Omitted
from agentv.telemetry.sending.post import Refused
from agentv.templating.secrets import SecretRedactor
from agentv.types.errors import StorageError
from agentv.types.events import RowFinished, RowKept, RowRerun, RunEnded, RunEvent, RunStarted
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord

MAX_BYTES = 1 << 20
"""The stored size of the results of one request; a single result may be larger."""

END_WAIT_S = 3.0
"""How long the end of a run waits until its last results are sent."""

_GATHER_S = 1.0
"""The pause between requests while a run goes on, so that a request has many results."""

_BACKOFF_S, _MAX_BACKOFF_S, _DAY_S = 1.0, 60.0, 86_400.0
MAX_REASON = 200
"""The characters of a destination's own words that are shown."""

_ATTEMPTS = 3
"""How often an export in the foreground tries in vain before it gives up."""


class ExportReport(Struct, frozen=True):
    """What an export has sent, counted in results, and what is left."""

    run_id: str
    destination: Destination[Any]
    sent: int
    unsent: int
    omitted: Mapping[str, int] = {}
    """The results that the destination has no place for, counted by the reason."""
    dropped: int = 0
    """The records in accepted requests that the destination reported as dropped."""
    reason: str | None = None
    """Why results are unsent, or records were dropped."""
    left_out: str | None = None
    """Why a channel that does not count is left out, such as that of log records; None if it is not."""

    @property
    def command(self) -> str:
        """The command that sends the rest; without a rest, the one that sends all again."""
        resend = "" if self.unsent else " --resend"
        return f"agentv runs export {self.destination.option}{resend} {self.run_id}"


class Exporter:
    """Sends the results of a run that a destination does not have yet, and notes in the run's folder what was sent."""

    def __init__(self, folder: Path, destination: Destination[Any], *, resends: bool = False) -> None:
        self.run: StoredRun = open_run(folder)
        self._to = destination
        self._sent = self._dropped = 0
        self._omitted: Counter[str] = Counter()
        self._reason: str | None = None
        self._file = SentFile(folder)
        self._positions = {
            channel: Position() if resends else self._file.position(key)
            for channel, key in destination.channels.items()
        }
        self._redactor = SecretRedactor(destination.secrets)
        self._cases: StoredCases | None = None
        self._most = destination.max_results
        self._left_out: dict[str, str] = {}
        self._read: tuple[Position, tuple[Any, ...], Position] | None = None

    def send(self, is_over: Callable[[], bool] = lambda: False) -> Refused | None:
        """Send all that is stored; return the refusal that ended it before, or None.

        `is_over` is asked before each request. Raises StorageError for a result that cannot be read.
        """
        has_sent = True
        while has_sent and not is_over():
            has_sent = False
            for channel in [each for each in self._positions if each not in self._left_out]:
                prepared, end = self._next(self._positions[channel])
                refused = self._send_batch(channel, prepared, end) if prepared else None
                if refused is not None:
                    self._reason = refused.reason
                    return refused
                has_sent = has_sent or bool(prepared)
        return None

    def report(self) -> ExportReport:
        """Return what was sent so far."""
        unsent = lines_after(self.run.folder, self._positions[self._main])
        return ExportReport(
            self.run.run_id,
            self._to,
            sent=self._sent,
            unsent=unsent,
            omitted=dict(self._omitted),
            dropped=self._dropped,
            reason=self._reason if unsent or self._dropped else None,
            left_out=next(iter(self._left_out.values()), None),
        )

    def close(self) -> None:
        """Close the files."""
        if self._cases is not None:
            self._cases.close()
            self._cases = None

    @property
    def _main(self) -> str:
        """The channel by which sent results are counted."""
        return next(iter(self._to.channels))

    def _send_batch(self, channel: str, prepared: Sequence[Any], end: Position) -> Refused | None:
        items = [each for each in prepared if not isinstance(each, Omitted)]
        outcome = self._to.send(channel, items) if items else Delivered()
        if isinstance(outcome, Refused):
            return self._refused(channel, prepared, end, outcome)
        if outcome.dropped:
            self._dropped += outcome.dropped
            said = self._redactor.redact(outcome.reason or "")[:MAX_REASON] or "no reason"
            self._reason = f"{self._to.title} reported: {said}"
        self._advance(channel, end, prepared, sent=len(items) - outcome.lost)
        return None

    def _refused(self, channel: str, prepared: Sequence[Any], end: Position, refused: Refused) -> Refused | None:
        """Make the next request smaller or leave out the channel; return the refusal if neither helps."""
        if refused.is_too_large:
            if len(prepared) > 1:
                self._most = len(prepared) // 2
                self._read = None
                return None
            self._dropped += 1
            self._reason = f"a result is too large for {self._to.title} (HTTP {refused.status})"
            self._advance(channel, end, prepared, sent=0)
            return None
        if channel != self._main and refused.is_unsupported:
            self._left_out[channel] = refused.reason
            return None
        return refused

    def _advance(self, channel: str, end: Position, prepared: Sequence[Any], *, sent: int) -> None:
        self._positions[channel] = end
        if channel == self._main:
            self._sent += sent
            self._omitted.update(each.why for each in prepared if isinstance(each, Omitted))
        try:
            self._file.add(self._to.channels[channel], end)
        except OSError as error:  # the results would only be sent again
            self._reason = f"cannot record what was sent: {error.strerror or error}"

    def _next(self, start: Position) -> tuple[tuple[Any, ...], Position]:
        """Return the results after a position; those of another channel are the same, and prepared once."""
        if self._read is None or self._read[0] != start or not self._read[1]:
            rows, end = results_after(self.run, start, most=self._most, most_bytes=MAX_BYTES)
            cases, name = self._cases_of(rows), self.run.run.name
            prepared = tuple(self._to.prepare(row, name, case) for row, case in zip(rows, cases, strict=True))
            self._read = start, prepared, end
        return self._read[1], self._read[2]

    def _cases_of(self, rows: Sequence[CaseResult]) -> Iterator[CaseRecord | None]:
        """Yield the case of each result; None if the destination does not want it."""
        if self._to.wants_cases and self._cases is None:
            self._cases = StoredCases(self.run)
        if self._cases is not None:
            self._cases.refresh()
        for row in rows:
            yield None if self._cases is None else self._cases.find(row.slot.suite, row.slot.eval_id)


def export_run(exporter: Exporter, *, wait: Callable[[float], object] = time.sleep) -> ExportReport:
    """Send the rest of a run and wait for it. A destination that refuses for now is tried again, a few times."""
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
    """Return the seconds before the next attempt: as the destination asked, a day at most, else a growing pause."""
    if refused.retry_after_s is not None:
        return min(refused.retry_after_s, _DAY_S)
    return min(_BACKOFF_S * (1 << min(attempt - 1, 10)), _MAX_BACKOFF_S)


class BackgroundExport:
    """An observer of a run that sends its stored results in a thread, and slows down nothing.

    The thread reads what is stored: events only wake it. A destination that is dead, silent or slow keeps only the
    thread waiting. `close` waits END_WAIT_S for the last results; then the thread is left behind, and ends with the
    process.
    """

    event_types: tuple[type[RunEvent], ...] = (RunStarted, RowFinished, RowRerun, RowKept, RunEnded)
    needs_whole_rows = False

    def __init__(self, home: Path, destination: Destination[Any]) -> None:
        self._home, self.destination = home, destination
        self._folder: Path | None = None
        self._thread: Thread | None = None
        self._exporter: Exporter | None = None
        self._has_more, self._ending = Event(), Event()
        self._problem: str | None = None
        self._ends_at = 0.0

    def notify(self, event: RunEvent) -> None:
        """Wake the thread; start it with the first event that says which run it is."""
        if isinstance(event, RunEnded):
            self._end()
            return
        if self._thread is None:
            self._folder = self._folder_of(event)
            if self._folder is None:
                return
            self._thread = Thread(target=self._work, name=f"agentv-{self.destination.name}", daemon=True)
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
        """Let the thread send the last results, and wait for it until END_WAIT_S after the run has ended."""
        self._end()
        if self._thread is not None:
            self._thread.join(max(0.0, self._ends_at - time.monotonic()))

    def _end(self) -> None:
        """Begin the time in which the last results are sent. Several exports of a run have the same time."""
        if not self._ending.is_set():
            self._ends_at = time.monotonic() + END_WAIT_S
            self._ending.set()
            self._has_more.set()

    def report(self) -> ExportReport | None:
        """Return what was sent; None if the run has no results. Call it after `close`."""
        if self._folder is None:
            return None
        if self._exporter is None:
            unsent = lines_after(self._folder, Position())
            return ExportReport(self._folder.name, self.destination, 0, unsent, reason=self._problem)
        found = self._exporter.report()
        reason = self._problem or found.reason or f"not done {END_WAIT_S:g} s after the run"
        return replace(found, reason=reason) if found.unsent else found

    def _work(self) -> None:
        try:
            self._exporter = Exporter(self._folder or Path(), self.destination)
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

        The end of the run cuts a pause short, but not one that the destination asked for.
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
