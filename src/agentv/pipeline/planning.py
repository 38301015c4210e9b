"""From suites and options to a plan: every name is resolved and every bad setting refused here, all at once."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agentv.loading.target_choice import choose_target
from agentv.pipeline.gating import asked_gates, check_gates
from agentv.pipeline.inputs import SuiteInput
from agentv.pipeline.options import RunOptions
from agentv.pipeline.plan import RunPlan, SuitePlan
from agentv.pipeline.priced_targets import budget_problems
from agentv.pipeline.selection import select_cases
from agentv.pipeline.suite_check import Findings, SuiteCheck
from agentv.registry import Specs
from agentv.types.errors import AgentvError, ConfigError, TargetError
from agentv.types.evaluation import Evaluator
from agentv.types.json_value import JsonObject
from agentv.types.targets import ResolvedTarget

if TYPE_CHECKING:
    from agentv.scoring.comparison.sides import Side


def make_plan(
    inputs: Sequence[SuiteInput],
    options: RunOptions,
    *,
    specs: Specs,
    home: str,
    project_gates: Sequence[str] = (),
    overrides: Mapping[str, Evaluator] | None = None,
) -> RunPlan:
    """Return the plan of a run. Raises ConfigError with every problem that can be found without a paid call."""
    findings = Findings()
    suites = [plan for item in inputs if (plan := _plan_suite(item, options, findings)) is not None]
    checks = [SuiteCheck(plan, specs, findings, overrides or {}, home) for plan in suites]
    for check in checks:
        check.run()
    gates = asked_gates(suites, options, project_gates, findings)
    check_gates(gates or (), checks, options, findings)
    if findings.problems:
        raise ConfigError("\n".join(findings.problems))
    prices: dict[str, JsonObject] = {}
    for item in inputs:
        prices.update(item.suite.prices)
    asked = {id(target) for plan in suites for target in plan.targets}
    judges = {key: judge for check in checks for key, judge in check.judges.items() if key not in asked}
    options, baseline, warnings = _baseline(options, home)
    made = RunPlan(
        suites=tuple(suites),
        specs=specs,
        options=options,
        gates=gates,
        home=home,
        prices=prices,
        overrides=overrides or {},
        judges=tuple(judges.values()),
        warnings=(
            *(problem.render() for item in inputs for problem in item.suite.warnings),
            *warnings,
        ),
        baseline=baseline,
    )
    if options.budget_usd is not None and (problems := list(budget_problems(made))):
        raise ConfigError("\n".join(problems))
    return made


def _baseline(options: RunOptions, home: str) -> tuple[RunOptions, "Side | None", tuple[str, ...]]:
    """Return the options with the baseline's id, its scores, and what to know of it."""
    if options.baseline is None:
        return options, None, ()
    # Comparing takes two dozen modules.
    from agentv.pipeline.baseline import baseline_warnings, load_baseline  # noqa: PLC0415

    reference, side = load_baseline(options.baseline, home)
    return replace(options, baseline=reference), side, tuple(baseline_warnings(side))


def _plan_suite(item: SuiteInput, options: RunOptions, findings: Findings) -> SuitePlan | None:
    names = options.targets or (item.suite.target,)
    targets: list[ResolvedTarget] = []
    for name in names:
        try:
            config = choose_target(tuple(item.known.configs.values()), name)
            target = item.known.get(config.name)
            if not item.known.specs.providers.get(target.provider).answers:
                raise TargetError(
                    f"target {target.name!r} ({target.provider}) makes embeddings; it answers no questions"
                )
            targets.append(target)
        except AgentvError as error:
            findings.add(f"{item.suite.path}: {error}" if "\n" not in str(error) else str(error))
    selection = select_cases(item.suite, options)
    return SuitePlan(selection, tuple(targets), item.known, options) if targets else None
