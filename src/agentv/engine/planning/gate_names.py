"""Gates of files that name what the selection of a run leaves out, such as a tag that no selected case has."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec.structs import replace

from agentv.engine.planning.plan import SuitePlan
from agentv.engine.planning.selection import Selection
from agentv.engine.planning.suite_check import SuiteCheck, result_names
from agentv.scoring.gates.run_verdict import ScopedGate
from agentv.scoring.results.applicable import tags_of
from agentv.types.cases import BrokenCase, EvalCase, targets_of
from agentv.types.errors import AgentvError
from agentv.types.run_options import RunOptions


def with_left_out(
    gates: Sequence[ScopedGate], checks: Sequence[SuiteCheck], options: RunOptions
) -> tuple[ScopedGate, ...]:
    """Return the gates; those that name what the selection leaves out have the reason why they are not evaluated.

    A gate of the command line always applies.
    """
    if options.gates is not None:
        return tuple(gates)
    return tuple(replace(gate, not_evaluated=_why_left_out(gate, in_scope(gate, checks))) for gate in gates)


def with_left_out_of_all_shards(gates: Sequence[ScopedGate], checks: Sequence[SuiteCheck]) -> tuple[ScopedGate, ...]:
    """Return the gates of the files, those marked that name what the selection leaves out of all shards together."""
    whole = [_of_all_shards(check) for check in checks]
    return tuple(replace(gate, not_evaluated=_why_left_out(gate, in_scope(gate, whole))) for gate in gates)


def _of_all_shards(check: SuiteCheck) -> SuiteCheck:
    """Return the check with the names of all shards; those of a stream are not known then."""
    selection = check.plan.selection
    if selection.shard is None and selection.of_all_shards is None:
        return check
    suite, whole = check.plan.suite, selection.of_all_shards or Selection(check.plan.suite, None, None)
    cases = [] if whole.count is None else list(_readable(whole))
    return replace(
        check,
        plan=replace(check.plan, selection=whole),
        tags={tag for case in cases for tag in tags_of(case, suite)},
        evaluator_names={name for case in cases for name in result_names(case, suite)},
        most_trials=max(map(check.plan.trials, cases), default=1),
        is_complete=whole.count is not None,
    )


def in_scope(scoped: ScopedGate, checks: Sequence[SuiteCheck]) -> list[SuiteCheck]:
    """Return the checks of the suites that a gate measures."""
    return [check for check in checks if scoped.suite in (None, check.plan.suite.path)]


def _why_left_out(scoped: ScopedGate, checks: Sequence[SuiteCheck]) -> str | None:
    kind, name = scoped.gate.name, scoped.gate.argument or ""
    if scoped.gate.metric.takes == "trials":
        return _why_trials_left_out(int(name or 1), checks)
    selected = selected_names(kind, checks)
    if selected is None or name in selected or name not in all_names(kind, checks):
        return None
    return f"the selection leaves out {kind} {name!r}"


def _why_trials_left_out(trials: int, checks: Sequence[SuiteCheck]) -> str | None:
    if not all(check.is_complete for check in checks) or any(check.most_trials >= trials for check in checks):
        return None
    has_case = any(check.plan.trials(case) >= trials for check in checks for case in _all_cases(check))
    return f"the selection leaves out the cases with {trials} trials" if has_case else None


def selected_names(kind: str, checks: Sequence[SuiteCheck]) -> Collection[str] | None:
    """Return the names of a kind that the rows will have; None if they are not known before the run."""
    plans = [check.plan for check in checks if check.plan.selection.count != 0]
    are_known = all(check.is_complete for check in checks)
    match kind:
        case "dataset":
            return {plan.suite.dataset for plan in plans}
        case "prompt":
            return {prompt for plan in plans for prompt in plan.suite.prompts}
        case "target":
            return {name for plan in plans for name in _answering(plan)}
        case "evaluator":
            return {name for check in checks for name in _scored_names(check)} if are_known else None
        case "tag":
            return {tag for check in checks for tag in check.tags} if are_known else None
        case _:
            return None


def _scored_names(check: SuiteCheck) -> Collection[str]:
    """Return the names of a suite's evaluators, without those that `--only free` leaves out."""
    return check.evaluator_names - check.paid if check.plan.only_free else check.evaluator_names


def _answering(plan: SuitePlan) -> Iterator[str]:
    """Yield the names of the targets that answer a selected case; all if the cases are a stream."""
    cases = plan.selection if plan.selection.count is not None else None
    for target in plan.targets:
        if cases is None or any(plan.trials_with(case, target) for case in cases):
            yield target.name


def all_names(kind: str, checks: Sequence[SuiteCheck]) -> Collection[str]:
    """Return the names of a kind in the whole suites, whatever is selected. Streams are read to their end."""
    suites = [(check.plan.suite, check) for check in checks]
    match kind:
        case "dataset":
            return {suite.dataset for suite, _ in suites}
        case "prompt":
            return {prompt for suite, _ in suites for prompt in suite.prompts}
        case "target":
            return {name for check in checks for name in _suite_targets(check.plan)}
        case "evaluator":
            return {name for suite, check in suites for case in _all_cases(check) for name in result_names(case, suite)}
        case "tag":
            return {tag for suite, check in suites for case in _all_cases(check) for tag in tags_of(case, suite)}
        case _:
            return ()


def _all_cases(check: SuiteCheck) -> Iterator[EvalCase]:
    return _readable(check.plan.all_cases or check.plan.suite.cases)


def _suite_targets(plan: SuitePlan) -> Iterator[str]:
    yield from (target.name for target in plan.targets)
    for name in targets_of(plan.suite):
        with suppress(AgentvError):  # a target that this run does not use may be faulty
            yield plan.known.choose(name).name


def _readable(cases: Iterable[EvalCase | BrokenCase]) -> Iterator[EvalCase]:
    return (case for case in cases if isinstance(case, EvalCase))
