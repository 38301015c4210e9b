"""pass@k and pass^k of repeated cases."""

import math


def pass_at(k: int, passed: int, trials: int) -> float | None:
    """Return the probability that any of `k` trials of a case passes, from `passed` of its `trials`; unbiased.

    1 - C(trials - passed, k) / C(trials, k): the share of all choices of k trials that contain a pass. None with fewer
    than k trials. Chen et al. 2021, arXiv:2107.03374.

    >>> pass_at(2, passed=1, trials=4)
    0.5
    """
    if not 0 < k <= trials:
        return None
    return 1 - math.comb(trials - passed, k) / math.comb(trials, k)


def pass_hat(k: int, passed: int, trials: int) -> float | None:
    """Return the probability that all of `k` trials of a case pass (pass^k), from `passed` of its `trials`; unbiased.

    C(passed, k) / C(trials, k): the share of all choices of k trials in which all pass. None with fewer than k trials.
    Yao et al. 2024, arXiv:2406.12045.

    >>> pass_hat(2, passed=3, trials=4)
    0.5
    """
    if not 0 < k <= trials:
        return None
    return math.comb(passed, k) / math.comb(trials, k)
