"""McNemar's test: cases that pass in one run and fail in the other."""

import math

_NEGLIGIBLE = 1e-18


def mcnemar_test(gained: int, lost: int) -> float:
    """Return the exact two-sided p of `gained` cases that pass only now and `lost` that passed only before.

    Each changed case went either way by a fair coin: twice the lower tail of a binomial, at most 1. Cases that did not
    change say nothing. McNemar 1947; the exact form is Liddell's, 1983.
    """
    fewer, changed = min(gained, lost), gained + lost
    if not changed:
        return 1.0
    term = math.exp(_log_chance(fewer, changed))
    terms = [term]
    for count in range(fewer, 0, -1):
        term *= count / (changed - count + 1)
        if term < _NEGLIGIBLE * terms[0]:
            break
        terms.append(term)
    return min(1.0, 2 * math.fsum(terms))


def _log_chance(count: int, changed: int) -> float:
    ways = math.lgamma(changed + 1) - math.lgamma(count + 1) - math.lgamma(changed - count + 1)
    return ways - changed * math.log(2)
