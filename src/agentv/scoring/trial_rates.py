"""pass@k and pass^k of a run: what each case's trials say, averaged over the cases."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from agentv.scoring.case_sums import CaseSum
from agentv.scoring.statistics.intervals import mean_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.scoring.statistics.trials import pass_at, pass_hat
from agentv.scoring.tallies import Tally
from agentv.types.summaries import TrialSummary

_EACH_UP_TO = 10
_NONE = ClusterMoments.of_passes(0, 0)
_OF_CASE: Mapping[str, Callable[[int, int, int], float | None]] = {"pass_at": pass_at, "pass_hat": pass_hat}


def trial_summaries(tally: Tally) -> tuple[TrialSummary, ...]:
    """Return pass@k and pass^k for k of 1 to 10 and for as many as the most repeated case of a target has.

    Empty without repeats. Cases weigh the same, however often each was judged.
    """
    outcomes = _outcomes(tally)
    most = max((trials for _, trials in outcomes), default=0)
    if most <= 1:
        return ()
    return tuple(_trial_summary(k, outcomes) for k in sorted({*range(1, min(most, _EACH_UP_TO) + 1), most}))


def _outcomes(tally: Tally) -> Counter[tuple[int, int]]:
    """Return how many cases have each pair of passes and trials: few pairs, however many cases."""
    return Counter((case.passed, case.rows) for case in tally.cases or ()) + _single_outcomes(tally)


def _single_outcomes(tally: Tally) -> Counter[tuple[int, int]]:
    single = tally.single
    return Counter({(1, 1): single.passed, (0, 1): single.rows - single.passed})


def _trial_summary(k: int, outcomes: Mapping[tuple[int, int], int]) -> TrialSummary:
    at, hat = (_moments(of_case, k, outcomes) for of_case in (pass_at, pass_hat))
    return TrialSummary(k, at.clusters, at.mean, hat.mean, mean_interval(at), mean_interval(hat))


def _moments(
    of_case: Callable[[int, int, int], float | None], k: int, outcomes: Mapping[tuple[int, int], int]
) -> ClusterMoments:
    values = [(of_case(k, passed, trials), cases) for (passed, trials), cases in outcomes.items()]
    told = [(value, cases) for value, cases in values if value is not None]
    return ClusterMoments.of_rows(
        sum(cases for _, cases in told),
        sum(value * cases for value, cases in told),
        sum(value**2 * cases for value, cases in told),
        sum(value**3 * cases for value, cases in told),
    )


def trial_moments(name: str, k: int, targets: Sequence[Tally]) -> ClusterMoments:
    """Return what `pass_at` or `pass_hat` of k trials over all targets needs; a case is one cluster, whoever answers.

    `targets` are the tallies of the targets' rows.
    """
    if len(targets) == 1:
        return _moments(_OF_CASE[name], k, _outcomes(targets[0]))
    singles = sum((_moments(_OF_CASE[name], k, _single_outcomes(tally)) for tally in targets), _NONE)
    by_case: dict[int, tuple[int, float]] = {}
    for tally in targets:
        for case, value in _values(name, k, tally.cases or ()):
            rows, total = by_case.get(case, (0, 0.0))
            by_case[case] = rows + 1, total + value
    return singles + ClusterMoments.of_clusters(by_case.values())


def _values(name: str, k: int, cases: Iterable[CaseSum]) -> Iterable[tuple[int, float]]:
    for case in cases:
        value = _OF_CASE[name](k, case.passed, case.rows)
        if value is not None:
            yield case.case, value
