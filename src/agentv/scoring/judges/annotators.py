"""Agreement of annotators on the answers of a run, for each criterion, with intervals."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from msgspec import Struct

from agentv.scoring.counting.case_sums import case_of
from agentv.scoring.judges.agreement import Label, Metric, cohen_kappa, fleiss_kappa, krippendorff_alpha
from agentv.scoring.judges.report_card import FEWEST, Kappa, kappa_interval
from agentv.scoring.results.criteria import normalize
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.records.answer import ResultKey
from agentv.types.records.label import HumanScore
from agentv.types.records.label import Label as HumanLabel
from agentv.types.summaries import Interval

READABLE = "a number from 0 to 1, 4/5, 85 %, yes, no, pass, fail, true or false"
MOST_GROUPS = 200
"""The most groups of cases of a jackknife: each is left out once."""
_ORDINAL_SCALES = frozenset({"likert5"})
_METRICS_WITH_ORDER = frozenset({"ordinal", "interval"})
_TWO = 2


class UnreadableLabel(Struct, frozen=True):
    """A score that is neither on the scale of its criterion nor a known form, with the reason."""

    label: HumanLabel
    message: str


class LabelledUnit(Struct, frozen=True):
    """An answer with the judgements of a criterion by annotator; `tags` are those of its case."""

    slot: ResultKey
    tags: tuple[str, ...]
    said: Mapping[str, Label]


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
    """How far annotators agree on a criterion; `tag` is None for all answers.

    `answers` are those with two judgements or more, `alike` the share of their pairs with equal judgements. `fleiss` is
    over the `complete` answers, which all annotators judged.
    """

    criterion: str
    tag: str | None
    metric: Metric
    annotators: tuple[str, ...]
    answers: int
    cases: int
    alike: float | None
    alpha: Kappa
    fleiss: float | None
    complete: int
    pairs: tuple[PairAgreement, ...]


def label_value(score: HumanScore, criterion: EvaluationCriteria | None) -> float | None:
    """Return a score as 0..1, on the scale of its criterion; without one as written: 4/5, 85 %, yes, 0.8.

    None on a custom scale, which has no order. Raises ValueError, naming what is readable.
    """
    if criterion is not None:
        return normalize(score, criterion)
    try:
        return normalize(score, EvaluationCriteria("label", scale="numeric", min=0.0, max=1.0))
    except ValueError:
        raise ValueError(
            f"{score!r} cannot be read; it must be {READABLE}, or define the criterion, with its scale, under "
            "`criteria` of the eval file"
        ) from None


def criterion_labels(
    labels: Iterable[HumanLabel],
    tags: Mapping[ResultKey, tuple[str, ...]],
    criteria: Mapping[tuple[str, str], Sequence[EvaluationCriteria]],
    *,
    metric: Metric | None = None,
) -> tuple[list[CriterionLabels], list[UnreadableLabel]]:
    """Return the labels by criterion, and those that cannot be read.

    `metric` None: that of the criterion's scale. With `nominal` a score is a category, and any text is readable. With
    another metric the first label of each criterion on a custom scale, which has no order, is unreadable.
    """
    said: dict[str, dict[tuple[ResultKey, int], dict[str, Label]]] = {}
    defined: dict[str, EvaluationCriteria | None] = {}
    unreadable: list[UnreadableLabel] = []
    unordered: dict[str, UnreadableLabel] = {}
    for label in labels:
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
        by_answer = said.setdefault(label.criterion, {})
        category = str(label.score).strip().casefold() if value is None else value
        by_answer.setdefault((label.slot, label.answer_seq), {})[label.annotator] = category
    found = []
    for name, by_answer in said.items():
        units = tuple(LabelledUnit(slot, tags.get(slot, ()), each) for (slot, _), each in by_answer.items())
        found.append(CriterionLabels(name, metric or _metric(defined[name], units), units))
    return found, [*unreadable, *unordered.values()]


def _metric(criterion: EvaluationCriteria | None, units: Sequence[LabelledUnit]) -> Metric:
    values = {value for unit in units for value in unit.said.values()}
    if len(values) <= _TWO or any(isinstance(value, str) for value in values):
        return "nominal"
    if criterion is not None and (criterion.labels or criterion.scale in _ORDINAL_SCALES):
        return "ordinal"
    return "interval"


def annotator_agreement(given: CriterionLabels, tag: str | None = None) -> AnnotatorAgreement:
    """Return the agreement on a criterion, over all answers or those of the cases with a tag."""
    units = [unit for unit in given.units if tag is None or tag in unit.tags]
    several = [unit for unit in units if len(unit.said) > 1]
    names = tuple(sorted({name for unit in units for name in unit.said}))
    complete = [list(unit.said.values()) for unit in several if len(unit.said) == len(names)]
    alike = [one == other for unit in several for one, other in combinations(unit.said.values(), 2)]
    clusters = _by_case(several)
    alpha = _alpha(several, given.metric)
    return AnnotatorAgreement(
        criterion=given.criterion,
        tag=tag,
        metric=given.metric,
        annotators=names,
        answers=len(several),
        cases=len(clusters),
        alike=sum(alike) / len(alike) if alike else None,
        alpha=Kappa(alpha, None if alpha is None else _interval(alpha, clusters, given.metric)),
        fleiss=fleiss_kappa(complete),
        complete=len(complete),
        pairs=tuple(_pairs(units)),
    )


def _alpha(units: Iterable[LabelledUnit], metric: Metric) -> float | None:
    return krippendorff_alpha([list(unit.said.values()) for unit in units], metric=metric)


def _by_case(units: Iterable[LabelledUnit]) -> list[list[LabelledUnit]]:
    clusters: dict[int, list[LabelledUnit]] = {}
    for unit in units:
        clusters.setdefault(case_of(unit.slot), []).append(unit)
    return list(clusters.values())


def _interval(alpha: float, clusters: Sequence[Sequence[LabelledUnit]], metric: Metric) -> Interval | None:
    """Return the interval of alpha; None for fewer than `FEWEST` cases, or if the labels do not vary enough."""
    if len(clusters) < FEWEST:
        return None
    return kappa_interval(alpha, _jackknife_error(clusters, metric), min(len(clusters), MOST_GROUPS), "jackknife-t")


def _jackknife_error(clusters: Sequence[Sequence[LabelledUnit]], metric: Metric) -> float | None:
    """Return the standard error of alpha by the jackknife over cases: each group of cases is left out once."""
    groups = min(len(clusters), MOST_GROUPS)
    left: list[float] = []
    for group in range(groups):
        rest = [unit for place, cluster in enumerate(clusters) if place % groups != group for unit in cluster]
        alpha = _alpha(rest, metric)
        if alpha is None:
            return None
        left.append(alpha)
    mean = math.fsum(left) / groups
    return math.sqrt((groups - 1) / groups * math.fsum((each - mean) ** 2 for each in left))


def _pairs(units: Iterable[LabelledUnit]) -> Iterator[PairAgreement]:
    judged: defaultdict[str, dict[int, Label]] = defaultdict(dict)
    for answer, unit in enumerate(units):
        for annotator, label in unit.said.items():
            judged[annotator][answer] = label
    for (first, one), (second, other) in combinations(sorted(judged.items()), 2):
        if both := one.keys() & other.keys():
            kappa = cohen_kappa([one[answer] for answer in both], [other[answer] for answer in both])
            yield PairAgreement(first, second, len(both), kappa)
