"""The pass rate that people would find, from labels of some answers and a judge's verdicts on all of them."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from agentv.scoring.judges.draws import AnswerName, kish_n, label_weights
from agentv.scoring.judges.labels import label_passed, settled_labels
from agentv.scoring.statistics.intervals import effective_n
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.scoring.statistics.strata import Stratum, stratified_interval, stratified_rate
from agentv.types.records.answer import ResultKey
from agentv.types.records.label import Label
from agentv.types.scales import EvaluationCriteria
from agentv.types.summaries import Interval

MIN_LABELS_FOR_INTERVAL = 20
"""The minimum number of labelled cases for an interval."""

Criteria = Mapping[tuple[str, str], Sequence[EvaluationCriteria]]
"""The criteria of each case, by suite and id."""


class JudgedAnswer(Struct, frozen=True):
    """A judge's verdict on an answer."""

    slot: ResultKey
    answer_seq: int
    cluster: int
    """The number of the case or session; answers of one cluster are not independent."""
    passed: bool

    @property
    def name(self) -> AnswerName:
        """The identity of the answer."""
        return self.slot, self.answer_seq


class JudgedTotals(Struct, frozen=True):
    """A judge's verdicts on all answers, labelled or not."""

    answers: int
    passes: int
    effective_n: float
    """The effective sample size of the answers, as those of one case or session are correlated."""


class PeopleVerdicts(Struct, frozen=True):
    """What people said about answers by one criterion."""

    passed: Mapping[AnswerName, bool | None]
    """The majority verdict; None if people skipped the answer, were unsure, or were evenly divided."""
    weights: Mapping[AnswerName, float]
    """The weights of the answers that were drawn."""


class PeopleRate(Struct, frozen=True):
    """The pass rate by people's labels."""

    rate: float
    interval: Interval | None
    labels: int
    """The number of labelled answers with a verdict."""
    skipped: int
    """The number of labelled answers without one."""
    bounds: tuple[float, float]
    """The rate if people failed all skipped answers, and if they passed all of them."""
    is_picked: bool
    """True if the labelled answers were not drawn at random, so that they may differ from the others."""
    unlabelled: float = 0.0
    """The share of answers whose verdict of the judge no labelled answer has; half of them count as passes."""
    ignored: int = 0
    """The number of labelled answers that were picked, and are not counted because others were drawn."""


def people_verdicts(labels: Iterable[Label], criteria: Criteria) -> PeopleVerdicts:
    """Return the verdicts in labels of one criterion. Labels that cannot be read are left out."""
    counted = [label for label in labels if not label.golden]
    votes: defaultdict[AnswerName, list[bool]] = defaultdict(list)
    for label in settled_labels(counted):
        found = votes[label.slot, label.answer_seq]
        passed = label_passed(label, criteria.get((label.slot.suite, label.slot.eval_id), ()))
        if passed is not None:
            found.append(passed)
    passed_by_name = {name: _majority(each) for name, each in votes.items()}
    return PeopleVerdicts(passed_by_name, label_weights(counted))


def _majority(votes: Sequence[bool]) -> bool | None:
    passes = sum(votes)
    return None if 2 * passes == len(votes) else 2 * passes > len(votes)


def people_rate(labelled: Sequence[JudgedAnswer], people: PeopleVerdicts, totals: JudgedTotals) -> PeopleRate | None:
    """Return the rate of all judged answers by people's labels; None without any verdict of people.

    `labelled` are the judged answers that people labelled. The labels count within the judge's verdicts, and the
    judge's verdicts on all answers give the shares: labels that were drawn from its fails and its passes with different
    probabilities, and a judge of any quality, give no bias.
    """
    drawn = [each for each in labelled if each.name in people.weights]
    is_census = len(labelled) == totals.answers
    counted = labelled if is_census else drawn or labelled
    answered = [each for each in counted if people.passed[each.name] is not None]
    if not answered:
        return None
    is_weighted = bool(drawn) and not is_census
    weights = {each.name: people.weights[each.name] if is_weighted else 1.0 for each in counted}
    strata, failed, passed = (
        _strata(totals, _with_verdict(counted, people.passed, unknown=unknown), weights)
        for unknown in (None, False, True)
    )
    has_interval = len({each.cluster for each in answered}) >= MIN_LABELS_FOR_INTERVAL
    return PeopleRate(
        rate=stratified_rate(strata),
        interval=stratified_interval(strata, totals.effective_n) if has_interval else None,
        labels=len(answered),
        skipped=len(counted) - len(answered),
        bounds=(stratified_rate(failed), stratified_rate(passed)),
        is_picked=not drawn and not is_census,
        unlabelled=math.fsum(each.share for each in strata if not each.n),
        ignored=len(labelled) - len(counted),
    )


def _with_verdict(
    counted: Iterable[JudgedAnswer], passed: Mapping[AnswerName, bool | None], *, unknown: bool | None
) -> list[tuple[JudgedAnswer, bool]]:
    """Return the answers with their verdicts; `unknown` is the verdict on skipped ones, None to leave them out."""
    found = ((each, passed[each.name]) for each in counted)
    settled = ((each, unknown if verdict is None else verdict) for each, verdict in found)
    return [(each, verdict) for each, verdict in settled if verdict is not None]


def _strata(
    totals: JudgedTotals, labelled: Sequence[tuple[JudgedAnswer, bool]], weights: Mapping[AnswerName, float]
) -> list[Stratum]:
    by_verdict: defaultdict[bool, list[tuple[int, float, bool]]] = defaultdict(list)
    for each, passed in labelled:
        by_verdict[each.passed].append((each.cluster, weights[each.name], passed))
    sizes = {True: totals.passes, False: totals.answers - totals.passes}
    return [weighted_stratum(size / totals.answers, by_verdict[verdict]) for verdict, size in sizes.items() if size]


def weighted_stratum(share: float, labelled: Sequence[tuple[int, float, bool]]) -> Stratum:
    """Return a stratum from its labelled answers, each with its cluster, its weight and whether it counts as a pass.

    Weights that differ and answers of one cluster reduce the effective number of answers.
    """
    if not labelled:
        return Stratum(share, 0.0, 0.0)
    weights = [weight for _, weight, _ in labelled]
    rate = math.fsum(weight for _, weight, passed in labelled if passed) / math.fsum(weights)
    by_cluster: dict[int, tuple[int, float]] = {}
    for cluster, _, passed in labelled:
        rows, total = by_cluster.get(cluster, (0, 0.0))
        by_cluster[cluster] = (rows + 1, total + passed)
    independent = effective_n(ClusterMoments.of_clusters(by_cluster.values())) / len(labelled)
    return Stratum(share, rate, kish_n(weights) * independent)
