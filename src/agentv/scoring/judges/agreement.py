"""Agreement of annotators beyond chance: Cohen's kappa, weighted kappa, Fleiss' kappa, Krippendorff's alpha.

Each coefficient is 1.0 for complete agreement, 0.0 for the agreement expected by chance, and negative for less. It is
None if it is undefined: if no item was judged twice, or if all labels are the same, since the agreement expected by
chance is then complete, too.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Literal, TypeAlias, TypeVar, get_args

Label: TypeAlias = str | bool | float
"""An annotator's judgement of one item: a category, or a number."""

Weights: TypeAlias = Literal["linear", "quadratic"]
Metric: TypeAlias = Literal["nominal", "ordinal", "interval"]


def cohen_kappa(
    first: Sequence[Label | None], second: Sequence[Label | None], *, item_weights: Sequence[float] | None = None
) -> float | None:
    """Return Cohen's kappa of two annotators, (po - pe) / (1 - pe): all disagreements have the same weight.

    `po` is the share of items on which both agree, `pe` the share expected by chance: the sum over the labels of the
    product of both annotators' shares. The sequences hold the labels of the same items in the same order; an item
    without a label of one annotator (None) is left out. `item_weights` are those of the items, such as 1 / the
    probability with which each was drawn; None: all the same. Raises ValueError for different lengths. Cohen 1960,
    Educational and Psychological Measurement 20(1).

    >>> cohen_kappa(["yes", "yes", "no", "no"], ["yes", "no", "no", "no"])
    0.5
    """
    return _kappa(_labelled_pairs(first, second, item_weights), lambda one, other: float(one != other))


def _kappa(pairs: Sequence[tuple[Label, Label, float]], distance: Callable[[Label, Label], float]) -> float | None:
    """Return 1 - the mean observed distance of weighted pairs of labels / the mean distance expected by chance."""
    firsts, seconds = _sums((one, weight) for one, _, weight in pairs), _sums((two, weight) for _, two, weight in pairs)
    total = math.fsum(weight for _, _, weight in pairs)
    observed = math.fsum(weight * distance(one, other) for one, other, weight in pairs)
    expected = math.fsum(
        first_count * second_count * distance(one, other)
        for one, first_count in firsts.items()
        for other, second_count in seconds.items()
    )
    return 1 - total * observed / expected if expected else None


def _sums(weighted: Iterable[tuple[Label, float]]) -> dict[Label, float]:
    sums: dict[Label, float] = {}
    for label, weight in weighted:
        sums[label] = sums.get(label, 0.0) + weight
    return sums


def weighted_kappa(
    first: Sequence[Label | None],
    second: Sequence[Label | None],
    *,
    weights: Weights = "quadratic",
    order: Sequence[Label] | None = None,
    item_weights: Sequence[float] | None = None,
) -> float | None:
    """Return the weighted kappa of two annotators, 1 - sum(w * o) / sum(w * e): near misses have less weight.

    `o` and `e` are the observed and the expected share of each pair of labels, `w` the distance between the two, or its
    square. `order` lists the labels from one end to the other, one step apart; without it the labels are numbers with
    their own distances. `item_weights` are as in `cohen_kappa`. Raises ValueError for a label that is not in `order`
    and for unknown weights. Cohen 1968, Psychological Bulletin 70(4).

    >>> weighted_kappa(["low", "high"], ["low", "mid"], order=["low", "mid", "high"])
    0.6666666666666667
    """
    _check_choice("weights", weights, get_args(Weights))
    pairs = _labelled_pairs(first, second, item_weights)
    positions = _positions((label for one, other, _ in pairs for label in (one, other)), order)
    power = 1 if weights == "linear" else 2
    return _kappa(pairs, lambda one, other: abs(positions[one] - positions[other]) ** power)


def krippendorff_alpha(
    units: Iterable[Sequence[Label | None]],
    *,
    metric: Metric = "nominal",
    order: Sequence[Label] | None = None,
    item_weights: Sequence[float] | None = None,
) -> float | None:
    """Return Krippendorff's alpha of any number of annotators, 1 - Do / De; items may lack some labels.

    Each of `units` is one item, with the label of each annotator, None where one gave none; an item with fewer than two
    labels is not counted. `Do` is the mean difference within items, `De` that of all labels pooled. The difference of
    two labels is given by `metric`: `nominal` 0 or 1; `interval` their squared distance, for numbers; `ordinal` the
    squared distance of their ranks, for numbers or the labels in `order`. `item_weights` are those of the units, such
    as 1 / the probability with which each was drawn. Raises ValueError for a label that is not in `order` and for an
    unknown metric. Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability".

    >>> krippendorff_alpha([["yes", "yes"], ["no", "no", None], ["yes", "no"]])
    0.4444444444444444
    """
    _check_choice("metric", metric, get_args(Metric))
    judged = [(unit, weight) for unit, weight in _weighted(map(_given_labels, units), item_weights) if len(unit) > 1]
    # Weights that are 1 on average leave n - 1, the correction for small samples, as it is.
    scale = len(judged) / math.fsum(weight for _, weight in judged) if judged else 1.0
    counts = _sums((label, weight * scale) for unit, weight in judged for label in unit)
    if metric == "nominal":
        distance = _unequal
    else:
        positions = _positions(counts, order)
        if metric == "ordinal":
            positions = _ranks(counts, positions)
        distance = partial(_squared, positions)
    expected = distance(counts)
    observed = math.fsum(weight * scale * distance(Counter(unit)) / (len(unit) - 1) for unit, weight in judged)
    return 1 - (math.fsum(counts.values()) - 1) * observed / expected if expected else None


def fleiss_kappa(units: Iterable[Sequence[Label]], *, item_weights: Sequence[float] | None = None) -> float | None:
    """Return Fleiss' kappa, (P - Pe) / (1 - Pe), of items that the same number of annotators judged.

    `P` is the mean share of pairs of annotators who agree on an item, `Pe` the sum of the squared shares of the labels.
    Each of `units` holds the labels of one item; `item_weights` as in `krippendorff_alpha`. Raises ValueError if their
    numbers differ. Fleiss 1971, Psychological Bulletin 76(5).

    >>> fleiss_kappa([["yes", "yes"], ["no", "no"]])
    1.0
    """
    judged = list(_weighted(map(_given_labels, units), item_weights))
    label_counts = {len(labels) for labels, _ in judged}
    if len(label_counts) > 1:
        raise ValueError(
            f"all items must have the same number of labels; they have {', '.join(map(str, label_counts))}"
        )
    annotators = label_counts.pop() if label_counts else 0
    if annotators < 2:  # noqa: PLR2004 - one annotator cannot agree
        return None
    pooled = _sums((label, weight) for labels, weight in judged for label in labels)
    total = math.fsum(weight for _, weight in judged) * annotators
    by_chance = math.fsum((count / total) ** 2 for count in pooled.values())
    unequal = math.fsum(weight * _unequal(Counter(labels)) for labels, weight in judged)
    observed = 1 - unequal / (total * (annotators - 1))
    return (observed - by_chance) / (1 - by_chance) if len(pooled) > 1 else None


def _check_choice(name: str, given: str, allowed: Sequence[str]) -> None:
    """Raise ValueError for an unknown value, which would otherwise be treated like the last of `allowed`."""
    if given not in allowed:
        raise ValueError(f"`{name}` must be {' or '.join(map(repr, allowed))}, not {given!r}")


def _given_labels(labels: Sequence[Label | None]) -> list[Label]:
    """Return the labels of an item that are not None. Raises ValueError for a string, which is a sequence, too."""
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise ValueError(f"each item must be a list of its labels, one for each annotator, not {labels!r}")  # noqa: TRY004
    return [label for label in labels if label is not None]


T = TypeVar("T")


def _weighted(items: Iterable[T], weights: Sequence[float] | None) -> Iterator[tuple[T, float]]:
    """Yield each item with its weight. Raises ValueError if their numbers differ."""
    if weights is None:
        return zip(items, repeat(1.0), strict=False)
    listed = list(items)
    if len(listed) != len(weights):
        raise ValueError(f"`item_weights` has {len(weights)} weights for {len(listed)} items; give one for each item")
    return zip(listed, weights, strict=True)


def _labelled_pairs(
    first: Sequence[Label | None], second: Sequence[Label | None], weights: Sequence[float] | None = None
) -> list[tuple[Label, Label, float]]:
    if len(first) != len(second):
        raise ValueError(f"the annotators judged {len(first)} and {len(second)} items; both must list the same items")
    return [
        (one, other, weight)
        for (one, other), weight in _weighted(zip(first, second, strict=True), weights)
        if one is not None and other is not None
    ]


def _unequal(counts: Mapping[Label, float]) -> float:
    """Return the number of ordered pairs of labels that differ, from the count of each label."""
    return math.fsum(counts.values()) ** 2 - math.fsum(count**2 for count in counts.values())


def _squared(positions: Mapping[Label, float], counts: Mapping[Label, float]) -> float:
    """Return the sum of squared differences over all ordered pairs, which is 2 n times that around the mean."""
    total = math.fsum(counts.values())
    mean = math.fsum(count * positions[label] for label, count in counts.items()) / total if total else 0.0
    return 2 * total * math.fsum(count * (positions[label] - mean) ** 2 for label, count in counts.items())


def _positions(labels: Iterable[Label], order: Sequence[Label] | None) -> Mapping[Label, float]:
    """Return the position of each label: its index in `order`, else its number scaled to 0..1.

    The unit of positions does not influence the coefficients.
    """
    if order is not None:
        known = {label: float(position) for position, label in enumerate(order)}
        unknown = {label for label in labels if label not in known}
        if unknown:
            raise ValueError(f"{min(map(repr, unknown))} is not one of the labels {', '.join(map(str, order))}")
        return known
    numbers = {label: _number(label) for label in labels}
    low, high = min(numbers.values(), default=0.0), max(numbers.values(), default=0.0)
    # Halved first, because the difference of two finite numbers may overflow.
    span = high / 2 - low / 2
    return {label: (number / 2 - low / 2) / span if span else 0.0 for label, number in numbers.items()}


def _number(label: Label) -> float:
    if isinstance(label, str) or not math.isfinite(label):
        raise ValueError(f"{label!r} is not a finite number; give `order`, the labels from one end to the other")
    return float(label)


def _ranks(counts: Mapping[Label, float], positions: Mapping[Label, float]) -> Mapping[Label, float]:
    """Return each label's mean rank / n, whose squared distance is Krippendorff's ordinal difference."""
    total = math.fsum(counts.values())
    ranks: dict[Label, float] = {}
    below = 0.0
    for label in sorted(counts, key=positions.__getitem__):
        ranks[label] = (below + counts[label] / 2) / total
        below += counts[label]
    return ranks
