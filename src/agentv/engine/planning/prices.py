"""The price of a model's tokens: the target's own price, else the project's, else the dated table of the package."""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from agentv.engine.planning.plan import RunPlan
from agentv.registry import ProviderSpec
from agentv.types.json_value import JsonObject
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Price

PRICE_TABLE_DATE = "2025-09-01"

# Dollars per million tokens (input, output) as the vendors published them on PRICE_TABLE_DATE. A snapshot of a model
# ("gpt-4o-2024-08-06") costs what the model costs; a newer model of the same family is unknown, not guessed.
PRICE_TABLE: Mapping[str, Price] = {
    "gpt-4o-mini": Price(0.15, 0.6),
    "gpt-4o": Price(2.5, 10.0),
    "gpt-4.1-nano": Price(0.1, 0.4),
    "gpt-4.1-mini": Price(0.4, 1.6),
    "gpt-4.1": Price(2.0, 8.0),
    "gpt-5-nano": Price(0.05, 0.4),
    "gpt-5-mini": Price(0.25, 2.0),
    "gpt-5": Price(1.25, 10.0),
    "o4-mini": Price(1.1, 4.4),
    "o3-mini": Price(1.1, 4.4),
    "o3": Price(2.0, 8.0),
    "claude-opus-4": Price(15.0, 75.0),
    "claude-sonnet-4": Price(3.0, 15.0),
    "claude-3-5-haiku": Price(0.8, 4.0),
    "gemini-2.5-flash-lite": Price(0.1, 0.4),
    "gemini-2.5-flash": Price(0.3, 2.5),
    "gemini-2.5-pro": Price(1.25, 10.0),
    "text-embedding-3-small": Price(0.02, 0.0),
    "text-embedding-3-large": Price(0.13, 0.0),
    "text-embedding-ada-002": Price(0.1, 0.0),
    "gemini-embedding-001": Price(0.15, 0.0),
}
_SNAPSHOT_SUFFIX = re.compile(r"-(latest|\d{4}-?\d{2}-?\d{2})$")


def price_of(target: ResolvedTarget, model: str | None, project_prices: Mapping[str, JsonObject]) -> Price | None:
    """Return the price of a target's model, or None if it is unknown, which does not mean free."""
    if target.price is not None:
        return target.price
    if model is None:
        return None
    for pattern, price in project_prices.items():
        if fnmatchcase(model, pattern):
            return _project_price(price)
    return PRICE_TABLE.get(_SNAPSHOT_SUFFIX.sub("", model))


def _project_price(price: JsonObject) -> Price | None:
    input_price, output_price = price.get("input_per_million"), price.get("output_per_million")
    if not isinstance(input_price, int | float) or not isinstance(output_price, int | float):
        return None
    return Price(float(input_price), float(output_price))


_FREE = Price(0.0, 0.0)


def budget_problems(plan: RunPlan) -> Iterator[str]:
    """Yield a message for each target whose cost a budget cannot limit, with the setting to change."""
    for target in {id(target): target for target in _called_targets(plan)}.values():
        problem = budget_problem(target, plan.specs.providers.get(target.provider), plan.prices)
        if problem is not None:
            yield problem


def budget_problem(target: ResolvedTarget, spec: ProviderSpec, prices: Mapping[str, JsonObject]) -> str | None:
    """Return the reason why a budget cannot limit a target, with the setting to change; None if it can."""
    if spec.is_canned or (spec.embeds and not spec.answers):
        return None
    model = getattr(target.settings, "model", None)
    price = price_of(target, model, prices)
    prefix = f"{target.path}: " if target.path else ""
    if price is None and not _reports_costs(target, spec):
        return f"{prefix}{_missing_price(target, model)}"
    if price != _FREE and target.provider_batching:
        return (
            f"{prefix}--budget-usd cannot stop a batch of target {target.name!r}, which is paid as a whole; "
            "disable batching, or run without a budget"
        )
    settings = target.settings
    if price != _FREE and getattr(settings, "batch_api", False) and not getattr(settings, "max_output_tokens", None):
        return (
            f"{prefix}--budget-usd cannot estimate the cost of a batch of target {target.name!r}; "
            "limit the length of replies in the target: `max_output_tokens: 1000`"
        )
    return None


def needs_reported_costs(target: ResolvedTarget, spec: ProviderSpec, prices: Mapping[str, JsonObject]) -> bool:
    """Return True if only the costs that a target reports with its answers can keep a budget: it has no price."""
    is_priced = price_of(target, getattr(target.settings, "model", None), prices) is not None
    return not is_priced and not spec.is_canned and _reports_costs(target, spec)


def _reports_costs(target: ResolvedTarget, spec: ProviderSpec) -> bool:
    """Return True if a target may report costs: by its kind, or at the path in its setting `cost`."""
    return spec.reports_cost or getattr(target.settings, "cost", None) is not None


def _called_targets(plan: RunPlan) -> Iterator[ResolvedTarget]:
    """Yield the targets, judges and embedding models that a run may call."""
    yield from plan.targets
    yield from plan.judges
    for suite in plan.suites:
        yield from (suite.known.get(name) for target in suite.targets for name in target.fallback_targets)
    for suite in plan.suites:
        yield from (each for each in suite.known.resolved.values() if plan.specs.providers.get(each.provider).embeds)


def _missing_price(target: ResolvedTarget, model: object) -> str:
    named = f", model {model!r}" if isinstance(model, str) else ""
    for_all_targets = f' or, for all targets of the model, `prices: {{"{model}": …}}` in .agentv.yaml' if named else ""
    return (
        f"--budget-usd needs a price for target {target.name!r} ({target.provider}{named}); "
        "add the price of a million tokens in dollars to the target, 0 if they are free: "
        f"`price: {{input_per_million: 0, output_per_million: 0}}`{for_all_targets}"
    )
