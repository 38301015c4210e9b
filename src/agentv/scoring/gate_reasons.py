"""Why a gate could not be measured: what people need to mend it."""

from collections.abc import Collection

from agentv.types.errors import nearest

_SHOWN = 5
_LONGEST = 60
_WHY_UNMEASURED = {
    "cost_usd": "what a call cost is not known",
    "regressions": "no case was judged in both runs",
    "improvements": "no case was judged in both runs",
    "p50": "nothing was timed",
    "p95": "nothing was timed",
    "p99": "nothing was timed",
}
_CASES_FOR = {"p50": 6, "p95": 72, "p99": 368}
"""How many cases an interval of order statistics takes (docs/numbers.md)."""


def why_unmeasured(name: str, argument: str | None, names: Collection[str]) -> str:
    """Return why nothing was measured. `names` are those that the metric can be asked about."""
    if name in ("pass_at", "pass_hat"):
        return f"no case has {argument} judged trials"
    if argument is None or name in _WHY_UNMEASURED:
        return _WHY_UNMEASURED.get(name, "nothing was judged")
    if argument in names:
        return f"nothing was judged for {name} {argument!r}"
    near = nearest(argument, names)
    if near is not None:
        return f"there is no {name} {argument!r}; did you mean {near!r}?"
    # A criterion's name may come from a model: any length.
    known = [each if len(each) <= _LONGEST else f"{each[:_LONGEST]}…" for each in sorted(names)[:_SHOWN]]
    more = ", …" if len(names) > _SHOWN else ""
    return f"there is no {name} {argument!r}; there is: {', '.join(known) or 'none'}{more}"


def why_no_interval(name: str) -> str:
    """Return why a value that could be measured has no interval."""
    return f"it takes {_CASES_FOR.get(name, 2)} cases or more"
