"""Agreement of annotators beyond chance: Cohen's kappa, weighted kappa, Fleiss' kappa, Krippendorff's alpha.

Each coefficient is 1.0 for complete agreement, 0.0 for the agreement expected by chance, and negative for less. It is
None if it is undefined: if no item was judged twice, or if all labels are the same, since the agreement expected by
chance is then complete, too.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

Label: TypeAlias = str | bool | float
"""An annotator's judgement of one item: a category, or a number."""

Weights: TypeAlias = Literal["linear", "quadratic"]
Metric: TypeAlias = Literal["nominal", "ordinal", "interval"]


def cohen_kappa(first: Sequence[Label | None], second: Sequence[Label | None]) -> float | None:
    """Return Cohen's kappa of two annotators, (po - pe) / (1 - pe): all disagreements have the same weight.

    `po` is the share of items on which both agree, `pe` the share expected by chance: the sum over the labels of the
    product of both annotators' shares. The sequences hold the labels of the same items in the same order; an item
    without a label of one annotator (None) is left out. Raises ValueError for different lengths. Cohen 1960,
    Educational and Psychological Measurement 20(1).

    >>> cohen_kappa(["yes", "yes", "no", "no"], ["yes", "no", "no", "no"])
    0.5
    """
    pairs = _labelled_pairs(first, second)
    firsts, seconds = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    observed = len(pairs) * sum(one != other for one, other in pairs)
    expected = len(pairs) ** 2 - sum(count * seconds[label] for label, count in firsts.items())
    return 1 - observed / expected if expected else None


def weighted_kappa(
    first: Sequence[Label | None],
    second: Sequence[Label | None],
    *,
    weights: Weights = "quadratic",
    order: Sequence[Label] | None = None,
) -> float | None:
    """Return the weighted kappa of two annotators, 1 - sum(w * o) / sum(w * e): near misses have less weight.

    `o` and `e` are the observed and the expected share of each pair of labels, `w` the distance between the two, or its
    square. `order` lists the labels from one end to the other, one step apart; without it the labels are numbers with
    their own distances. Raises ValueError for a label that is not in `order` and for unknown weights. Cohen 1968,
    Psychological Bulletin 70(4).

    >>> weighted_kappa(["low", "high"], ["low", "mid"], order=["low", "mid", "high"])
    0.6666666666666667
    """
    _check_choice("weights", weights, get_args(Weights))
    pairs = _labelled_pairs(first, second)
    positions = _positions((label for pair in pairs for label in pair), order)
    power = 1 if weights == "linear" else 2
    observed = math.fsum(abs(positions[one] - positions[other]) ** power for one, other in pairs)
    firsts, seconds = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    expected = math.fsum(
        first_count * second_count * abs(positions[one] - positions[other]) ** power
        for one, first_count in firsts.items()
        for other, second_count in seconds.items()
    )
    return 1 - len(pairs) * observed / expected if expected else None


def krippendorff_alpha(
    units: Iterable[Sequence[Label | None]], *, metric: Metric = "nominal", order: Sequence[Label] | None = None
) -> float | None:
    """Return Krippendorff's alpha of any number of annotators, 1 - Do / De; items may lack some labels.

    Each of `units` is one item, with the label of each annotator, None where one gave none; an item with fewer than two
    labels is not counted. `Do` is the mean difference within items, `De` that of all labels pooled. The difference of
    two labels is given by `metric`: `nominal` 0 or 1; `interval` their squared distance, for numbers; `ordinal` the
    squared distance of their ranks, for numbers or the labels in `order`. Raises ValueError for a label that is not in
    `order` and for an unknown metric. Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability".

    >>> krippendorff_alpha([["yes", "yes"], ["no", "no", None], ["yes", "no"]])
    0.4444444444444444
    """
    _check_choice("metric", metric, get_args(Metric))
    judged = [unit for unit in map(_given_labels, units) if len(unit) > 1]
    labels = [label for unit in judged for label in unit]
    if metric == "nominal":
        expected = _unequal_pairs(labels)
        observed = math.fsum(_unequal_pairs(unit) / (len(unit) - 1) for unit in judged)
    else:
        positions = _positions(labels, order)
        if metric == "ordinal":
            positions = _ranks(labels, positions)
        expected = _scatter([positions[label] for label in labels])
        observed = math.fsum(_scatter([positions[label] for label in unit]) / (len(unit) - 1) for unit in judged)
    return 1 - (len(labels) - 1) * observed / expected if expected else None


def fleiss_kappa(units: Iterable[Sequence[Label]]) -> float | None:
    """Return Fleiss' kappa, (P - Pe) / (1 - Pe), of items that the same number of annotators judged.

    `P` is the mean share of pairs of annotators who agree on an item, `Pe` the sum of the squared shares of the labels.
    Each of `units` holds the labels of one item. Raises ValueError if their numbers differ. Fleiss 1971, Psychological
    Bulletin 76(5).

    >>> fleiss_kappa([["yes", "yes"], ["no", "no"]])
    1.0
    """
    judged = [_given_labels(labels) for labels in units]
    label_counts = {len(labels) for labels in judged}
    if len(label_counts) > 1:
        raise ValueError(
            f"all items must have the same number of labels; they have {', '.join(map(str, label_counts))}"
        )
    annotators = label_counts.pop() if label_counts else 0
    if annotators < 2:  # noqa: PLR2004 - one annotator cannot agree
        return None
    pooled = Counter(label for labels in judged for label in labels)
    total = len(judged) * annotators
    by_chance = math.fsum((count / total) ** 2 for count in pooled.values())
    observed = 1 - sum(map(_unequal_pairs, judged)) / (len(judged) * annotators * (annotators - 1))
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


def _labelled_pairs(first: Sequence[Label | None], second: Sequence[Label | None]) -> list[tuple[Label, Label]]:
    if len(first) != len(second):
        raise ValueError(f"the annotators judged {len(first)} and {len(second)} items; both must list the same items")
    return [(one, other) for one, other in zip(first, second, strict=True) if one is not None and other is not None]


def _unequal_pairs(labels: Sequence[Label]) -> float:
    """Return the number of ordered pairs of labels that differ."""
    return len(labels) ** 2 - sum(count**2 for count in Counter(labels).values())


def _scatter(numbers: Sequence[float]) -> float:
    """Return the sum of squared differences over all ordered pairs, which is 2 n times that around the mean."""
    mean = math.fsum(numbers) / len(numbers) if numbers else 0.0
    return 2 * len(numbers) * math.fsum((number - mean) ** 2 for number in numbers)


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


def _ranks(labels: Sequence[Label], positions: Mapping[Label, float]) -> Mapping[Label, float]:
    """Return each label's mean rank / n, whose squared distance is Krippendorff's ordinal difference."""
    counts = Counter(labels)
    ranks: dict[Label, float] = {}
    below = 0
    for label in sorted(counts, key=positions.__getitem__):
        ranks[label] = (below + counts[label] / 2) / len(labels)
        below += counts[label]
    return ranks
