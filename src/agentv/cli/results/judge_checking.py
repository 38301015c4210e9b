"""The implementation of `agentv judge check`: call the judge again and compare its verdicts with each other."""

import asyncio
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import chdir, suppress
from pathlib import Path
from typing import TextIO

import click
from msgspec import Struct
from msgspec.structs import replace

from agentv.cli.running.scored import runner_of
from agentv.cli.running.stopping import stopping_on_signals
from agentv.cli.screen import print_sheets, refuse_unwritable, write_sheets
from agentv.cli.terminal import own_stdout
from agentv.engine.criteria.stored_answers import judge_repeatedly
from agentv.engine.planning.plan import RunPlan
from agentv.engine.planning.prices import budget_problem
from agentv.engine.running.clock import make_clock
from agentv.engine.running.recorder import StopSignal
from agentv.engine.running.run import run_plan
from agentv.engine.running.run_stores import refuse_second_writer
from agentv.engine.stored.rejudge import RejudgePlan, by_judge, judges_called, make_rejudge_plan, only_judges
from agentv.engine.stored.stored_plan import load_stored_plan, working_folder
from agentv.loading.files.places import find_home
from agentv.reports.judge.check import CHECK_SCHEMA, SHOWN, JudgeCheck, check_sheet, check_to_json
from agentv.reports.text.amounts import clock_text, count_text, money_text
from agentv.reports.text.printable import one_line, printable_json
from agentv.reports.text.signs import signs_for
from agentv.reports.text.width import clip
from agentv.scoring.gates.run_verdict import SIGNALLED
from agentv.scoring.judges.consistency import consistency
from agentv.storage.records.json_line import pretty
from agentv.storage.run.find import find_run
from agentv.storage.run.line_file import write_by_rename
from agentv.storage.run.memory import MemoryStore
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import ConfigError, StorageError
from agentv.types.events import RowFinished, RunEvent
from agentv.types.json_value import JsonObject
from agentv.types.messages_json import pretty_json
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult

_REDRAWN_EVERY_S = 0.1
_PRINTED_EVERY_S = 30.0


class ProgressLine:
    """An observer that counts verdicts: one redrawn line on a terminal, elsewhere a new line every 30 seconds.

    `planned` is the number of verdicts to expect; `now` returns the time in seconds.
    """

    def __init__(self, stream: TextIO, planned: int, *, now: Callable[[], float]) -> None:
        self._stream, self._planned, self._now = stream, planned, now
        self._signs = signs_for(stream.encoding)
        self._is_redrawn = stream.isatty()
        self._done = 0
        self._began = self._shown_at = now()

    def notify(self, event: RunEvent) -> None:
        """Count a verdict, and print the progress if enough time has passed."""
        if not isinstance(event, RowFinished):
            return
        self._done += 1
        if self._now() - self._shown_at >= (_REDRAWN_EVERY_S if self._is_redrawn else _PRINTED_EVERY_S):
            self._shown_at = self._now()
            self._show()

    def close(self) -> None:
        """Clear the progress line of a terminal."""
        if self._is_redrawn:
            self._write("\r\x1b[K")

    def _show(self) -> None:
        gone_s = self._now() - self._began
        left_s = gone_s / self._done * max(self._planned - self._done, 0)
        parts = (
            f"{self._done:,} of {self._planned:,} verdicts",
            f"{self._done / gone_s:.1f}/s",
            clock_text(gone_s),
            f"about {clock_text(left_s)} left",
        )
        text = f" {self._signs.dot} ".join(parts)
        if self._is_redrawn:
            self._write(f"\r{clip(text, shutil.get_terminal_size().columns - 1, mark=self._signs.ellipsis)}\x1b[K")
        else:
            self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # a closed display is not an error
            self._stream.write(text)
            self._stream.flush()


CHECK_FILE = "judge-check.json"
EXIT_STOPPED, EXIT_INCOMPLETE = 2, 3


class CheckOptions(Struct, frozen=True, kw_only=True):
    """The options of `agentv judge check`."""

    evaluators: tuple[str, ...] = ()
    repeats: int = 3
    sample: int | None = None
    seed: int = 0
    budget_usd: float | None = None
    outputs: tuple[str, ...] = ()
    yes: bool = False
    as_json: bool = False


class _RepeatPlan(Struct, frozen=True):
    """The judges to call again, the answers with their lengths in characters, and the expected calls and cost."""

    stored: StoredRun
    names: tuple[str, ...]
    lengths: dict[ResultKey, int]
    calls: int
    cost_usd: float | None


def check(reference: str, options: CheckOptions) -> int:
    """Call the judges of a run again and print how far each agrees with itself; return the exit code."""
    refuse_unwritable(options.outputs)
    folder = find_run(find_home(Path.cwd()), reference).resolve()
    refuse_second_writer(folder)
    repeat = _choose(open_run(folder), options)
    click.echo(_forecast(repeat, options), err=True)
    if not options.yes and sys.stdin.isatty() and not click.confirm("Continue?", err=True):
        click.echo("cancelled; no judge was called", err=True)
        return 0
    stop = StopSignal()
    rows, found = _rejudge(repeat, options, stop)
    if not rows:
        raise StorageError(f"no verdict was made: {stop.reason or 'no stored answer matches its case any more'}")
    left = len(repeat.lengths) - len(found)
    if left and stop.reason is None:
        click.echo(f"skipped {count_text(left, 'answer')} whose case or target was edited since", err=True)
    checks = _checks(repeat, rows, options)
    _report(checks, folder / CHECK_FILE, options)
    return _exit_code(stop)


def _choose(stored: StoredRun, options: CheckOptions) -> _RepeatPlan:
    """Return the judges and answers to repeat. Raises ConfigError, naming the known evaluators, if there are none."""
    rows = [row for row in stored.results() if row.answer_seq is not None and any(judges_called(row))]
    known = sorted({name for row in rows for name, _, _ in judges_called(row)})
    wrong = [name for name in options.evaluators if name not in known]
    if wrong or not known:
        named = ", ".join(map(one_line, known)) or "none"
        what = f"evaluator {one_line(wrong[0])!r} called no judge" if wrong else "no evaluator called a judge"
        raise ConfigError(f"run {stored.run_id}: {what}; evaluators with a judge: {named}")
    names = options.evaluators or tuple(known)
    rows = [row for row in rows if any(name in names for name, _, _ in judges_called(row))]
    if options.sample is not None and options.sample < len(rows):
        rows = random.Random(options.seed).sample(rows, options.sample)  # noqa: S311 - a sample, not security
    costs = [(calls, cost) for row in rows for name, calls, cost in judges_called(row) if name in names]
    known_costs = [cost for _, cost in costs if cost is not None]
    return _RepeatPlan(
        stored=stored,
        names=names,
        lengths={row.slot: len(row.candidate_answer) for row in rows},
        calls=options.repeats * sum(calls for calls, _ in costs),
        cost_usd=options.repeats * sum(known_costs) if len(known_costs) == len(costs) else None,
    )


def _forecast(repeat: _RepeatPlan, options: CheckOptions) -> str:
    names = ", ".join(map(one_line, repeat.names))
    cost = "cost unknown" if repeat.cost_usd is None else f"about {money_text(repeat.cost_usd)}"
    answers = count_text(len(repeat.lengths), "answer")
    times = count_text(options.repeats, "time")
    return f"repeating {names} on {answers}, {times} each: about {count_text(repeat.calls, 'call')}, {cost}"


def _rejudge(
    repeat: _RepeatPlan, options: CheckOptions, stop: StopSignal
) -> tuple[Sequence[CaseResult], set[ResultKey]]:
    """Call the judges; return the new results, which are not stored, and the keys whose answer was found."""
    home = repeat.stored.folder.parent.parent
    cwd = working_folder(repeat.stored.run, home)
    with own_stdout(), chdir(cwd):  # relative paths in eval files start from the folder of the original run
        if repeat.stored.are_given:
            return asyncio.run(_judge_given(repeat, options, stop))
        change = only_judges(repeat.names)
        plan = load_stored_plan(
            repeat.stored.run, home, cwd=cwd, env=os.environ, change=change, ignores_cache=True, backend="local"
        )
        _refuse_unpriced(plan, options)
        plan = replace(plan, options=replace(plan.options, budget_usd=options.budget_usd), gates=(), baseline=None)
        again = make_rejudge_plan(plan, repeat.stored, repeat.lengths, repeats=options.repeats)
        rows = asyncio.run(_run(plan, again, stop, run_id=repeat.stored.run_id))
    return rows, again.found


async def _judge_given(
    repeat: _RepeatPlan, options: CheckOptions, stop: StopSignal
) -> tuple[Sequence[CaseResult], set[ResultKey]]:
    progress = ProgressLine(sys.stderr, len(repeat.lengths) * options.repeats, now=time.monotonic)
    runner = runner_of(repeat.stored, only=repeat.names)
    try:
        with stopping_on_signals(stop):
            return await judge_repeatedly(
                runner,
                repeat.stored,
                repeat.lengths,
                repeats=options.repeats,
                budget_usd=options.budget_usd,
                stop=stop,
                on_row=lambda row: progress.notify(RowFinished(row)),
            )
    finally:
        progress.close()


def _refuse_unpriced(plan: RunPlan, options: CheckOptions) -> None:
    """Raise ConfigError for a judge whose cost is unknown, so that the budget cannot be enforced."""
    for judge in plan.judges if options.budget_usd is not None else ():
        problem = budget_problem(judge, plan.specs.providers.get(judge.provider), plan.prices)
        if problem is not None:
            raise ConfigError(problem)


async def _run(plan: RunPlan, again: RejudgePlan, stop: StopSignal, *, run_id: str) -> Sequence[CaseResult]:
    clock = make_clock()
    store = MemoryStore(run_id, clock=clock)
    rng = random.Random(plan.options.seed)  # noqa: S311 - jitter of retries, not security
    line = ProgressLine(sys.stderr, len(again.chosen) * again.repeats, now=time.monotonic)
    try:
        with stopping_on_signals(stop):
            await run_plan(plan, store=store, observers=(line,), clock=clock, rng=rng, stop=stop, resume_plan=again)
    finally:
        line.close()
    return store.results


def _checks(repeat: _RepeatPlan, rows: Sequence[CaseResult], options: CheckOptions) -> list[JudgeCheck]:
    judged = by_judge(rows, repeat.names, repeat.lengths, repeats=options.repeats)
    calls = dict.fromkeys(repeat.names, 0)
    for row in rows:
        for name, count, _ in judges_called(row):
            calls[name] = calls.get(name, 0) + count
    return [
        JudgeCheck(
            run_id=repeat.stored.run_id,
            evaluator=name,
            consistency=consistency(answers, options.repeats),
            answers=answers,
            calls=calls[name],
        )
        for name, answers in judged.items()
        if answers
    ]


def _report(checks: Sequence[JudgeCheck], file: Path, options: CheckOptions) -> None:
    output: JsonObject = {"schema": CHECK_SCHEMA, "checks": [check_to_json(each) for each in checks]}
    try:
        write_by_rename(file, pretty(output))
    except OSError as error:
        raise StorageError(f"cannot write {file}: {error.strerror or error}") from error
    write_sheets(options.outputs, [check_sheet(each) for each in checks])
    if options.as_json:
        click.echo(printable_json(pretty_json(output)))
        return
    print_sheets([check_sheet(each, most=SHOWN) for each in checks])
    for written in (str(file), *options.outputs):
        click.echo(f"Wrote {one_line(written)}")


def _exit_code(stop: StopSignal) -> int:
    """Return 0 if the check is complete, else the code for the budget, a failure or a signal."""
    if stop.reason is not None:
        click.echo(f"stopped before the end: {one_line(stop.reason)}", err=True)
    match stop.state:
        case "interrupted":
            return SIGNALLED + stop.signal_number
        case "stopped":
            return EXIT_STOPPED
        case "failed":
            return EXIT_INCOMPLETE
        case _:
            return 0
