"""From suites and options to a plan: every name is resolved and every bad setting refused here, all at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentv.loading import choose_target
from agentv.pipeline.baseline import baseline_problems, load_baseline
from agentv.pipeline.options import RunOptions
from agentv.pipeline.plan import RunPlan, SuitePlan
from agentv.pipeline.priced_targets import budget_problems
from agentv.pipeline.selection import select_cases
from agentv.pipeline.suite_check import Findings, SuiteCheck
from agentv.pipeline.targets import KnownTargets
from agentv.registry import Specs
from agentv.scoring.gates import parse_gate
from agentv.scoring.run_verdict import AskedGate
from agentv.types.cases import EvalSuite
from agentv.types.errors import AgentvError, ConfigError, TargetError, UnknownNameError
from agentv.types.evaluation import Evaluator
from agentv.types.json_value import JsonObject
from agentv.types.targets import ResolvedTarget


@dataclass(frozen=True, slots=True)
class SuiteInput:
    """A suite with the targets it may name."""

    suite: EvalSuite
    known: KnownTargets


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
    gates = _parse_gates(inputs, options, project_gates, findings)
    _check_names(gates or (), checks, findings)
    for problem in baseline_problems(options, gates or ()):
        findings.add(problem)
    if findings.problems:
        raise ConfigError("\n".join(findings.problems))
    prices: dict[str, JsonObject] = {}
    for item in inputs:
        prices.update(item.suite.prices)
    asked = {id(target) for plan in suites for target in plan.targets}
    judges = {key: judge for check in checks for key, judge in check.judges.items() if key not in asked}
    options, baseline = load_baseline(options, home)
    made = RunPlan(
        suites=tuple(suites),
        specs=specs,
        options=options,
        gates=gates,
        home=home,
        prices=prices,
        overrides=overrides or {},
        judges=tuple(judges.values()),
        warnings=tuple(problem.render() for item in inputs for problem in item.suite.warnings),
        baseline=baseline,
    )
    if options.budget_usd is not None and (problems := list(budget_problems(made))):
        raise ConfigError("\n".join(problems))
    return made


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


def _parse_gates(
    inputs: Sequence[SuiteInput], options: RunOptions, project_gates: Sequence[str], findings: Findings
) -> tuple[AskedGate, ...] | None:
    """`--gate` replaces the gates of the suites, which replace the project's; none at all is the default gate.

    A suite's own gate is measured on its own rows.
    """
    asked: list[tuple[str, str | None]] = [(gate, None) for gate in options.gates or ()]
    if options.gates is None:
        apart = len(inputs) > 1
        asked = [(gate, item.suite.path if apart else None) for item in inputs for gate in item.suite.gates]
        asked = asked or [(gate, None) for gate in project_gates]
        if not asked:
            return None
    gates: list[AskedGate] = []
    for expression, suite in dict.fromkeys(asked):
        try:
            gates.append(AskedGate(parse_gate(expression), suite))
        except ConfigError as error:
            findings.add(str(error))
    return tuple(gates)


def _check_names(gates: Sequence[AskedGate], checks: Sequence[SuiteCheck], findings: Findings) -> None:
    """Refuse a gate on an evaluator, tag or target that no row can have, when all cases are known."""
    if any(check.plan.suite.cases.count is None for check in checks):
        return
    known = {
        "evaluator": {name for check in checks for name in check.evaluator_names},
        "tag": {tag for check in checks for tag in check.tags},
        "target": {target.name for check in checks for target in check.plan.targets},
    }
    for asked in gates:
        name, names = asked.gate.argument, known.get(asked.gate.name)
        if names is not None and name is not None and name not in names:
            error = UnknownNameError(asked.gate.name, name, known=names)
            findings.add(f"gate {asked.gate.expression!r}: {error}")
