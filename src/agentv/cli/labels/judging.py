"""The implementation of `agentv judge`: calibrate with human labels, and check by calling the judge again."""

import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import chdir, suppress
from pathlib import Path
from typing import TextIO

import click
from msgspec import Struct
from msgspec.structs import replace

from agentv.cli.labels.label_file import read_labels
from agentv.cli.running.scored import answer_tasks_of
from agentv.cli.running.stopping import stopping_on_signals
from agentv.cli.screen import print_documents, refuse_unknown_suffixes, write_documents
from agentv.cli.terminal import own_stdout, terminal_columns
from agentv.engine.criteria.stored_answers import find_given_setups, judge_repeatedly
from agentv.engine.labels.judge_cards import LabelledRun, Pairing, find_pairings, labelled_answers, make_card
from agentv.engine.planning.plan import RunPlan
from agentv.engine.planning.prices import budget_problem
from agentv.engine.running.clock import make_clock
from agentv.engine.running.recorder import StopSignal
from agentv.engine.running.run_stores import refuse_second_writer
from agentv.engine.runs.run import run_plan
from agentv.engine.stored.rejudge import (
    RejudgePlan,
    evaluators_with_judges,
    find_setups,
    limit_evaluators,
    make_rejudge_plan,
    results_by_evaluator,
)
from agentv.engine.stored.stored_plan import load_stored_plan, working_folder
from agentv.execution.loops import run_in_own_loop
from agentv.loading.files.places import find_home
from agentv.reports.judge import (
    CARD_SCHEMA,
    CHECK_SCHEMA,
    MAX_DISAGREEMENTS,
    MAX_INCONSISTENT,
    JudgeCard,
    JudgeCheck,
    card_document,
    card_to_json,
    check_document,
    check_to_json,
)
from agentv.reports.text.amounts import clock_text, count_text, money_text
from agentv.reports.text.printable import one_line, printable_json
from agentv.reports.text.signs import signs_for
from agentv.reports.text.width import clip
from agentv.scoring.counting.groups import no_tags_message
from agentv.scoring.gates.run_verdict import SIGNALLED
from agentv.scoring.judges.consistency import consistency
from agentv.scoring.judges.labels import (
    LabelledAnswer,
    LabelledAnswers,
    result_opinion,
)
from agentv.scoring.judges.report_card import ReportCard
from agentv.storage.files.line_file import write_by_rename
from agentv.storage.judgements.calibrations import save_calibration
from agentv.storage.records.json_line import pretty
from agentv.storage.run.find import find_run
from agentv.storage.run.judgements import read_judged_rows
from agentv.storage.run.memory import MemoryStore
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import AgentvError, ConfigError, StorageError
from agentv.types.events import RowFinished, RunEvent
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import pretty_json
from agentv.types.records.answer import ResultKey
from agentv.types.records.label import Label
from agentv.types.records.result import CaseResult
from agentv.types.summaries import Calibration


class CalibrateOptions(Struct, frozen=True, kw_only=True):
    """The options of `agentv judge calibrate`."""

    evaluator: str | None = None
    criterion: str | None = None
    labels: str | None = None
    is_random_sample: bool = False
    by: str | None = None
    outputs: tuple[str, ...] = ()
    no_save: bool = False
    as_json: bool = False


def calibrate(reference: str, options: CalibrateOptions) -> int:
    """Print a report card for each judge whose criterion has labels, and save its calibration; return the exit code."""
    refuse_unknown_suffixes(options.outputs)
    home = find_home(Path.cwd())
    stored = open_run(find_run(home, reference))
    labels = _given_labels(stored, options)
    if not labels:
        raise ConfigError(
            f"run {stored.run_id} has no labels; import some with `agentv label {stored.run_id} --in FILE`, "
            "or give --labels FILE"
        )
    labelled = LabelledRun.of(stored, labels)
    if options.by == "tag" and not any(row.tags for row in labelled.rows):
        raise ConfigError(no_tags_message("labelled case"))
    cards: list[JudgeCard] = []
    files: list[str | None] = []
    for pairing in find_pairings(labelled, evaluator=options.evaluator, criterion=options.criterion):
        found = labelled_answers(labelled, pairing)
        card = make_card(labelled, pairing, found, by_tag=options.by == "tag")
        cards.append(card)
        file = None
        if not _is_sample(labelled, pairing, found):
            click.echo(f"calibration of {one_line(pairing.evaluator)} not saved: {NOT_A_SAMPLE}", err=True)
        elif not options.no_save:
            file = _save_calibration(home, labelled=labelled, pairing=pairing, answers=found.answers, card=card.card)
        files.append(file)
    _print_cards(cards, files, options)
    return 0


NOT_A_SAMPLE = (
    "the labelled answers were picked, so that they may differ from the others; use labels of all answers, of answers "
    "drawn for review, or of a random sample (--random-sample)"
)


def _given_labels(stored: StoredRun, options: CalibrateOptions) -> list[Label]:
    if options.labels is not None:
        return read_labels(stored, options.labels, annotator=None, is_random_sample=options.is_random_sample)
    if options.is_random_sample:
        raise ConfigError("--random-sample is about the file of --labels; give it when you import labels")
    return list(stored.labels())


def _is_sample(labelled: LabelledRun, pairing: Pairing, found: LabelledAnswers) -> bool:
    """Return True if the labelled answers were drawn at random, or are all that the judge judged."""
    if found.is_drawn:
        return True
    names = {(label.slot, label.answer_seq) for label in labelled.labels if label.criterion == pairing.label_criterion}
    return all(
        (row.slot, row.answer_seq) in names
        for row in read_judged_rows(labelled.stored, {pairing.evaluator})
        for judgement in row.judgements
        if result_opinion(judgement.result, pairing.criterion) is not None
    )


def _print_cards(cards: Sequence[JudgeCard], files: Sequence[str | None], options: CalibrateOptions) -> None:
    write_documents(options.outputs, [card_document(card) for card in cards])
    if options.as_json:
        output: list[JsonValue] = [
            {**card_to_json(card), "calibration": file} for card, file in zip(cards, files, strict=True)
        ]
        click.echo(printable_json(pretty_json({"schema": CARD_SCHEMA, "cards": output})))
        return
    print_documents([card_document(card, max_findings=MAX_DISAGREEMENTS) for card in cards])
    for file in (*filter(None, files), *options.outputs):
        click.echo(f"Wrote {one_line(file)}")


def _save_calibration(
    home: Path, labelled: LabelledRun, pairing: Pairing, answers: Sequence[LabelledAnswer], card: ReportCard
) -> str | None:
    """Save the calibration for the judge setups it was measured on; return the path of its file.

    A setup is a digest of an evaluator's settings, prompts and judges. Return None if no answer can be compared, or if
    the setups cannot be found, and then print why to standard error. Raises StorageError if the file cannot be written.
    """
    if not answers or not card.confusion.answers:
        return None
    slots = {each.slot for each in answers}
    rows = [row for row in labelled.rows if row.slot in slots]
    try:
        setups = _find_setups(labelled.stored, home, rows, pairing.evaluator)
    except AgentvError as error:
        click.echo(f"calibration not saved: {error}", err=True)
        return None
    calibration = Calibration(
        evaluator=pairing.evaluator,
        criterion=pairing.criterion,
        setups=setups,
        run_id=labelled.stored.run_id,
        labelled_at=max(label.time for label in labelled.labels if label.criterion == pairing.label_criterion),
        annotators=card.people.annotators,
        cases=card.cases,
        confusion=card.confusion,
        sensitivity=card.sensitivity.rate if card.can_correct else None,
        specificity=card.specificity.rate if card.can_correct else None,
        kappa=card.kappa.value,
    )
    return str(save_calibration(home, calibration))


def _find_setups(stored: StoredRun, home: Path, rows: Sequence[CaseResult], evaluator: str) -> tuple[str, ...]:
    """Return the judge setups that scored the results. Raises ConfigError if the files no longer describe them."""
    cwd = working_folder(stored.run, stored.folder.resolve().parent.parent)
    with own_stdout(), chdir(cwd):  # relative paths in eval files start from the folder of the original run
        if stored.has_given_answers:
            found = find_given_setups(answer_tasks_of(stored), stored, rows, evaluator)
        else:
            plan = load_stored_plan(stored.run, home, cwd=cwd, env=os.environ)
            found = find_setups(plan, rows, evaluator, clock=make_clock())
    if found.unmatched_rows:
        verb = "was" if found.unmatched_rows == 1 else "were"
        raise ConfigError(
            f"{count_text(found.unmatched_rows, 'labelled answer')} of {len(rows):,} {verb} "
            f"scored by a different {evaluator!r} than the files describe now (its prompt, settings, judge or case "
            f"was edited); run `agentv rescore {stored.run_id}` first"
        )
    return found.setups


_REDRAW_INTERVAL_S = 0.1
_PRINT_INTERVAL_S = 30.0


class ProgressLine:
    """An observer that counts verdicts: one redrawn line on a terminal, elsewhere a new line every 30 seconds.

    `planned` is the number of verdicts to expect; `now` returns the time in seconds.
    """

    def __init__(self, stream: TextIO, planned: int, *, now: Callable[[], float]) -> None:
        self._stream, self._planned, self._now = stream, planned, now
        self._signs = signs_for(stream.encoding)
        self._is_redrawn = stream.isatty()
        self._done = 0
        self._started_at = self._shown_at = now()

    def notify(self, event: RunEvent) -> None:
        """Count a verdict, and print the progress if the interval has passed."""
        if not isinstance(event, RowFinished):
            return
        self._done += 1
        if self._now() - self._shown_at >= (_REDRAW_INTERVAL_S if self._is_redrawn else _PRINT_INTERVAL_S):
            self._shown_at = self._now()
            self._show()

    def close(self) -> None:
        """Clear the progress line of a terminal."""
        if self._is_redrawn:
            self._write("\r\x1b[K")

    def _show(self) -> None:
        elapsed_s = self._now() - self._started_at
        remaining_s = elapsed_s / self._done * max(self._planned - self._done, 0)
        parts = (
            f"{self._done:,} of {self._planned:,} verdicts",
            f"{self._done / elapsed_s:.1f}/s",
            clock_text(elapsed_s),
            f"about {clock_text(remaining_s)} left",
        )
        text = f" {self._signs.dot} ".join(parts)
        if self._is_redrawn:
            self._write(f"\r{clip(text, terminal_columns() - 1, mark=self._signs.ellipsis)}\x1b[K")
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
    """The judges to call again, the length of each answer in characters, and the expected calls and cost."""

    stored: StoredRun
    names: tuple[str, ...]
    answer_lengths: dict[ResultKey, int]
    calls: int
    cost_usd: float | None


def check(reference: str, options: CheckOptions) -> int:
    """Call the judges of a run repeatedly and print how consistent each is; return the exit code."""
    refuse_unknown_suffixes(options.outputs)
    folder = find_run(find_home(Path.cwd()), reference).resolve()
    refuse_second_writer(folder)
    repeat_plan = _choose_judges(open_run(folder), options)
    click.echo(_forecast(repeat_plan, options), err=True)
    if not options.yes and sys.stdin.isatty() and not click.confirm("Continue?", err=True):
        click.echo("cancelled; no judge was called", err=True)
        return 0
    stop = StopSignal()
    rows, judged_keys = _rejudge(repeat_plan, options, stop)
    if not rows:
        reason = stop.reason or "the case or target of every stored answer was edited"
        raise StorageError(f"no judge gave a verdict: {reason}")
    edited = len(repeat_plan.answer_lengths) - len(judged_keys)
    if edited and stop.reason is None:
        click.echo(f"skipped {count_text(edited, 'answer')} whose case or target was edited since", err=True)
    checks = _make_checks(repeat_plan, rows, options)
    _print_checks(checks, folder / CHECK_FILE, options)
    return _exit_code(stop)


def _choose_judges(stored: StoredRun, options: CheckOptions) -> _RepeatPlan:
    """Return the plan of the repetitions. Raises ConfigError with the known evaluators if no judge is selected."""
    rows = [row for row in stored.results() if row.answer_seq is not None and any(evaluators_with_judges(row))]
    known = sorted({name for row in rows for name, _, _ in evaluators_with_judges(row)})
    wrong = [name for name in options.evaluators if name not in known]
    if wrong or not known:
        problem = f"evaluator {one_line(wrong[0])!r} called no judge" if wrong else "no evaluator called a judge"
        known_text = ", ".join(map(one_line, known)) or "none"
        raise ConfigError(f"run {stored.run_id}: {problem}; evaluators with a judge: {known_text}")
    names = options.evaluators or tuple(known)
    rows = [row for row in rows if any(name in names for name, _, _ in evaluators_with_judges(row))]
    if options.sample is not None and options.sample < len(rows):
        rows = random.Random(options.seed).sample(rows, options.sample)  # noqa: S311 - a sample, not security
    costs = [(calls, cost) for row in rows for name, calls, cost in evaluators_with_judges(row) if name in names]
    known_costs = [cost for _, cost in costs if cost is not None]
    return _RepeatPlan(
        stored=stored,
        names=names,
        answer_lengths={row.slot: len(row.candidate_answer) for row in rows},
        calls=options.repeats * sum(calls for calls, _ in costs),
        cost_usd=options.repeats * sum(known_costs) if len(known_costs) == len(costs) else None,
    )


def _forecast(repeat_plan: _RepeatPlan, options: CheckOptions) -> str:
    names = ", ".join(map(one_line, repeat_plan.names))
    cost = "cost unknown" if repeat_plan.cost_usd is None else f"about {money_text(repeat_plan.cost_usd)}"
    answers = count_text(len(repeat_plan.answer_lengths), "answer")
    times = count_text(options.repeats, "time")
    return f"repeating {names} on {answers}, {times} each: about {count_text(repeat_plan.calls, 'call')}, {cost}"


def _rejudge(
    repeat_plan: _RepeatPlan, options: CheckOptions, stop: StopSignal
) -> tuple[Sequence[CaseResult], set[ResultKey]]:
    """Call the judges; return the new results, which are not stored, and the keys of the judged answers."""
    home = repeat_plan.stored.folder.parent.parent
    cwd = working_folder(repeat_plan.stored.run, home)
    with own_stdout(), chdir(cwd):  # relative paths in eval files start from the folder of the original run
        if repeat_plan.stored.has_given_answers:
            return run_in_own_loop(_judge_given(repeat_plan, options, stop))
        change = limit_evaluators(repeat_plan.names)
        plan = load_stored_plan(
            repeat_plan.stored.run,
            home,
            cwd=cwd,
            env=os.environ,
            change_inputs=change,
            ignores_cache=True,
            backend="local",
        )
        _refuse_unpriced(plan, options)
        plan = replace(plan, options=replace(plan.options, budget_usd=options.budget_usd), gates=(), baseline=None)
        rejudge_plan = make_rejudge_plan(plan, repeat_plan.stored, repeat_plan.answer_lengths, repeats=options.repeats)
        rows = run_in_own_loop(_run_judges(plan, rejudge_plan, stop, run_id=repeat_plan.stored.run_id))
    return rows, rejudge_plan.found


async def _judge_given(
    repeat_plan: _RepeatPlan, options: CheckOptions, stop: StopSignal
) -> tuple[Sequence[CaseResult], set[ResultKey]]:
    progress = ProgressLine(sys.stderr, len(repeat_plan.answer_lengths) * options.repeats, now=time.monotonic)
    tasks = answer_tasks_of(repeat_plan.stored, only=repeat_plan.names)
    try:
        with stopping_on_signals(stop):
            return await judge_repeatedly(
                tasks,
                repeat_plan.stored,
                repeat_plan.answer_lengths,
                repeats=options.repeats,
                budget_usd=options.budget_usd,
                stop=stop,
                on_row=lambda row: progress.notify(RowFinished(row)),
            )
    finally:
        progress.close()


def _refuse_unpriced(plan: RunPlan, options: CheckOptions) -> None:
    """Refuse a budget if the cost of a judge is unknown, because it could not be enforced. Raises ConfigError."""
    if options.budget_usd is None:
        return
    for judge in plan.judges:
        problem = budget_problem(judge, plan.specs.providers.get(judge.provider), plan.prices)
        if problem is not None:
            raise ConfigError(problem)


async def _run_judges(
    plan: RunPlan, rejudge_plan: RejudgePlan, stop: StopSignal, *, run_id: str
) -> Sequence[CaseResult]:
    clock = make_clock()
    store = MemoryStore(run_id, clock=clock)
    rng = random.Random(plan.options.seed)  # noqa: S311 - jitter of retries, not security
    line = ProgressLine(sys.stderr, len(rejudge_plan.chosen) * rejudge_plan.repeats, now=time.monotonic)
    try:
        with stopping_on_signals(stop):
            await run_plan(
                plan, store=store, observers=(line,), clock=clock, rng=rng, stop=stop, resume_plan=rejudge_plan
            )
    finally:
        line.close()
    return store.results


def _make_checks(repeat_plan: _RepeatPlan, rows: Sequence[CaseResult], options: CheckOptions) -> list[JudgeCheck]:
    judged = results_by_evaluator(rows, repeat_plan.names, repeat_plan.answer_lengths, repeats=options.repeats)
    calls = dict.fromkeys(repeat_plan.names, 0)
    for row in rows:
        for name, count, _ in evaluators_with_judges(row):
            calls[name] = calls.get(name, 0) + count
    return [
        JudgeCheck(
            run_id=repeat_plan.stored.run_id,
            evaluator=name,
            consistency=consistency(answers, options.repeats),
            answers=answers,
            calls=calls[name],
        )
        for name, answers in judged.items()
        if answers
    ]


def _print_checks(checks: Sequence[JudgeCheck], file: Path, options: CheckOptions) -> None:
    output: JsonObject = {"schema": CHECK_SCHEMA, "checks": [check_to_json(each) for each in checks]}
    try:
        write_by_rename(file, pretty(output))
    except OSError as error:
        raise StorageError(f"cannot write {file}: {error.strerror or error}") from error
    write_documents(options.outputs, [check_document(each) for each in checks])
    if options.as_json:
        click.echo(printable_json(pretty_json(output)))
        return
    print_documents([check_document(each, max_findings=MAX_INCONSISTENT) for each in checks])
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
