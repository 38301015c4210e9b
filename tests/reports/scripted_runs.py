"""Six runs as their events, each at its second: what the transcripts of the screen are made from."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace
from tests.reports.outcomes import listed
from tests.support.stored import make_answer, make_result

from agentv.scoring.counting.summary import Summary
from agentv.scoring.gates.run_verdict import Ending, run_verdict
from agentv.types.evaluation import EvaluatorResult, Verdict
from agentv.types.events import (
    AnswerArrived,
    RetryNoted,
    RowBegun,
    RowFinished,
    RunEnded,
    RunEvent,
    RunNote,
    RunStarted,
    RunStopping,
)
from agentv.types.failures import Failure
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult, Spent, UsageBy
from agentv.types.results import RunReport, RunState
from agentv.types.usage import Usage

RUN_ID = "20260131T120000.000-7f3a2b"
WORKERS = 4
_STEP_S = 2.5
_USD = 0.0125
_DEADLINE, _TONE = "contains-the-deadline", "friendly"
_QUESTION = "Until when can I return the lamp that I ordered last week, and who pays for the parcel?"
_SAID = "We will look into it."
_HOSTILE = "\x1b]0;gotcha\x07 ##[error]no \u202eevil"


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happens `at_s` seconds after the run began; with `is_shown` the screen is looked at after it."""

    at_s: float
    event: RunEvent
    is_shown: bool = False


@dataclass(frozen=True, slots=True)
class ScriptedRun:
    """A run from its first event to its report."""

    started: RunStarted
    moments: tuple[Moment, ...]
    report: RunReport


def _row(slot: ResultKey, line: int, deadline: float, tone: float, reply: str = _SAID) -> CaseResult:
    judged = tuple(
        EvaluatorResult(
            name=name, type=kind, score=score, misses=() if score == 1 else (f'expected "{wanted}", got "{reply}"',)
        )
        for name, kind, score, wanted in (
            (_DEADLINE, "contains", deadline, "30 days"),
            (_TONE, "llm_judge", tone, "a friendly tone"),
        )
    )
    score = (2 * deadline + tone) / 3
    verdict: Verdict = "pass" if score == 1 else "borderline" if deadline else "fail"
    return make_result(
        slot=slot,
        status="pass" if score == 1 else "fail",
        score=score,
        verdict=verdict,
        evaluator_results=judged,
        candidate_answer=reply,
        usage_by=UsageBy(Spent.of(Usage(input=300, output=40, total=340, requests=1), _USD)),
        cost_usd=_USD,
        duration_ms=1000.0 + 50 * line,
        line=line,
    )


def _unanswered(slot: ResultKey, line: int, message: str = "HTTP 503 after 3 attempts") -> CaseResult:
    return make_result(
        slot=slot,
        status="error",
        score=None,
        verdict=None,
        evaluator_results=(),
        candidate_answer="",
        error=Failure("server_error", message, http_status=503),
        usage_by=None,
        cost_usd=None,
        duration_ms=12_400.0,
        line=line,
    )


def _started(cases: int, *, targets: tuple[str, ...] = ("agent-v2",), trials: int = 1) -> RunStarted:
    return RunStarted(
        run_id=RUN_ID,
        planned=cases * len(targets) * trials,
        suites=("refunds",),
        targets=targets,
        workers=WORKERS,
        folder=f".agentv/runs/{RUN_ID}",
        cases=cases,
        trials=trials,
    )


def _slots(started: RunStarted, names: Iterable[str]) -> Iterator[tuple[int, ResultKey]]:
    """Yield the keys of all results in the order of the calls, each with the line of its case."""
    for line, name in enumerate(names, start=7):
        for trial in range(started.trials):
            for target in started.targets:
                yield line, ResultKey("evals/refunds.yaml", name, target, trial=trial)


def _moments(rows: tuple[CaseResult, ...], *, until: int | None = None) -> Iterator[Moment]:
    """Yield rows as four workers do them, one after the other; the screen is looked at when half of them are done."""
    for row in rows[:WORKERS]:
        yield Moment(0.0, RowBegun(row.slot))
    for number, row in enumerate(rows[:until], start=1):
        at_s = number * _STEP_S
        if row.error is None:
            yield Moment(at_s, AnswerArrived(make_answer(slot=row.slot, cost_usd=_USD, text=row.candidate_answer)))
        else:
            yield Moment(at_s - 1, RetryNoted(row.slot.target, row.slot.eval_id, "server_error", 1.0))
        yield Moment(at_s, RowFinished(row))
        if number + WORKERS - 1 < len(rows):
            following = rows[number + WORKERS - 1]
            yield Moment(at_s, RowBegun(following.slot), is_shown=number == len(rows) // 2)


def _report(
    started: RunStarted,
    rows: Sequence[CaseResult],
    duration_s: float,
    *,
    state: RunState = "finished",
    reason: str | None = None,
) -> RunReport:
    summary = Summary(has_shared_cases=len(started.targets) > 1)
    for row in rows:
        summary.add(row, has_trials=started.trials > 1)
    verdict = run_verdict(summary, Ending(state=state, reason=reason, planned=started.planned), gates=None)
    return RunReport(
        run_id=started.run_id,
        state=state,
        planned=started.planned,
        targets=summary.targets(),
        evaluators=summary.evaluators(),
        histogram=tuple(summary.counts.histogram),
        verdict=verdict,
        failing=tuple(summary.counts.failing),
        failing_total=summary.counts.failing_total,
        **listed(rows, question=_QUESTION, expected="within 30 days"),
        flaky=summary.flaky,
        duration_s=duration_s,
        folder=started.folder,
    )


def _finished(started: RunStarted, rows: tuple[CaseResult, ...], notes: tuple[str, ...] = ()) -> ScriptedRun:
    report = replace(_report(started, rows, len(rows) * _STEP_S), notes=notes)
    note_moments = tuple(Moment(0.0, RunNote(note)) for note in notes)
    end = Moment(report.duration_s, RunEnded(report))
    return ScriptedRun(started, (Moment(0.0, started), *note_moments, *_moments(rows), end), report)


def _cases(count: int) -> list[str]:
    return [f"refund-{number}" for number in range(1, count + 1)]


def passing() -> ScriptedRun:
    """Return a run of one target that gets everything right."""
    started = _started(20)
    return _finished(started, tuple(_row(slot, line, 1.0, 1.0) for line, slot in _slots(started, _cases(20))))


def failing() -> ScriptedRun:
    """Return a run in which a third of the answers is wrong."""
    started = _started(12)
    slots = _slots(started, _cases(12))
    return _finished(started, tuple(_row(slot, line, float(line % 3 > 0), 1.0) for line, slot in slots))


def mixed() -> ScriptedRun:
    """Return a run with all that can happen: several targets and trials, flaky cases, retries, a budget, odd names."""
    started = replace(
        _started(8, targets=("agent-v1", "agent-v2-with-a-long-name"), trials=2), budget_usd=5.0, spent_usd=0.0
    )
    odd = "a-case-that-was-named-after-the-whole-question-of-some-curious-user"
    names = ["refund-1", "返金はいつですか", odd, *_cases(8)[3:]]

    def judged(line: int, slot: ResultKey) -> CaseResult:
        kind = (3 * line + 5 * slot.trial + len(slot.target)) % 7
        if kind == 0:
            return _unanswered(slot, line)
        reply = _HOSTILE if kind == 1 else _SAID
        return _row(slot, line, float(kind != 1), 0.0 if kind in (1, 2) else 1.0, reply)

    rows = tuple(judged(line, slot) for line, slot in _slots(started, names))
    return _finished(started, rows, notes=("the price of 'agent-v1' is of 2025-06-01, more than half a year old",))


def all_error() -> ScriptedRun:
    """Return a run whose target never answers."""
    started = _started(8)
    message = "the server at http://127.0.0.1:9 cannot be reached: connection refused; is it running?"
    return _finished(started, tuple(_unanswered(slot, line, message) for line, slot in _slots(started, _cases(8))))


def interrupted() -> ScriptedRun:
    """Return a run that is stopped by Ctrl-C after five of twenty results."""
    started = _started(20)
    rows = tuple(_row(slot, line, float(line != 9), 1.0) for line, slot in _slots(started, _cases(20)))
    stop_s = 5 * _STEP_S + 1
    report = _report(started, rows[:5], stop_s + 1, state="interrupted", reason="SIGINT")
    stopped = Moment(stop_s, RunStopping("SIGINT"), is_shown=True)
    end = Moment(stop_s + 1, RunEnded(report))
    return ScriptedRun(started, (Moment(0.0, started), *_moments(rows, until=5), stopped, end), report)


def empty() -> ScriptedRun:
    """Return a run for which no case was chosen."""
    return _finished(_started(0), ())


RUNS: dict[str, Callable[[], ScriptedRun]] = {
    "pass": passing,
    "fail": failing,
    "mixed": mixed,
    "all-error": all_error,
    "interrupted": interrupted,
    "empty": empty,
}
