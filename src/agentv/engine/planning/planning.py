"""Planning of a run: resolves every name of suites and options, and reports all invalid settings at once."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agentv.engine.planning.gate_names import (
    all_names,
    in_scope,
    selected_names,
    with_left_out,
    with_left_out_of_all_shards,
)
from agentv.engine.planning.inputs import SuiteInput
from agentv.engine.planning.plan import RunPlan, SuitePlan
from agentv.engine.planning.prices import budget_problems
from agentv.engine.planning.selection import select_cases
from agentv.engine.planning.suite_check import Findings, SuiteCheck
from agentv.loading.models.judges import own_judge_text
from agentv.loading.targets.choice import DEFAULT_TARGET
from agentv.registry import Specs
from agentv.scoring.gates.gates import BASELINE_METRICS, CONFIRMED, parse_gate
from agentv.scoring.gates.run_verdict import ScopedGate
from agentv.storage.run.likeness import Likeness, suites_and_options
from agentv.types.cases import targets_of
from agentv.types.errors import AgentvError, ConfigError, TargetError, UnknownNameError
from agentv.types.evaluation import Evaluator
from agentv.types.json_value import JsonObject
from agentv.types.run_options import RunOptions
from agentv.types.targets import ResolvedTarget

if TYPE_CHECKING:
    from agentv.storage.run.scores import FoundScores


_DEFAULT_GATES = ("pass_rate >= 100%",)
"""The gates of a suite without gates, in a run in which another suite has gates."""
_MAX_FILES = 3
"""The number of files whose replaced gates are named."""


def scoped_gates(
    plans: Sequence[SuitePlan], options: RunOptions, project_gates: Sequence[str], findings: Findings
) -> tuple[ScopedGate, ...] | None:
    """Return the gates of a run, or None for the default one.

    `--gate` replaces the gates of the suites, which replace the project's. If one of several suites has gates, each
    suite is measured on its own rows; a suite without gates then has the project's, or else the default one.
    """
    return _parsed(_gate_expressions(plans, options, project_gates), findings)


def _parsed(expressions: Sequence[tuple[str, str | None]] | None, findings: Findings) -> tuple[ScopedGate, ...] | None:
    if expressions is None:
        return None
    gates: list[ScopedGate] = []
    for expression, suite in dict.fromkeys(expressions):
        try:
            gates.append(ScopedGate(parse_gate(expression), suite))
        except ConfigError as error:
            findings.add(str(error))
    return tuple(gates)


def _gate_expressions(
    plans: Sequence[SuitePlan], options: RunOptions, project_gates: Sequence[str]
) -> list[tuple[str, str | None]] | None:
    """Return each gate's expression with the path of the suite that it measures, None for the whole run."""
    if options.gates is not None:
        return [(gate, None) for gate in options.gates]
    # A suite without selected cases has no gate.
    return _expressions_of_files(plans, project_gates, lambda plan: plan.selection.count != 0)


def _expressions_of_files(
    plans: Sequence[SuitePlan], project_gates: Sequence[str], has_gates: Callable[[SuitePlan], bool]
) -> list[tuple[str, str | None]] | None:
    """Return the gates of the files; of several suites only those that `has_gates` accepts."""
    left_out = {plan.suite.path for plan in plans if not has_gates(plan)}
    return gates_of_files([(plan.suite.path, plan.suite.gates) for plan in plans], project_gates, left_out=left_out)


def gates_of_files(
    suites: Sequence[tuple[str, Sequence[str]]], project_gates: Sequence[str], *, left_out: Collection[str] = ()
) -> list[tuple[str, str | None]] | None:
    """Return each gate with the path of the suite that it measures, None for the whole run; None without any gate.

    `suites` are the paths of the suites with their own gates; of several suites, those in `left_out` have none.
    """
    if not any(gates for _, gates in suites):
        return [(gate, None) for gate in project_gates] or None
    if len(suites) == 1:
        return [(gate, None) for gate in suites[0][1]]
    return [
        (gate, path)
        for path, gates in suites
        if path not in left_out
        for gate in gates or project_gates or _DEFAULT_GATES
    ] or None


def replaced_gates(plans: Sequence[SuitePlan], options: RunOptions, project_gates: Sequence[str]) -> str | None:
    """Return which gates of files `--gate` replaces; None if it replaces none. `--gate none` turns all off, as it says.

    A gate that is also given with `--gate` is not replaced.
    """
    if not options.gates:
        return None
    selected = [plan.suite for plan in plans if plan.selection.count != 0]
    places = [(suite.path, suite.gates) for suite in selected if suite.gates]
    if len(places) < len(selected):
        places.append((".agentv.yaml", tuple(project_gates)))
    given = {_without_spaces(gate) for gate in options.gates}
    left_out = {path: [gate for gate in gates if _without_spaces(gate) not in given] for path, gates in places}
    texts = [f"{path}: {', '.join(gates)}" for path, gates in left_out.items() if gates]
    more = f"; and of {len(texts) - _MAX_FILES:,} more files" if len(texts) > _MAX_FILES else ""
    return f"--gate replaces the gates of {'; of '.join(texts[:_MAX_FILES])}{more}" if texts else None


def _without_spaces(gate: str) -> str:
    return "".join(gate.split())


def check_gates(
    gates: Sequence[ScopedGate], checks: Sequence[SuiteCheck], options: RunOptions, findings: Findings
) -> None:
    """Report gates that name something unknown, need more trials than any case has, or lack the baseline they need."""
    hint = "" if options.gates is not None else " (the gate is from a file; --gate replaces it)"
    has_cases = any(check.plan.selection.count != 0 for check in checks)  # if not, the run says so
    for scoped in gates:
        measured = in_scope(scoped, checks) if has_cases and scoped.not_evaluated is None else ()
        for problem in _gate_problems(scoped, measured, names_all=options.gates is None):
            error = scoped.gate.wrong_argument(f"{problem}{hint}")
            findings.add(f"{scoped.suite}: {error}" if scoped.suite else str(error))
        if scoped.gate.name in BASELINE_METRICS and options.baseline is None and options.gates is not None:
            expression = scoped.gate.expression
            findings.add(f"gate {expression!r} needs a baseline; name the earlier run with --baseline RUN")


def with_scope(gates: Sequence[ScopedGate], plans: Sequence[SuitePlan], options: RunOptions) -> tuple[ScopedGate, ...]:
    """Return the gates, those that do not apply to the run with the reason why they are not evaluated."""
    return tuple(
        replace(gate, not_evaluated=gate.not_evaluated or _why_not_evaluated(gate, plans, options)) for gate in gates
    )


def _without_new_files(gates: tuple[ScopedGate, ...] | None, known: Collection[str]) -> tuple[ScopedGate, ...] | None:
    """Return the gates, those for change of files that the baseline does not have with the reason.

    `known` has the files of the baseline. If it has none of those with gates, for example because all were renamed,
    the gates are evaluated, and undecided.
    """
    if gates is None or not any(each.suite in known for each in gates):
        return gates
    why = "the baseline does not have this file; save one with: agentv baseline save"
    return tuple(
        replace(each, not_evaluated=each.not_evaluated or why)
        if each.gate.name in BASELINE_METRICS and each.suite is not None and each.suite not in known
        else each
        for each in gates
    )


def _why_not_evaluated(scoped: ScopedGate, plans: Sequence[SuitePlan], options: RunOptions) -> str | None:
    """Return why a gate about a baseline does not apply to a run, None if it does."""
    if scoped.gate.name not in BASELINE_METRICS:
        return None
    if options.baseline is None:
        return "no --baseline; save one with: agentv baseline save"
    if scoped.gate.name != CONFIRMED:
        return None
    targets = [target for plan in plans if scoped.suite in (None, plan.suite.path) for target in plan.targets]
    recorded = next((target.name for target in targets if target.provider == "replay"), None)
    return None if recorded is None else f"target {recorded!r} replays recorded answers, so it cannot be called again"


def _gate_problems(scoped: ScopedGate, checks: Sequence[SuiteCheck], *, names_all: bool) -> Iterator[str]:
    """Yield the problems of a gate; with `names_all`, a message lists the names of cases that are not selected, too."""
    gate = scoped.gate
    names = selected_names(gate.name, checks) if checks else None
    if names is not None and gate.argument not in names:
        known = all_names(gate.name, checks) if names_all else names
        yield str(UnknownNameError(gate.name, gate.argument or "", known=known))
    if checks and gate.metric.takes == "trials" and all(check.is_complete for check in checks):
        most = max((check.most_trials for check in checks), default=1)
        if int(gate.argument or 1) > most:
            yield f"no case has {gate.argument} trials; set them with --trials {gate.argument} or `trials:`"


def make_plan(
    inputs: Sequence[SuiteInput],
    options: RunOptions,
    *,
    specs: Specs,
    home: str,
    project_gates: Sequence[str] = (),
    overrides: Mapping[str, Evaluator] | None = None,
    checks_sources: bool = True,
) -> RunPlan:
    """Return the plan of a run. No call is made.

    Raises ConfigError with all problems of suites, targets and gates; if there are none, with those of the budget.
    `overrides` are evaluators given as objects, by type name. With `checks_sources` False, the sources of workspaces
    are not checked: they need not exist on this machine.
    """
    findings = Findings()
    suites = [plan for item in inputs if (plan := _plan_suite(item, options, findings)) is not None]
    checks = [
        SuiteCheck(
            plan=plan,
            specs=specs,
            findings=findings,
            overrides=overrides or {},
            home=home,
            checks_sources=checks_sources,
        )
        for plan in suites
    ]
    for check in checks:
        check.run()
    gates = scoped_gates(suites, options, project_gates, findings)
    gates = None if gates is None else with_left_out(gates, checks, options)
    check_gates(gates or (), checks, options, findings)
    gates = None if gates is None else with_scope(gates, suites, options)
    file_gates = _parsed(_expressions_of_files(suites, project_gates, lambda _plan: True), findings)
    if file_gates is not None:
        file_gates = with_scope(with_left_out_of_all_shards(file_gates, checks), suites, options)
    if findings.problems:
        raise ConfigError("\n".join(findings.problems))
    replaced = replaced_gates(suites, options, project_gates)
    prices: dict[str, JsonObject] = {}
    for item in inputs:
        prices.update(item.suite.prices)
    target_ids = {id(target) for plan in suites for target in plan.targets}
    own_judges = tuple(dict.fromkeys(name for check in checks for name in check.own_judges))
    judges = {key: judge for check in checks for key, judge in check.judges.items() if key not in target_ids}
    like = suites_and_options([plan.suite.path for plan in suites], options.to_json())
    options, found, warnings = _load_baseline(options, home, like)
    if found is not None:
        gates, file_gates = (_without_new_files(each, found.side.suites) for each in (gates, file_gates))
    run_plan = RunPlan(
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
            *dict.fromkeys(line for item in inputs for line in item.known.warnings()),
            *_unused_fallback_warnings(suites),
            *([] if replaced is None else [replaced]),
            *([own_judge_text(own_judges)] if own_judges else ()),
            *warnings,
        ),
        baseline=None if found is None else found.side,
        baseline_folder=None if found is None or found.stored is None else str(found.stored.folder),
        file_gates=file_gates,
        replaced_gates=replaced,
        evaluator_files=tuple(sorted({file for check in checks for file in check.files})),
    )
    run_plan = _with_suite_budget(run_plan)
    if run_plan.options.budget_usd is not None and (problems := list(budget_problems(run_plan))):
        raise ConfigError("\n".join(problems))
    return run_plan


def _with_suite_budget(plan: RunPlan) -> RunPlan:
    """Return a plan limited to the sum of its suites' budgets, unless the options have a budget."""
    budgets = [each.suite.budget_usd for each in plan.suites if each.suite.budget_usd is not None]
    if not budgets or plan.options.budget_usd is not None:
        return plan
    limited = replace(plan, options=replace(plan.options, budget_usd=sum(budgets)))
    without = [each.suite.path for each in plan.suites if each.suite.budget_usd is None]
    if not without:
        return limited
    warning = f"{without[0]}: the file has no `budget_usd`; the budget of ${sum(budgets):g} is that of the whole run"
    return replace(limited, warnings=(*plan.warnings, warning))


def _unused_fallback_warnings(suites: Sequence[SuitePlan]) -> Iterator[str]:
    for target in {target.name: target for plan in suites for target in plan.targets}.values():
        is_batched = target.provider_batching or getattr(target.settings, "batch_api", False)
        if target.fallback_targets and is_batched:
            yield f"target {target.name!r} answers in batches, which do not use its fallback_targets"


def _load_baseline(
    options: RunOptions, home: str, like: Likeness
) -> tuple[RunOptions, "FoundScores | None", tuple[str, ...]]:
    """Return the options with the id of the baseline, the scores of the baseline, and warnings about it."""
    if options.baseline is None:
        return options, None, ()
    # Imported here: comparison needs two dozen modules.
    from agentv.engine.planning.baseline import baseline_warnings  # noqa: PLC0415
    from agentv.storage.run.scores import find_scores  # noqa: PLC0415

    found = find_scores(Path(home), options.baseline, like=like)
    # `latest` may name another run later.
    return replace(options, baseline=found.reference), found, tuple(baseline_warnings(found, like.suites))


def _plan_suite(item: SuiteInput, options: RunOptions, findings: Findings) -> SuitePlan | None:
    """Return the plan of a suite, or None if none of its targets can be used. Problems are added to `findings`."""
    default_names = options.targets or item.suite.targets or (item.suite.target,)
    targets: dict[str, ResolvedTarget] = {}  # several names, such as none and `default`, may mean one target
    default_targets: set[str] = set()
    for name in options.targets or targets_of(item.suite):
        try:
            item.known.check(name or DEFAULT_TARGET)
            target = item.known.choose(name)
            for each in (target, *map(item.known.get, target.fallback_targets)):
                if not item.known.specs.providers.get(each.provider).answers:
                    raise TargetError(
                        f"target {each.name!r} ({each.provider}) makes embeddings and cannot answer cases"
                    )
                if options.backend == "ray" and (why := getattr(each.settings, "why_not_on_nodes", None)):
                    raise TargetError(f"target {each.name!r} cannot be called with --backend ray: {why}")
            targets.setdefault(target.name, target)
            if name in default_names:
                default_targets.add(target.name)
        except AgentvError as error:
            findings.add(f"{item.suite.path}: {error}" if "\n" not in str(error) else str(error))
    selection = select_cases(item.suite, options)
    if not targets:
        return None
    return SuitePlan(
        selection,
        targets=tuple(targets.values()),
        known=item.known,
        options=options,
        default_targets=frozenset(default_targets),
        all_cases=item.all_cases,
    )
