"""Agreement of a judge with people, and of people with each other: rates, kappa and alpha, with intervals."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from msgspec import Struct

from agentv.scoring.counting.case_sums import case_of
from agentv.scoring.judges.agreement import Label, Metric, cohen_kappa, fleiss_kappa, krippendorff_alpha, weighted_kappa
from agentv.scoring.judges.labels import LabelledAnswer, label_value
from agentv.scoring.statistics.distributions import t_quantile
from agentv.scoring.statistics.intervals import effective_n, rate_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.records.answer import ResultKey
from agentv.types.records.label import Label as HumanLabel
from agentv.types.scales import EvaluationCriteria
from agentv.types.summaries import LEVEL, Confusion, Interval, IntervalMethod, MeasuredRate

_ROUNDING = 1e-9


def kappa_error(cases: Sequence[int], first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the standard error of the quadratically weighted kappa of two annotators (Cohen's kappa for 0 and 1).

    `cases` has the case number of each pair of scores: pairs of one case form one cluster. By linearization: the
    variance is the sum of the squares of the clusters' first-order influences on kappa, times m / (m - 1) for m
    clusters. With clusters of one pair it equals that of Fleiss, Cohen & Everitt 1969, Psychological Bulletin 72(5),
    with n - 1. None below two clusters, and if kappa is undefined.
    """
    count = len(first)
    clusters: dict[int, float] = dict.fromkeys(cases, 0.0)
    firsts, seconds = Counter(first), Counter(second)
    to_first = {value: _mean_squared_distance(value, firsts, count) for value in seconds}
    to_second = {value: _mean_squared_distance(value, seconds, count) for value in firsts}
    if len(clusters) < 2:  # noqa: PLR2004 - one cluster has no variance
        return None
    observed = math.fsum((one - other) ** 2 for one, other in zip(first, second, strict=True)) / count
    expected = math.fsum(value_count * to_second[value] for value, value_count in firsts.items()) / count
    if expected <= _ROUNDING:
        return None
    for case, one, other in zip(cases, first, second, strict=True):
        by_chance = to_second[one] + to_first[other] - 2 * expected
        clusters[case] += observed / expected**2 * by_chance - ((one - other) ** 2 - observed) / expected
    cluster_count = len(clusters)
    return math.sqrt(cluster_count / (cluster_count - 1) * math.fsum(each * each for each in clusters.values())) / count


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


def _mean_squared_distance(value: float, others: Mapping[float, int], count: int) -> float:
    return math.fsum(value_count * (value - other) ** 2 for other, value_count in others.items()) / count


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
    counted = [(case_of(each.slot), 1, float(is_true)) for each, is_true in zip(answers, properties, strict=True)]
    return rate_of_cases(counted, min_cases=min_cases)


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
    value = weighted_kappa(judge, people)
    if value is None or not has_enough_cases:
        return Kappa(value)
    cases = [case_of(each.slot) for each in answers]
    return Kappa(value, kappa_interval(value, kappa_error(cases, judge, people), len(set(cases))))


def _people_agreement(answers: Sequence[LabelledAnswer]) -> PeopleAgreement:
    shared = [each for each in answers if len(each.people) > 1]
    annotators = len({opinion.annotator for each in answers for opinion in each.people})
    if not shared:
        return PeopleAgreement(annotators, 0)
    pairs = [pair for each in shared for pair in combinations((opinion.passed for opinion in each.people), 2)]
    scores: list[list[Label | None]] = [[opinion.value for opinion in each.people] for each in shared]
    verdicts: list[list[Label | None]] = [[opinion.passed for opinion in each.people] for each in shared]
    is_graded = len({score for scores_of_answer in scores for score in scores_of_answer}) > _TWO_VALUES
    return PeopleAgreement(
        annotators=annotators,
        answers=len(shared),
        alike=sum(one == other for one, other in pairs) / len(pairs),
        alpha=krippendorff_alpha(verdicts),
        scale_alpha=krippendorff_alpha(scores, metric="interval") if is_graded else None,
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
    """Return the labels by criterion, and those that cannot be read. Skipped and golden answers are left out.

    So are verdicts that settle a disagreement.

    Without `metric`, that of the criterion's scale is used. With `nominal` a score is a category, and any text is
    readable. With `ordinal` or `interval`, labels on a custom scale have no order: the first one of each criterion is
    also returned among the unreadable labels, for all of them.
    """
    by_criterion: dict[str, dict[tuple[ResultKey, int], dict[str, Label]]] = {}
    defined: dict[str, EvaluationCriteria | None] = {}
    unreadable: list[UnreadableLabel] = []
    unordered: dict[str, UnreadableLabel] = {}
    for label in labels:
        if label.is_skip or label.golden or label.resolution:
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
        units = tuple(LabelledUnit(slot, tags.get(slot, ()), each) for (slot, _), each in by_answer.items())
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
    complete = [list(unit.labels.values()) for unit in shared if len(unit.labels) == len(names)]
    alike = [one == other for unit in shared for one, other in combinations(unit.labels.values(), 2)]
    clusters = _by_case(shared)
    alpha = _alpha(shared, given.metric)
    return AnnotatorAgreement(
        criterion=given.criterion,
        tag=tag,
        metric=given.metric,
        annotators=names,
        answers=len(shared),
        cases=len(clusters),
        alike=sum(alike) / len(alike) if alike else None,
        alpha=Kappa(alpha, None if alpha is None else _alpha_interval(alpha, clusters, given.metric)),
        fleiss=fleiss_kappa(complete),
        complete=len(complete),
        pairs=tuple(_pair_agreements(units)),
    )


def _alpha(units: Iterable[LabelledUnit], metric: Metric) -> float | None:
    return krippendorff_alpha([list(unit.labels.values()) for unit in units], metric=metric)


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
    for answer, unit in enumerate(units):
        for annotator, label in unit.labels.items():
            judged[annotator][answer] = label
    for (first, one), (second, other) in combinations(sorted(judged.items()), 2):
        if both := one.keys() & other.keys():
            kappa = cohen_kappa([one[answer] for answer in both], [other[answer] for answer in both])
            yield PairAgreement(first, second, len(both), kappa)
