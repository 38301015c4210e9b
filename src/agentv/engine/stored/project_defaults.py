"""What `.agentv.yaml` set when a run began, which holds for the whole run, whatever the file says today.

Options of the run are stored with the others. What may be stored at all, `redact` and `public_env`, and the code that
is imported, `plugins`, are always read from today's file.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agentv.engine.planning.inputs import SuiteInput, with_prices
from agentv.loading.project import load_project
from agentv.types.cases import DEFAULT_GUIDELINE_PATTERNS
from agentv.types.json_value import JsonObject, objects_of, strings_of

_CHANGED = "have changed since this run began; it uses those stored with it"


def stored_guideline_patterns(plan: JsonObject) -> Mapping[str, tuple[str, ...]]:
    """Return the guideline patterns in the plan of a run by the paths of its suites; none for an older run."""
    if not has_stored_defaults(plan):
        return {}
    return {
        str(suite.get("path")): strings_of(suite["guideline_patterns"])
        if "guideline_patterns" in suite
        else DEFAULT_GUIDELINE_PATTERNS
        for suite in objects_of(plan.get("suites"))
    }


def has_stored_defaults(plan: JsonObject) -> bool:
    """Return True unless the plan was stored by an older agentv, which read the present file."""
    return "prices" in plan


def with_stored_prices(
    suites: Sequence[SuiteInput], plan: JsonObject
) -> tuple[tuple[SuiteInput, ...], tuple[str, ...]]:
    """Return the suites of a run, read again, with the prices stored in its plan, and notes on what has changed."""
    stored = plan.get("prices")
    if not isinstance(stored, Mapping):
        return tuple(suites), ()
    prices = {model: price for model, price in stored.items() if isinstance(price, Mapping)}
    return with_prices(suites, prices), tuple(_notes(suites, prices))


def _notes(suites: Sequence[SuiteInput], prices: Mapping[str, JsonObject]) -> Iterator[str]:
    today = {model: price for item in suites for model, price in item.suite.prices.items()}
    if today != prices:
        yield f"the `prices` of .agentv.yaml {_CHANGED}"
    for suite in (item.suite for item in suites):
        project = load_project(Path(suite.base_dir), Path(suite.repository_root))
        if project.guideline_patterns != suite.guideline_patterns:
            yield f"the `guideline_patterns` of {suite.path} {_CHANGED}"
