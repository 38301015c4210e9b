"""The pass rates of a stored run by the labels that people gave to its answers."""

from collections import defaultdict
from collections.abc import Collection, Iterator

from msgspec import Struct, field

from agentv.reports.text.amounts import percent_text
from agentv.scoring.counting.tallies import Tally
from agentv.scoring.judges.labels import result_opinion
from agentv.scoring.judges.people_rate import (
    JudgedAnswer,
    JudgedTotals,
    PeopleRate,
    PeopleVerdicts,
    people_rate,
    people_verdicts,
)
from agentv.scoring.statistics.intervals import effective_n
from agentv.storage.run.judgements import JudgedRow, read_judged_rows
from agentv.storage.run.stored import StoredRun
from agentv.types.records.label import OVERALL, Label
from agentv.types.scales import EvaluationCriteria
from agentv.types.summaries import CorrectedRate

HUMAN = "human"
"""The type of evaluators whose scores are human labels."""

PICKED = (
    "the labelled answers were picked, not drawn at random, so that the rate may describe them only; "
    "draw answers for review, or import a random sample with --random-sample"
)


def criteria_by_case(run: StoredRun, case_ids: Collection[str]) -> dict[tuple[str, str], list[EvaluationCriteria]]:
    """Return the criteria of the cases with these ids, by suite and id."""
    return {
        (case.suite, case.eval_id): [EvaluationCriteria.from_dict(each) for each in case.criteria]
        for case in run.cases()
        if case.eval_id in case_ids
    }


def load_label_rates(run: StoredRun) -> list[CorrectedRate]:
    """Return the pass rate of each target by each judge whose criterion has labels of this run.

    Without labels, no other file of the run is read. Raises StorageError for a file that cannot be read.
    """
    labels = [label for label in run.labels() if not label.golden]
    if not labels:
        return []
    people = load_people_verdicts(run, labels)
    judged: dict[tuple[str, str, str], _Judged] = {}
    for row in read_judged_rows(run):
        for evaluator, criterion, value, passed in row_opinions(row, people):
            key = (evaluator, criterion, row.slot.target)
            found = judged.setdefault(key, _Judged())
            found.add(row, value, passed=passed, people=people[criterion])
    return [rate for key, each in judged.items() if (rate := each.rate(key, people[key[1]])) is not None]


def load_people_verdicts(run: StoredRun, labels: Collection[Label]) -> dict[str, PeopleVerdicts]:
    """Return what people said about the answers of a run, by criterion."""
    named = run.cases_named({(label.slot.suite, label.slot.eval_id) for label in labels})
    criteria = {
        (case.suite, case.eval_id): [EvaluationCriteria.from_dict(each) for each in case.criteria] for case in named
    }
    by_criterion: defaultdict[str, list[Label]] = defaultdict(list)
    for label in labels:
        by_criterion[label.criterion].append(label)
    return {criterion: people_verdicts(each, criteria) for criterion, each in by_criterion.items()}


def row_opinions(row: JudgedRow, criteria: Collection[str]) -> Iterator[tuple[str, str, float, bool]]:
    """Yield evaluator, criterion, value and verdict of each opinion on one of the criteria in a row with an answer.

    The verdict of the row is the opinion on `OVERALL`, if no evaluator has one.
    """
    if row.answer_seq is None:
        return
    has_overall = False
    for judgement in row.judgements:
        result = judgement.result
        for criterion in criteria if result.type != HUMAN else ():
            opinion = result_opinion(result, criterion)
            if opinion is not None:
                has_overall |= criterion == OVERALL
                yield result.name, criterion, opinion.value, opinion.passed
    if OVERALL in criteria and not has_overall and row.verdict is not None:
        yield OVERALL, OVERALL, float(row.verdict == "pass"), row.verdict == "pass"


class _Judged(Struct):
    """A judge's verdicts on the answers of one target, with those that people labelled."""

    tally: Tally = field(default_factory=Tally)
    labelled: list[JudgedAnswer] = field(default_factory=list)

    def add(self, row: JudgedRow, value: float, *, passed: bool, people: PeopleVerdicts) -> None:
        """Count a verdict on the answer of a row."""
        self.tally.add("pass" if passed else "fail", value, case=row.cluster)
        answer = JudgedAnswer(row.slot, -1 if row.answer_seq is None else row.answer_seq, row.cluster, passed)
        if answer.name in people.passed:
            self.labelled.append(answer)

    def rate(self, key: tuple[str, str, str], people: PeopleVerdicts) -> CorrectedRate | None:
        """Return the corrected rate; None if no answer has a label with a verdict."""
        moments = self.tally.passes()
        totals = JudgedTotals(moments.rows, round(moments.total), effective_n(moments))
        found = people_rate(self.labelled, people, totals)
        if found is None:
            return None
        evaluator, criterion, target = key
        return CorrectedRate(
            evaluator=evaluator,
            criterion=criterion,
            target=target,
            judged=moments.rows,
            raw=moments.mean,
            raw_interval=self.tally.pass_rate_interval,
            labels=found.labels,
            rate=found.rate,
            interval=found.interval,
            source="labels",
            skipped=found.skipped,
            bounds=found.bounds if found.skipped else None,
            is_picked=found.is_picked,
            warnings=tuple(_warnings(found)),
        )


def _warnings(found: PeopleRate) -> Iterator[str]:
    if found.is_picked:
        yield PICKED
    if found.unlabelled:
        share = percent_text(found.unlabelled)
        yield f"no answer with one of the judge's verdicts is labelled, {share} of all; half of them count as passes"
    if found.ignored:
        verb = (
            "label of an answer that was picked is" if found.ignored == 1 else "labels of answers that were picked are"
        )
        yield f"{found.ignored:,} {verb} not counted"
