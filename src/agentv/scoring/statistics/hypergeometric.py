"""Whether two groups of rows have the same share of something rare: Fisher's exact test."""

import math

_NEGLIGIBLE = 1e-18


def fisher_test(first: int, first_marked: int, second: int, second_marked: int) -> float:
    """Return the exact two-sided p of `first_marked` of `first` rows and `second_marked` of `second`.

    Twice the smaller tail of the hypergeometric distribution, at most 1: given how many rows are marked, they fall
    into the two groups by chance. Fisher 1935, JRSS 98.
    """
    marked, rows = first_marked + second_marked, first + second
    if not 0 < marked < rows:
        return 1.0
    expected = marked * first / rows
    if first_marked < expected:
        return min(1.0, 2 * _lower_tail(first_marked, first, second, marked))
    return min(1.0, 2 * _lower_tail(second_marked, second, first, marked))


def _lower_tail(count: int, group: int, others: int, marked: int) -> float:
    """Return the chance that at most `count` of the `marked` rows are in the group."""
    least = max(0, marked - others)
    term = _chance(count, group, others, marked)
    terms = [term]
    for each in range(count, least, -1):
        term *= each * (others - marked + each) / ((marked - each + 1) * (group - each + 1))
        if term < _NEGLIGIBLE * terms[0]:
            break
        terms.append(term)
    return math.fsum(terms)


def _chance(count: int, group: int, others: int, marked: int) -> float:
    return math.exp(_log_ways(group, count) + _log_ways(others, marked - count) - _log_ways(group + others, marked))


def _log_ways(rows: int, marked: int) -> float:
    return math.lgamma(rows + 1) - math.lgamma(marked + 1) - math.lgamma(rows - marked + 1)
