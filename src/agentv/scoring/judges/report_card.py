"""Agreement of a judge with people, and of people with each other: rates, kappa and alpha, with intervals."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from msgspec import Struct

from agentv.scoring.counting.case_sums import case_of
from agentv.scoring.judges.agreement import Label, Metric, cohen_kappa, fleiss_kappa, krippendorff_alpha, weighted_kappa
from agentv.scoring.judges.draws import kish_n, label_weights
from agentv.scoring.judges.labels import LabelledAnswer, label_value
from agentv.scoring.statistics.distributions import t_quantile
from agentv.scoring.statistics.intervals import effective_n, rate_interval, wilson_bounds
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.records.answer import ResultKey
from agentv.types.records.label import Label as HumanLabel
from agentv.types.scales import EvaluationCriteria
from agentv.types.summaries import LEVEL, Confusion, Interval, IntervalMethod, MeasuredRate

_ROUNDING = 1e-9


def kappa_error(
    cases: Sequence[int], first: Sequence[float], second: Sequence[float], weights: Sequence[float] | None = None
) -> float | None:
    """Return the standard error of the quadratically weighted kappa of two annotators (Cohen's kappa for 0 and 1).

    `cases` has the case number of each pair of scores: pairs of one case form one cluster. `weights` are those of the
    pairs, such as 1 / the probability with which each was drawn. By linearization: the variance is the sum of the
    squares of the clusters' first-order influences on kappa, times m / (m - 1) for m clusters. With clusters of one
    pair it equals that of Fleiss, Cohen & Everitt 1969, Psychological Bulletin 72(5), with n - 1. None below two
    clusters, and if kappa is undefined.
    """
    weights = [1.0] * len(first) if weights is None else weights
    total = math.fsum(weights)
    clusters: dict[int, float] = dict.fromkeys(cases, 0.0)
    if len(clusters) < 2:  # noqa: PLR2004 - one cluster has no variance
        return None
    firsts, seconds = _weights_by_value(first, weights), _weights_by_value(second, weights)
    to_first = {value: _mean_squared_distance(value, firsts, total) for value in seconds}
    to_second = {value: _mean_squared_distance(value, seconds, total) for value in firsts}
    distances = [weight * (one - other) ** 2 for one, other, weight in zip(first, second, weights, strict=True)]
    observed = math.fsum(distances) / total
    expected = math.fsum(weight * to_second[value] for value, weight in firsts.items()) / total
    if expected <= _ROUNDING:
        return None
    for case, one, other, weight in zip(cases, first, second, weights, strict=True):
        by_chance = to_second[one] + to_first[other] - 2 * expected
        influence = observed / expected**2 * by_chance - ((one - other) ** 2 - observed) / expected
        clusters[case] += weight * influence
    cluster_count = len(clusters)
    return math.sqrt(cluster_count / (cluster_count - 1) * math.fsum(each * each for each in clusters.values())) / total


def kappa_interval(
    kappa: float, error: float | None, clusters: int, method: IntervalMethod = "linearized-t", level: float = LEVEL
) -> Interval | None:
    """Return Student's interval of a kappa, computed on Fisher's scale, artanh, which keeps it within -1 and 1.

    None if the standard error is unknown or 0, or kappa is 1 or -1, for instance when all agree.
    """
    if error is None or error <= _ROUNDING or not -1 < kappa < 1:
        return None
    half_width = t_quantile((1 + level) / 2, clusters - 1) * error / (1 - kappa * kappa)
    middle = math.atanh(kappa)
    return Interval(math.tanh(middle - half_width), math.tanh(middle + half_width), method, level)


def _mean_squared_distance(value: float, others: Mapping[float, float], total: float) -> float:
    return math.fsum(weight * (value - other) ** 2 for other, weight in others.items()) / total


def _weights_by_value(values: Sequence[float], weights: Sequence[float]) -> dict[float, float]:
    sums: dict[float, float] = {}
    for value, weight in zip(values, weights, strict=True):
        sums[value] = sums.get(value, 0.0) + weight
    return sums


MIN_CASES_FOR_INTERVAL = 20
"""The minimum number of cases for an interval, except those of sensitivity and specificity."""
MIN_CASES_PER_VERDICT = 10
"""An interval of sensitivity needs this number of cases that people pass, one of specificity as many that they fail.

A rate is corrected only if both numbers are reached.
"""
MIN_CASES_FOR_KAPPA = 5
"""The minimum number of cases of the rarer verdict, pass or fail, for an interval of kappa."""
GOOD_ANSWERS_PER_VERDICT = 50
"""The number of answers that people pass, and of those that they fail, in a good calibration.

The intervals of sensitivity and specificity then reach about 10 points to each side.
"""
_TWO_VALUES = 2


class AgreementRate(Struct, frozen=True):
    """A share of answers with its interval; `rate` is None without any answer."""

    rate: MeasuredRate | None
    cases: int = 0
    interval: Interval | None = None


class Kappa(Struct, frozen=True):
    """A kappa, or Krippendorff's alpha, with its interval; None where it is undefined."""

    value: float | None
    interval: Interval | None = None


class PeopleAgreement(Struct, frozen=True):
    """The agreement among people on the answers that several of them judged."""

    annotators: int
    answers: int
    """The number of these answers."""
    alike: float | None = None
    """The share of pairs of annotators with the same verdict on an answer."""
    alpha: float | None = None
    """Krippendorff's alpha of verdicts."""
    scale_alpha: float | None = None
    """Krippendorff's alpha of scores, None if people give only two different scores."""


class ReportCard(Struct, frozen=True):
    """A judge compared with people."""

    cases: int
    confusion: Confusion
    accuracy: AgreementRate
    sensitivity: AgreementRate
    specificity: AgreementRate
    kappa: Kappa
    weighted: Kappa | None
    """The quadratically weighted kappa of scores, None if people give only two different scores."""
    people: PeopleAgreement
    split: int = 0
    """The number of answers without a majority verdict, which only `people` covers."""

    @property
    def can_correct(self) -> bool:
        """True if rates may be corrected with this calibration."""
        return min(self.sensitivity.cases, self.specificity.cases) >= MIN_CASES_PER_VERDICT


def report_card(answers: Sequence[LabelledAnswer]) -> ReportCard:
    """Return the comparison of a judge with people on answers that both judged."""
    decided = [each for each in answers if each.people_passed is not None]
    passed = [each for each in decided if each.people_passed]
    failed = [each for each in decided if not each.people_passed]
    cases = len({case_of(each.slot) for each in decided})
    cases_of_rarer_verdict = min(len({case_of(each.slot) for each in side}) for side in (passed, failed))
    has_enough_cases = cases >= MIN_CASES_FOR_INTERVAL and cases_of_rarer_verdict >= MIN_CASES_FOR_KAPPA
    verdicts = [(float(each.judge.passed), float(bool(each.people_passed))) for each in decided]
    scores = [(each.judge.value, each.people_value) for each in decided]
    is_graded = len({opinion.value for each in answers for opinion in each.people}) > _TWO_VALUES
    return ReportCard(
        cases=cases,
        confusion=confusion_of(decided),
        accuracy=_rate(
            decided, (each.judge.passed == each.people_passed for each in decided), min_cases=MIN_CASES_FOR_INTERVAL
        ),
        sensitivity=_rate(passed, (each.judge.passed for each in passed)),
        specificity=_rate(failed, (not each.judge.passed for each in failed)),
        kappa=_kappa(decided, verdicts, has_enough_cases=has_enough_cases),
        weighted=_kappa(decided, scores, has_enough_cases=has_enough_cases) if is_graded else None,
        people=_people_agreement(answers),
        split=len(answers) - len(decided),
    )


def confusion_of(decided: Iterable[LabelledAnswer]) -> Confusion:
    """Return the numbers of answers by the verdicts of the judge and of the majority of people."""
    counts = Counter((each.judge.passed, bool(each.people_passed)) for each in decided)
    return Confusion(counts[True, True], counts[True, False], counts[False, True], counts[False, False])


def disagreements(answers: Sequence[LabelledAnswer]) -> list[LabelledAnswer]:
    """Return the answers on which the judge and the majority of people disagree, the largest difference first."""
    disputed = [each for each in answers if each.people_passed not in (None, each.judge.passed)]
    return sorted(disputed, key=lambda each: -abs(each.judge.value - each.people_value))


def advice(card: ReportCard) -> list[str]:
    """Return what is missing for a good calibration, one sentence each."""
    lines = []
    sides = (("passes", card.confusion.people_pass), ("fails", card.confusion.people_fail))
    good = GOOD_ANSWERS_PER_VERDICT
    missing = [f"{good - count} more {kind}" for kind, count in sides if count < good]
    if missing:
        lines.append(
            f"a good calibration has {good} answers that people pass and {good} that they fail: "
            f"label {' and '.join(missing)}"
        )
    if card.cases < MIN_CASES_FOR_INTERVAL:
        lines.append(f"fewer than {MIN_CASES_FOR_INTERVAL} cases: no intervals of agreement and kappa")
    if not card.can_correct:
        lines.append(
            f"fewer than {MIN_CASES_PER_VERDICT} cases that people pass, or that they fail: no rate is corrected"
        )
    if card.people.annotators <= 1 or not card.people.answers:
        lines.append("no answer was judged by two people, so it is not known how well people agree with each other")
    return lines


def _rate(
    answers: Sequence[LabelledAnswer], properties: Iterable[bool], *, min_cases: int = MIN_CASES_PER_VERDICT
) -> AgreementRate:
    """Return the share of answers for which the property, given for each answer, is true."""
    pairs = list(zip(answers, properties, strict=True))
    found = rate_of_cases(((case_of(each.slot), 1, float(is_true)) for each, is_true in pairs), min_cases=min_cases)
    if found.rate is None or len({each.weight for each in answers}) == 1:
        return found
    rate = weighted_rate([(case_of(each.slot), each.weight, float(is_true)) for each, is_true in pairs])
    if found.interval is None:
        return AgreementRate(MeasuredRate(rate.value, rate.rows, found.rate.effective_n), found.cases)
    deviate = t_quantile((1 + LEVEL) / 2, max(rate.effective_n - 1, 1.0))
    bounds = wilson_bounds(rate.value, rate.effective_n, deviate)
    return AgreementRate(rate, found.cases, Interval(*bounds, "weighted-wilson"))


def weighted_rate(answers: Sequence[tuple[int, float, float]]) -> MeasuredRate:
    """Return the weighted rate of answers, each given by its case, its weight, and 1 for a pass or 0.

    The effective sample size follows from the linearized variance of the ratio, by case; it is Kish's if all answers
    are alike, and at most the number of cases. Cochran 1977, Sampling Techniques, 6.3.
    """
    total = math.fsum(weight for _, weight, _ in answers)
    value = min(max(math.fsum(weight * passed for _, weight, passed in answers) / total, 0.0), 1.0)
    influences: defaultdict[int, float] = defaultdict(float)
    for case, weight, passed in answers:
        influences[case] += weight * (passed - value)
    variance = math.fsum(each * each for each in influences.values()) / total**2
    count = value * (1 - value) / variance if variance > _ROUNDING**2 else kish_n([weight for _, weight, _ in answers])
    return MeasuredRate(value, len(answers), min(count, float(len(influences))))


def rate_of_cases(
    counted: Iterable[tuple[int, int, float]], *, min_cases: int = MIN_CASES_FOR_INTERVAL
) -> AgreementRate:
    """Return the share of items with a property, given as (case, number of items, number of items with the property).

    There is no interval below `min_cases` cases.
    """
    by_case: dict[int, tuple[int, float]] = {}
    for case, items, true_items in counted:
        rows, total = by_case.get(case, (0, 0.0))
        by_case[case] = (rows + items, total + true_items)
    clusters = [each for each in by_case.values() if each[0]]
    if not clusters:
        return AgreementRate(None)
    moments = ClusterMoments.of_clusters(clusters)
    has_enough_cases = moments.clusters >= min_cases
    count = effective_n(moments) if has_enough_cases else 0.0
    interval = rate_interval(moments) if has_enough_cases else None
    return AgreementRate(MeasuredRate(moments.mean, moments.rows, count), moments.clusters, interval)


def _kappa(
    answers: Sequence[LabelledAnswer], scores: Sequence[tuple[float, float]], *, has_enough_cases: bool
) -> Kappa:
    """Return the weighted kappa of scores, given as those of the judge and of people."""
    judge, people = [score for score, _ in scores], [score for _, score in scores]
    weights = [each.weight for each in answers]
    value = weighted_kappa(judge, people, item_weights=weights)
    if value is None or not has_enough_cases:
        return Kappa(value)
    cases = [case_of(each.slot) for each in answers]
    return Kappa(value, kappa_interval(value, kappa_error(cases, judge, people, weights), len(set(cases))))


def _people_agreement(answers: Sequence[LabelledAnswer]) -> PeopleAgreement:
    shared = [each for each in answers if len(each.people) > 1]
    annotators = len({opinion.annotator for each in answers for opinion in each.people})
    if not shared:
        return PeopleAgreement(annotators, 0)
    pairs = [
        (each.weight, *pair) for each in shared for pair in combinations((opinion.passed for opinion in each.people), 2)
    ]
    scores: list[list[Label | None]] = [[opinion.value for opinion in each.people] for each in shared]
    verdicts: list[list[Label | None]] = [[opinion.passed for opinion in each.people] for each in shared]
    is_graded = len({score for scores_of_answer in scores for score in scores_of_answer}) > _TWO_VALUES
    weights = [each.weight for each in shared]
    return PeopleAgreement(
        annotators=annotators,
        answers=len(shared),
        alike=math.fsum(weight for weight, one, other in pairs if one == other) / math.fsum(each[0] for each in pairs),
        alpha=krippendorff_alpha(verdicts, item_weights=weights),
        scale_alpha=krippendorff_alpha(scores, metric="interval", item_weights=weights) if is_graded else None,
    )


MAX_JACKKNIFE_GROUPS = 200
"""The maximum number of groups of cases in a jackknife, which leaves out each group once."""
_ORDINAL_SCALES = frozenset({"likert5"})
_METRICS_WITH_ORDER = frozenset({"ordinal", "interval"})


class UnreadableLabel(Struct, frozen=True):
    """A label whose score cannot be read, with the reason."""

    label: HumanLabel
    message: str


class LabelledUnit(Struct, frozen=True):
    """An answer, with the label of each annotator for one criterion; `tags` are those of its case."""

    slot: ResultKey
    tags: tuple[str, ...]
    labels: Mapping[str, Label]
    weight: float = 1.0
    """1 / the probability with which the answer was drawn, up to a common factor."""


class CriterionLabels(Struct, frozen=True):
    """The labels of one criterion: one unit for each answer, and the metric of their scale."""

    criterion: str
    metric: Metric
    units: tuple[LabelledUnit, ...]


class PairAgreement(Struct, frozen=True):
    """Cohen's kappa of two annotators on the answers that both judged."""

    first: str
    second: str
    answers: int
    kappa: float | None


class AnnotatorAgreement(Struct, frozen=True):
    """The agreement of annotators on a criterion."""

    criterion: str
    tag: str | None
    """The tag of the cases whose answers are included; None for all cases."""
    metric: Metric
    annotators: tuple[str, ...]
    answers: int
    """The number of answers with two labels or more."""
    cases: int
    alike: float | None
    """The share of pairs of labels of an answer that are equal."""
    alpha: Kappa
    fleiss: float | None
    """Fleiss' kappa over the `complete` answers."""
    complete: int
    """The number of answers that all annotators labelled."""
    pairs: tuple[PairAgreement, ...]


def criterion_labels(
    labels: Iterable[HumanLabel],
    tags: Mapping[ResultKey, tuple[str, ...]],
    criteria: Mapping[tuple[str, str], Sequence[EvaluationCriteria]],
    *,
    metric: Metric | None = None,
) -> tuple[list[CriterionLabels], list[UnreadableLabel]]:
    """Return the labels by criterion, and those that cannot be read.

    Skipped and golden answers are left out, and if some answers of a criterion were drawn, those that were picked.

    Without `metric`, that of the criterion's scale is used. With `nominal` a score is a category, and any text is
    readable. With `ordinal` or `interval`, labels on a custom scale have no order: the first one of each criterion is
    also returned among the unreadable labels, for all of them.
    """
    labels = [label for label in labels if not label.golden]
    weights = {
        name: label_weights(label for label in labels if label.criterion == name)
        for name in {label.criterion for label in labels}
    }
    by_criterion: dict[str, dict[tuple[ResultKey, int], dict[str, Label]]] = {}
    defined: dict[str, EvaluationCriteria | None] = {}
    unreadable: list[UnreadableLabel] = []
    unordered: dict[str, UnreadableLabel] = {}
    for label in labels:
        if label.is_skip or (weights[label.criterion] and label.draw is None):
            continue
        known = criteria.get((label.slot.suite, label.slot.eval_id), ())
        criterion = next((each for each in known if each.name == label.criterion), None)
        try:
            value: Label | None = label_value(label.score, criterion)
        except ValueError as error:
            if metric != "nominal":
                unreadable.append(UnreadableLabel(label, str(error)))
                continue
            value = None
        if value is None and metric in _METRICS_WITH_ORDER:
            message = f"{label.score!r} is on a custom scale, which has no order"
            unordered.setdefault(label.criterion, UnreadableLabel(label, message))
        defined.setdefault(label.criterion, criterion)
        by_answer = by_criterion.setdefault(label.criterion, {})
        category = str(label.score).strip().casefold() if value is None else value
        by_answer.setdefault((label.slot, label.answer_seq), {})[label.annotator] = category
    found = []
    for name, by_answer in by_criterion.items():
        units = tuple(
            LabelledUnit(slot, tags.get(slot, ()), each, weights[name].get((slot, seq), 1.0))
            for (slot, seq), each in by_answer.items()
        )
        found.append(CriterionLabels(name, metric or _metric_of_scale(defined[name], units), units))
    return found, [*unreadable, *unordered.values()]


def _metric_of_scale(criterion: EvaluationCriteria | None, units: Sequence[LabelledUnit]) -> Metric:
    values = {value for unit in units for value in unit.labels.values()}
    if len(values) <= _TWO_VALUES or any(isinstance(value, str) for value in values):
        return "nominal"
    if criterion is not None and (criterion.labels or criterion.scale in _ORDINAL_SCALES):
        return "ordinal"
    return "interval"


def annotator_agreement(given: CriterionLabels, tag: str | None = None) -> AnnotatorAgreement:
    """Return the agreement on a criterion, over all answers, or over those to cases with `tag`."""
    units = [unit for unit in given.units if tag is None or tag in unit.tags]
    shared = [unit for unit in units if len(unit.labels) > 1]
    names = tuple(sorted({name for unit in units for name in unit.labels}))
    complete = [unit for unit in shared if len(unit.labels) == len(names)]
    alike = [(unit.weight, one == other) for unit in shared for one, other in combinations(unit.labels.values(), 2)]
    clusters = _by_case(shared)
    alpha = _alpha(shared, given.metric)
    return AnnotatorAgreement(
        criterion=given.criterion,
        tag=tag,
        metric=given.metric,
        annotators=names,
        answers=len(shared),
        cases=len(clusters),
        alike=math.fsum(weight for weight, is_alike in alike if is_alike) / math.fsum(weight for weight, _ in alike)
        if alike
        else None,
        alpha=Kappa(alpha, None if alpha is None else _alpha_interval(alpha, clusters, given.metric)),
        fleiss=fleiss_kappa(
            [list(unit.labels.values()) for unit in complete], item_weights=[unit.weight for unit in complete]
        ),
        complete=len(complete),
        pairs=tuple(_pair_agreements(units)),
    )


def _alpha(units: Sequence[LabelledUnit], metric: Metric) -> float | None:
    labels, weights = [list(unit.labels.values()) for unit in units], [unit.weight for unit in units]
    return krippendorff_alpha(labels, metric=metric, item_weights=weights)


def _by_case(units: Iterable[LabelledUnit]) -> list[list[LabelledUnit]]:
    clusters: dict[int, list[LabelledUnit]] = {}
    for unit in units:
        clusters.setdefault(case_of(unit.slot), []).append(unit)
    return list(clusters.values())


def _alpha_interval(alpha: float, clusters: Sequence[Sequence[LabelledUnit]], metric: Metric) -> Interval | None:
    """Return the interval of alpha; None for too few cases, or if the labels do not vary enough."""
    if len(clusters) < MIN_CASES_FOR_INTERVAL:
        return None
    groups = min(len(clusters), MAX_JACKKNIFE_GROUPS)
    return kappa_interval(alpha, _jackknife_error(clusters, metric), groups, "jackknife-t")


def _jackknife_error(clusters: Sequence[Sequence[LabelledUnit]], metric: Metric) -> float | None:
    """Return the standard error of alpha by the jackknife over cases: each group of cases is left out once."""
    groups = min(len(clusters), MAX_JACKKNIFE_GROUPS)
    alphas: list[float] = []
    for group in range(groups):
        rest = [unit for index, cluster in enumerate(clusters) if index % groups != group for unit in cluster]
        alpha = _alpha(rest, metric)
        if alpha is None:
            return None
        alphas.append(alpha)
    mean = math.fsum(alphas) / groups
    return math.sqrt((groups - 1) / groups * math.fsum((each - mean) ** 2 for each in alphas))


def _pair_agreements(units: Iterable[LabelledUnit]) -> Iterator[PairAgreement]:
    judged: defaultdict[str, dict[int, Label]] = defaultdict(dict)
    weights: list[float] = []
    for answer, unit in enumerate(units):
        weights.append(unit.weight)
        for annotator, label in unit.labels.items():
            judged[annotator][answer] = label
    for (first, one), (second, other) in combinations(sorted(judged.items()), 2):
        if both := one.keys() & other.keys():
            kappa = cohen_kappa(
                [one[answer] for answer in both],
                [other[answer] for answer in both],
                item_weights=[weights[answer] for answer in both],
            )
            yield PairAgreement(first, second, len(both), kappa)
