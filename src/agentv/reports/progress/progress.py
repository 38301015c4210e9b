"""The progress of a run, counted from its events, and shown as plain lines that never move the cursor."""

import math
import shlex
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TextIO

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.reports.progress.case_line import CaseLines
from agentv.reports.progress.finished_cases import FinishedCase, FinishedCases
from agentv.reports.progress.notes import ShownNotes
from agentv.reports.run.failed_cases import annotations
from agentv.reports.run.figures import STATE_NAMES
from agentv.reports.run.file_changes import ChangesText, FileChanges
from agentv.reports.run.row_text import PLAIN_LABELS
from agentv.reports.text.amounts import clock_text, count_text, money_text, percent_text, seconds_text
from agentv.reports.text.printable import escape_commands, one_line, printable
from agentv.reports.text.signs import Signs, signs_for, without_colour
from agentv.reports.text.width import clip, wrap_lines
from agentv.scoring.counting.tallies import JUDGED_STATES, saved_by_judges
from agentv.scoring.results.aggregation import row_state
from agentv.types.events import (
    AnswerArrived,
    CaseOpened,
    LogLine,
    RetryNoted,
    RowBegun,
    RowFinished,
    RowKept,
    RowLeft,
    RowRerun,
    RowsCounted,
    RunEnded,
    RunEvent,
    RunNote,
    RunStarted,
    RunStopping,
)
from agentv.types.protocols import Clock
from agentv.types.records.answer import Answer, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.results import RowState, RunReport

_MAX_SUITE_NAMES = 3


class Progress(Struct):
    """Counts per target and in total."""

    started: RunStarted
    started_at: datetime
    by_target: dict[str, Counter[str]] = field(default_factory=dict)
    busy: int = 0
    """The number of workers that are running a case."""
    done: int = 0
    """The number of finished results."""
    stored_before: int = 0
    """How many of the finished results were stored before the run was resumed."""
    retries: int = 0
    cost_usd: float = 0.0
    """The sum of the known costs."""
    has_cost: bool = False
    """True if any cost is known."""
    stopping: RunStopping | None = None

    def __post_init__(self) -> None:
        """Add every target, so that the live display does not grow during the run."""
        self.by_target = {target: Counter() for target in self.started.targets}

    def add(self, event: RunEvent) -> None:
        """Take one event into account."""
        # `isinstance` is slow for a Struct of another class (bench/echo_cases.py).
        if type(event) is RowBegun:
            self.busy += 1
        elif type(event) is RowFinished:
            self.busy = max(self.busy - 1, 0)
            self._count(event.result)
            self._add_judge_cost(event.result)
        elif type(event) is RowRerun:
            self.busy = max(self.busy - 1, 0)
            self._add_judge_cost(event.result)
        elif type(event) is AnswerArrived:
            answer = event.answer
            self._add_cost(answer.cost_usd if answer.billed_usd is None else answer.billed_usd)
        elif type(event) is RowsCounted:
            self.started = replace(self.started, planned=event.planned, cases=event.cases)
        elif type(event) is RowKept:
            # Counted first: the heartbeat thread may read in between, and `done - stored_before` must not be negative.
            self._count(event.result)
            self.stored_before += 1
        elif type(event) is RowLeft:
            self.busy = max(self.busy - 1, 0)
        elif type(event) is RetryNoted:
            self.retries += 1
        elif type(event) is RunStopping:
            self.stopping = event

    def _count(self, result: CaseResult) -> None:
        state, target = row_state(result), result.slot.target
        counts = self.by_target.get(target)
        if counts is None:
            counts = self.by_target[target] = Counter()
        counts[state] += 1
        self.done += 1

    def _add_judge_cost(self, result: CaseResult) -> None:
        if result.judge_cost_usd is not None:
            self._add_cost(max(0.0, result.judge_cost_usd - saved_by_judges(result)))

    def _add_cost(self, dollars: float | None) -> None:
        if dollars is not None:
            self.cost_usd += dollars
            self.has_cost = True

    @property
    def counts(self) -> Counter[str]:
        """The finished results by state, of all targets."""
        return sum(self.by_target.values(), Counter())

    @property
    def done_now(self) -> int:
        """The results finished since the run started or was resumed, from which its pace is computed."""
        return self.done - self.stored_before

    @property
    def planned_per_target(self) -> int | None:
        """The planned results per target; None when the size of the plan is unknown."""
        planned = self.started.planned
        return None if planned is None else planned // max(len(self.started.targets), 1)

    @property
    def share(self) -> float | None:
        """The finished share of the planned results; None when the size of the plan is unknown."""
        return self.done / self.started.planned if self.started.planned else None

    def elapsed_s(self, now: datetime) -> float:
        """Return the seconds since the run started or was resumed."""
        return (now - self.started_at).total_seconds()

    def remaining_s(self, now: datetime) -> float | None:
        """Return the estimated seconds for the remaining results; None when there is no estimate yet."""
        done = self.done_now
        if not done or self.started.planned is None:
            return None
        return self.elapsed_s(now) / done * max(self.started.planned - self.done, 0)

    def pace(self, now: datetime) -> dict[str, str]:
        """Return workers, results per second, retries, cost, elapsed and remaining time by name, in display order."""
        elapsed, remaining, done = self.elapsed_s(now), self.remaining_s(now), self.done_now
        busy = min(self.busy, self.started.workers)
        parts = {"workers": f"{busy:,}/{count_text(self.started.workers, 'worker')}"}
        if done and elapsed > 0:
            parts["rate"] = f"{done / elapsed:.1f}/s"
        if self.retries:
            parts["retries"] = f"retries {self.retries:,}"
        if self.started.budget_usd is not None:
            spent = money_text(self.started.spent_usd + self.cost_usd)
            parts["cost"] = f"{spent} of {money_text(self.started.budget_usd)}"
        elif self.has_cost:
            parts["cost"] = money_text(self.cost_usd)
        parts["elapsed"] = clock_text(elapsed)
        if self.stopping is not None:
            parts["left"] = "stopping"
        elif remaining:
            parts["left"] = f"about {clock_text(math.ceil(remaining))} left"
        return parts


def judged(counts: Counter[str]) -> int:
    """Return the number of results with a verdict, the denominator of a pass rate."""
    return sum(counts[state] for state in JUDGED_STATES)


def stopping_text(event: RunStopping) -> str:
    """Return why the run stops, and whether running cases are finished or cancelled."""
    action = "finishing" if event.drains else "cancelling"
    return f"stopping, {action} running cases: {one_line(event.reason)}"


def plan_text(started: RunStarted, signs: Signs) -> str:
    """Return `refunds · 240 cases × 2 targets × 3 trials = 1,440`, without factors that are 1 or unknown.

    If cases have different numbers of trials, return `3 cases, 9 results` instead of a product.
    """  # noqa: RUF002
    suites = ", ".join(map(one_line, started.suites))
    if len(started.suites) > _MAX_SUITE_NAMES:
        suites = count_text(len(started.suites), "suite")
    return f" {signs.dot} ".join(filter(None, (suites, _extent_text(started, signs))))


def _extent_text(started: RunStarted, signs: Signs) -> str:
    factors = [] if started.cases is None else [count_text(started.cases, "case")]
    factors += [count_text(len(started.prompts), "prompt")] if len(started.prompts) > 1 else []
    factors += [count_text(len(started.targets), "target")] if len(started.targets) > 1 else []
    product = (started.cases or 0) * max(1, len(started.prompts)) * len(started.targets) * started.trials
    if started.planned is not None and started.cases is not None and started.planned != product:
        return ", ".join([*factors, count_text(started.planned, "result")])
    factors += [count_text(started.trials, "trial")] if started.trials > 1 else []
    total = "" if started.planned is None or len(factors) < 2 else f" = {started.planned:,}"  # noqa: PLR2004 - a product
    return f" {signs.times} ".join(factors) + total


HEARTBEAT_S = 30.0
HEARTBEAT_SHARE = 0.1
_MAX_LINE_WIDTH = 300  # longer reasons are cut; the report at the end and `agentv show` print them whole

_PRINTED = frozenset({RunStarted, RunStopping, RunEnded})
_STATE_WORDS: Mapping[RowState, str] = {"fail": "FAIL", "borderline": "BORDERLINE", "error": "ERROR"}
_MIN_TEXT_WIDTH = 40
_GUTTER_WIDTH = len("  question │ ")
_MAX_QUESTIONS = 10_000
"""The number of questions that are remembered for their answers."""


class PlainLines:
    """An observer that writes one line per case that did not pass, and a progress line every 10 % or 30 s.

    With `github`, the cases that the report lists are also `::error` commands, which GitHub Actions shows at their file
    and line, at the end of the run. `tick_s` starts a thread that checks at this interval whether 30 s have passed.
    """

    needs_whole_rows = False

    def __init__(self, stream: TextIO, *, clock: Clock, github: bool = False, tick_s: float | None = None) -> None:
        self._stream = stream
        self._clock = clock
        self._github = github
        self._signs: Signs = signs_for(stream.encoding)
        self._progress: Progress | None = None
        self._lines: CaseLines | None = None
        self._cases = FinishedCases()
        self._notes = ShownNotes()
        self._last_beat = clock()
        self._next_share = HEARTBEAT_SHARE
        self._lock = threading.Lock()  # held while lines are written
        self._closed = threading.Event()
        self._ticker = None if tick_s is None else threading.Thread(target=self._tick, args=(tick_s,), daemon=True)
        if self._ticker is not None:
            self._ticker.start()

    def notify(self, event: RunEvent) -> None:
        """Process one event."""
        if self._progress is not None:
            self._progress.add(event)
        is_note = self._notes.shows(event)
        if type(event) is RowFinished or type(event) is RowKept:
            self._add_row(event.result, is_kept=type(event) is RowKept)
        elif is_note or type(event) in _PRINTED:
            with self._lock:
                if type(event) is RunStarted:
                    self._begin(event)
                if type(event) is RunEnded:
                    for case in self._cases.unfinished():
                        self._write_case(case)
                self._line(self._text(event))
                if self._github and type(event) is RunEnded:
                    self._annotate(event.report)

    @property
    def shown_notes(self) -> Collection[str]:
        """The notes that were printed."""
        return self._notes.messages

    def beat(self) -> None:
        """Write a progress line if the last one is 30 s old."""
        with self._lock:
            now = self._clock()
            if self._progress is not None and (now - self._last_beat).total_seconds() >= HEARTBEAT_S:
                self._write_progress(self._progress, now)

    def close(self) -> None:
        """Stop the thread and flush the stream."""
        self._closed.set()
        if self._ticker is not None:
            self._ticker.join()
        self._stream.flush()

    def _tick(self, interval_s: float) -> None:
        while not self._closed.wait(interval_s):
            try:
                self.beat()
            except (OSError, ValueError):
                # The stream is closed: writing the next event raises the error in the main thread.
                return

    def _begin(self, event: RunStarted) -> None:
        self._progress = Progress(event, self._clock())
        self._lines, self._cases = CaseLines(event, self._signs), FinishedCases.of_run(event)
        self._last_beat = self._progress.started_at

    def _text(self, event: RunEvent) -> str:
        match event:
            case RunStarted():
                return f"run {event.run_id}: {plan_text(event, self._signs)}"
            case RunNote(message):
                return f"note: {one_line(message)}"
            case RunStopping():
                return stopping_text(event)
            case _:
                return ""  # an empty line before the report

    def _add_row(self, result: CaseResult, *, is_kept: bool) -> None:
        case = self._cases.add(result)
        if is_kept:
            return
        if case is not None:
            with self._lock:
                self._write_case(case)
        progress = self._progress
        if progress is not None and (progress.share or 0.0) >= self._next_share - 1e-9:
            with self._lock:
                self._write_progress(progress, self._clock())

    def _write_case(self, case: FinishedCase) -> None:
        word = _STATE_WORDS[row_state(case.result)]
        if self._lines is not None:
            self._line(" ".join(map(str.strip, self._lines.lines(word, case, _MAX_LINE_WIDTH))))

    def _annotate(self, report: RunReport) -> None:
        for command in annotations(report, PLAIN_LABELS if self._lines is None else self._lines.labels):
            self._write(command)

    def _write_progress(self, progress: Progress, now: datetime) -> None:
        """Write a progress line."""
        share = progress.share
        if share is not None:
            self._next_share = (int(share / HEARTBEAT_SHARE + 1e-9) + 1) * HEARTBEAT_SHARE
        self._last_beat = now
        planned = "" if progress.started.planned is None else f"/{progress.started.planned:,}"
        of_all = "" if share is None else f" ({percent_text(share)})"
        counts = progress.counts
        states = "".join(f"  {state} {counts[state]:,}" for state in STATE_NAMES if counts[state])
        pace = f" {self._signs.dot} ".join(progress.pace(now).values())
        self._line(f"{progress.done:,}{planned}{of_all}{states}  {pace}")

    def _line(self, text: str) -> None:
        self._write(escape_commands(text) if self._github else text)

    def _write(self, line: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        self._stream.flush()


class VerboseLines:
    """An observer that writes each question and answer in full, and one line for each retry and line of a target's log.

    `stream` is called for every line and returns the stream to write to. Questions and answers are wrapped to `width`
    cells (None: not at all). Lines of logs are cut to it (default: 300), but keep at least 40 cells of their text.
    """

    event_types = (CaseOpened, AnswerArrived, RetryNoted, LogLine)

    def __init__(self, stream: Callable[[], TextIO], *, width: int | None = None) -> None:
        self._stream = stream
        self._width = width
        self._questions: dict[tuple[str, str, str | None], str] = {}

    def notify(self, event: RunEvent) -> None:
        """Process one event."""
        match event:
            case CaseOpened(case):
                if len(self._questions) == _MAX_QUESTIONS:
                    self._questions.pop(next(iter(self._questions)))
                self._questions[case.suite, case.eval_id, case.prompt] = case.question
            case AnswerArrived(answer):
                self._write(self._answer_lines(answer))
            case RetryNoted(target, eval_id, kind, wait_s):
                self._write([one_line(f"retry: {eval_id} {target}: {kind}; retrying in {seconds_text(wait_s)}")])
            case LogLine(slot, target, text):
                name = f"log: {_name(slot)} {target}: "
                room = max(self._width or _MAX_LINE_WIDTH, len(name) + _MIN_TEXT_WIDTH)
                self._write([clip(one_line(name + text), room, mark=signs_for(self._encoding).ellipsis)])
            case _:
                pass

    def close(self) -> None:
        """Flush the stream."""
        self._stream().flush()

    @property
    def _encoding(self) -> str:
        return self._stream().encoding or "utf-8"

    def _answer_lines(self, answer: Answer) -> Iterator[str]:
        """Yield the head of an answer, question and answer behind a gutter, and what changed in its workspace."""
        slot = answer.slot
        outcome = f": error {answer.error.kind}" if answer.error else ""
        took = seconds_text(None if answer.duration_ms is None else answer.duration_ms / 1000)
        yield one_line(f"answer: {_name(slot)} {slot.target}{outcome} in {took}")
        texts = {
            "question": self._questions.get((slot.suite, slot.eval_id, slot.prompt), ""),
            "answer": answer.text,
            "error": "" if answer.error is None else answer.error.message,
        }
        signs = signs_for(self._encoding)
        room = None if self._width is None else max(self._width - _GUTTER_WIDTH, _MIN_TEXT_WIDTH)
        for name, text in texts.items():
            lines = wrap_lines(signs.escape_unsupported(printable(text)), room) if text else []
            for number, line in enumerate(lines):
                yield f"  {'' if number else name:8} {signs.gutter} {line}".rstrip()
        changes = FileChanges.of(answer)
        if changes is not None:
            command = f"agentv show {answer.run_id or 'latest'} {shlex.quote(slot.eval_id)} -v"
            layout = ChangesText(room, signs, without_colour, rest_command=one_line(command))
            yield from (f"  {line}" for line in (*layout.files(changes), *layout.diff(changes)))
            if changes.folder is not None:
                yield f"  workspace: {one_line(changes.folder)}"

    def _write(self, lines: Iterable[str]) -> None:
        stream, encoding = self._stream(), self._encoding
        safe = (escape_commands(printable(line)) for line in lines)
        stream.write("".join(f"{line.encode(encoding, 'backslashreplace').decode(encoding)}\n" for line in safe))
        stream.flush()


def _name(slot: ResultKey) -> str:
    """Return the case of a result, with its prompt if it has one, and its trial from the second on."""
    prompt = "" if slot.prompt is None else f" · {slot.prompt}"
    trial = f" trial {slot.trial + 1}" if slot.trial else ""
    return f"{slot.eval_id}{prompt}{trial}"
