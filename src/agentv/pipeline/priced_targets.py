"""Whether a budget can be kept: every target that will be asked needs a known price."""

from collections.abc import Iterator, Mapping

from agentv.pipeline.plan import RunPlan
from agentv.pipeline.prices import price_of
from agentv.registry import Spec
from agentv.types.json_value import JsonObject
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Price

_FREE = Price(0.0, 0.0)


def budget_problems(plan: RunPlan) -> Iterator[str]:
    """Yield what must be written before a budget can be kept, one sentence for each target."""
    for target in {id(target): target for target in _asked(plan)}.values():
        problem = budget_problem(target, plan.specs.providers.get(target.provider), plan.prices)
        if problem is not None:
            yield problem


def budget_problem(target: ResolvedTarget, spec: Spec, prices: Mapping[str, JsonObject]) -> str | None:
    """Return why a budget cannot watch over a target, with what to write; None when it can."""
    if spec.is_canned or (spec.embeds and not spec.answers):
        return None
    model = getattr(target.settings, "model", None)
    price = price_of(target, model, prices)
    place = f"{target.path}: " if target.path else ""
    if price is None and not spec.tells_cost:
        return f"{place}{_unpriced(target, model)}"
    if price != _FREE and target.provider_batching:
        return (
            f"{place}--budget-usd cannot stop a batch of target {target.name!r}, which is paid as a whole; "
            "leave out the batching or the budget"
        )
    settings = target.settings
    if price != _FREE and getattr(settings, "batch_api", False) and not getattr(settings, "max_output_tokens", None):
        return (
            f"{place}--budget-usd cannot tell what a batch of target {target.name!r} may cost; "
            "say in the target how long a reply may be: `max_output_tokens: 1000`"
        )
    return None


def _asked(plan: RunPlan) -> Iterator[ResolvedTarget]:
    """Yield targets, judges, and models that make vectors."""
    yield from plan.targets
    yield from plan.judges
    for suite in plan.suites:
        yield from (each for each in suite.known.resolved.values() if plan.specs.providers.get(each.provider).embeds)


def _unpriced(target: ResolvedTarget, model: object) -> str:
    named = f", model {model!r}" if isinstance(model, str) else ""
    several = f' or, for all targets of the model, `prices: {{"{model}": …}}` in .agentv.yaml' if named else ""
    return (
        f"--budget-usd cannot watch over target {target.name!r} ({target.provider}{named}), whose price is not known; "
        "write in the target what a million tokens cost in dollars, 0 if they cost nothing: "
        f"`price: {{input_per_million: 0, output_per_million: 0}}`{several}"
    )
