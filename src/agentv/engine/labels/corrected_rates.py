"""The pass rates of a stored run's judges, corrected for the judges' measured errors."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.labels.label_rates import load_label_rates
from agentv.scoring.counting.tallies import Tally
from agentv.scoring.judges.labels import result_opinion
from agentv.scoring.keys.identity import score_key, stored_expectation_key
from agentv.scoring.statistics.intervals import corrected_interval, corrected_rate, effective_n
from agentv.storage.judgements.calibrations import load_calibrations
from agentv.storage.run.judgements import Judgement, read_judgements
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import StorageError
from agentv.types.results import RunReport
from agentv.types.summaries import Calibration, CorrectedRate, MeasuredRate

_MIN_CASES_FOR_INTERVAL = 2

Expectations = Mapping[tuple[str, str], Sequence[str]]
"""The expectation keys of each case, by suite and id."""


def load_corrected_rates(run: StoredRun) -> tuple[CorrectedRate, ...]:
    """Return the pass rate of each target by each judge that can be corrected.

    Labels of this run come first, if they were drawn at random; then a calibration of the judge, which was measured on
    labels of another run; then labels that were picked. Raises StorageError for a file that cannot be read.
    """
    rates: dict[tuple[str, str, str], CorrectedRate] = {}
    for rate in (*load_label_rates(run), *_calibrated_rates(run)):
        key = (rate.evaluator, rate.criterion, rate.target)
        known = rates.get(key)
        if known is None or (known.is_picked and rate.rate is not None):
            rates[key] = rate
    return tuple(rates.values())


def _calibrated_rates(run: StoredRun) -> tuple[CorrectedRate, ...]:
    """Return the rates that are corrected by a calibration.

    Calibrations are those of the `.agentv` folder that contains the run; without any, no file of the run is read.
    """
    calibrations = load_calibrations(run.folder.resolve().parent.parent)
    if not calibrations:
        return ()
    # Newest first: of several calibrations that apply to equally many rows, the newest is used.
    newest_first = sorted(calibrations, key=lambda each: each.labelled_at, reverse=True)
    judges = [_CalibratedJudge(calibration) for calibration in newest_first]
    judgements = read_judgements(run, {each.evaluator for each in calibrations})
    first = next(judgements, None)
    if first is None:  # then no case of the run is read
        return ()
    expectations = _expectations(run)
    for judgement in chain((first,), judgements):
        for each in judges:
            each.add(judgement, expectations)
    return tuple(_best_rates(judges))


def corrected_or_note(run: StoredRun) -> tuple[tuple[CorrectedRate, ...], tuple[str, ...]]:
    """Return the rates, or a note why there are none: a broken calibration must not prevent the report of a run."""
    try:
        return load_corrected_rates(run), ()
    except StorageError as error:
        return (), (uncorrected_note(error),)


def with_corrected_rates(report: RunReport, folder: Path) -> RunReport:
    """Return the report of the run in `folder` with its corrected rates, or with a note why there are none."""
    try:
        run = open_run(folder)
    except StorageError as error:
        return replace(report, notes=(*report.notes, uncorrected_note(error)))
    rates, notes = corrected_or_note(run)
    return replace(report, corrected=rates, notes=(*report.notes, *notes))


def uncorrected_note(error: StorageError) -> str:
    """Return the note about calibrations that cannot be read."""
    return f"pass rates are not corrected: {error}"


def _expectations(run: StoredRun) -> Expectations:
    keys: dict[tuple[str, str], tuple[str, ...]] = {}
    for case in run.cases():
        name = (case.suite, case.eval_id)
        keys[name] = (*keys.get(name, ()), stored_expectation_key(case))
    return keys


def _best_rates(judges: Sequence["_CalibratedJudge"]) -> Iterator[CorrectedRate]:
    """Yield the rate of each judge and target, with the calibration that applies to the largest number of its rows."""
    judged_targets = {(each.evaluator, each.criterion, target): None for each in judges for target in each.tallies}
    for evaluator, criterion, target in judged_targets:
        fitting = [each for each in judges if (each.evaluator, each.criterion) == (evaluator, criterion)]
        best = max(fitting, key=lambda each: each.matched.get(target, 0))
        if best.matched.get(target):
            yield best.rate(target)


class _CalibratedJudge(Struct):
    """A judge's verdicts by target, and for each target the number of verdicts that the calibration applies to."""

    calibration: Calibration
    tallies: dict[str, Tally] = field(default_factory=dict)
    matched: dict[str, int] = field(default_factory=dict)

    @property
    def evaluator(self) -> str:
        return self.calibration.evaluator

    @property
    def criterion(self) -> str:
        return self.calibration.criterion

    def add(self, judgement: Judgement, expectations: Expectations) -> None:
        """Count a judgement if this judge made it."""
        key, result = judgement.slot, judgement.result
        opinion = result_opinion(result, self.criterion) if result.name == self.evaluator else None
        if opinion is None:
            return
        tally = self.tallies.setdefault(key.target, Tally())
        tally.add("pass" if opinion.passed else "fail", opinion.value, case=judgement.cluster)
        applies = self._applies_to(judgement, expectations.get((key.suite, key.eval_id), ()))
        self.matched[key.target] = self.matched.get(key.target, 0) + applies

    def _applies_to(self, judgement: Judgement, expectations: Sequence[str]) -> bool:
        """Return True if the judge had a setup of the calibration when it made a judgement."""
        return any(
            judgement.score_key == score_key(answer=judgement.answer_key, expectation=expectation, setup_digest=setup)
            for expectation in expectations
            for setup in self.calibration.setups
        )

    def rate(self, target: str) -> CorrectedRate:
        """Return a target's rate, with the reason if it cannot be corrected."""
        tally, calibration = self.tallies[target], self.calibration
        moments = tally.passes()
        uncorrected = CorrectedRate(
            evaluator=calibration.evaluator,
            criterion=calibration.criterion,
            target=target,
            judged=moments.rows,
            raw=moments.mean,
            raw_interval=tally.pass_rate_interval,
            labels=calibration.confusion.answers,
        )
        unmatched = moments.rows - self.matched[target]
        if unmatched:
            return replace(
                uncorrected,
                reason=f"{unmatched:,} of {moments.rows:,} results were not judged with the calibrated settings",
            )
        if calibration.sensitivity is None or calibration.specificity is None:
            return replace(uncorrected, reason="too few labels")
        rate = corrected_rate(moments.mean, calibration.sensitivity.value, calibration.specificity.value)
        if rate is None:
            return replace(uncorrected, reason="the judge is no better than chance")
        if moments.clusters < _MIN_CASES_FOR_INTERVAL:
            return replace(uncorrected, rate=rate)
        measured = MeasuredRate(moments.mean, moments.rows, effective_n(moments))
        return replace(
            uncorrected,
            rate=rate,
            interval=corrected_interval(measured, calibration.sensitivity, calibration.specificity),
        )
