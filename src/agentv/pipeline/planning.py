"""From suites and options to a plan: every name is resolved and every bad setting refused here, all at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from agentv.loading import choose_target, read_settings
from agentv.pipeline.applicable import applicable_evaluators
from agentv.pipeline.judges import judge_targets, member_configs, needs_judge
from agentv.pipeline.options import RunOptions
from agentv.pipeline.plan import RunPlan, SuitePlan
from agentv.pipeline.selection import select_cases
from agentv.pipeline.targets import KnownTargets
from agentv.registry import Specs
from agentv.scoring.gates import Gate, parse_gate
from agentv.types.cases import EvalCase, EvalSuite, EvaluatorConfig, EvaluatorLike
from agentv.types.errors import AgentvError, ConfigError
from agentv.types.evaluation import Evaluator
from agentv.types.json_value import JsonObject
from agentv.types.targets import ResolvedTarget

STREAM_CHECKED_AHEAD = 1000
"""How many lines of a stream are checked before the run; the others are checked just ahead of the workers."""


@dataclass(frozen=True, slots=True)
class SuiteInput:
    """A suite with the targets it may name."""

    suite: EvalSuite
    known: KnownTargets


@dataclass(slots=True)
class _Findings:
    """Collects what is wrong, so that all of it is said at once."""

    problems: dict[str, None] = field(default_factory=dict)

    def add(self, message: str) -> None:
        self.problems.setdefault(message)

    def raise_if_any(self) -> None:
        if self.problems:
            raise ConfigError("\n".join(self.problems))


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
    findings = _Findings()
    suites = [plan for item in inputs if (plan := _plan_suite(item, options, findings)) is not None]
    for plan in suites:
        _check_suite(plan, specs, findings, overrides or {})
    gates = _parse_gates(inputs, options, project_gates, findings)
    findings.raise_if_any()
    prices: dict[str, JsonObject] = {}
    for item in inputs:
        prices.update(item.suite.prices)
    warnings = tuple(problem.render() for item in inputs for problem in item.suite.warnings)
    return RunPlan(tuple(suites), specs, options, gates, home, prices, overrides or {}, warnings)


def _plan_suite(item: SuiteInput, options: RunOptions, findings: _Findings) -> SuitePlan | None:
    names = options.targets or (item.suite.target,)
    targets: list[ResolvedTarget] = []
    for name in names:
        try:
            config = choose_target(tuple(item.known.configs.values()), name)
            targets.append(item.known.get(config.name))
        except AgentvError as error:
            findings.add(f"{item.suite.path}: {error}" if "\n" not in str(error) else str(error))
    selection = select_cases(item.suite, options)
    return SuitePlan(selection, tuple(targets), item.known, options) if targets else None


def _parse_gates(
    inputs: Sequence[SuiteInput], options: RunOptions, project_gates: Sequence[str], findings: _Findings
) -> tuple[Gate, ...] | None:
    """`--gate` replaces the gates of the suites, which replace the project's; none at all is the default gate."""
    of_suites = tuple(dict.fromkeys(gate for item in inputs for gate in item.suite.gates))
    expressions = options.gates if options.gates is not None else of_suites or tuple(project_gates) or None
    if expressions is None:
        return None
    gates: list[Gate] = []
    for expression in expressions:
        try:
            gates.append(parse_gate(expression))
        except ConfigError as error:
            findings.add(str(error))
    return tuple(gates)


def _check_suite(plan: SuitePlan, specs: Specs, findings: _Findings, overrides: Mapping[str, Evaluator]) -> None:
    """Check every evaluator that a suite's cases name."""
    suite = plan.suite
    if suite.workspace is not None:
        findings.add(f"{suite.path}: `workspace` is not supported yet; remove it")
    seen: set[int] = set()
    ahead = None if plan.selection.count is not None else STREAM_CHECKED_AHEAD
    for case in islice(plan.selection, ahead):
        if not isinstance(case, EvalCase):
            continue
        for evaluator in applicable_evaluators(case, suite)[0]:
            if id(evaluator) not in seen:
                seen.add(id(evaluator))
                _check_evaluator(evaluator, plan, specs, findings, overrides)


def _check_evaluator(
    evaluator: EvaluatorLike,
    plan: SuitePlan,
    specs: Specs,
    findings: _Findings,
    overrides: Mapping[str, Evaluator],
) -> None:
    if not isinstance(evaluator, EvaluatorConfig):
        if not isinstance(evaluator, Evaluator):
            findings.add(f"{type(evaluator).__name__} is no evaluator: it needs `kind` and `evaluate(context)`")
        return
    if evaluator.type in overrides:
        return
    try:
        settings = read_settings(specs.evaluators.get(evaluator.type), evaluator.settings, where=evaluator.name)
        for name in judge_targets(settings):
            plan.known.get(name)
    except AgentvError as error:
        findings.add(f"{plan.suite.path}: evaluator {evaluator.name!r}: {error}")
        return
    for member in member_configs(settings):
        _check_evaluator(member, plan, specs, findings, overrides)
    if plan.options.only != "free" and needs_judge(settings):
        for target in plan.targets:
            _check_judge(target, plan, specs, findings, evaluator.name)


def _check_judge(target: ResolvedTarget, plan: SuitePlan, specs: Specs, findings: _Findings, evaluator: str) -> None:
    if target.judge_target:
        try:
            plan.known.get(target.judge_target)
        except AgentvError as error:
            findings.add(f"{target.path or plan.suite.path}: judge_target of {target.name!r}: {error}")
    elif not specs.providers.get(target.provider).can_judge:
        findings.add(
            f"{target.path or plan.suite.path}: evaluator {evaluator!r} needs a judge, and target {target.name!r} "
            f"({target.provider}) cannot judge itself; name one with `judge_target:` in the target"
        )
