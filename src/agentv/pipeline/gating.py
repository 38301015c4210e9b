"""Which gates a run is held to, on which rows, and whether anything can be measured for them."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from agentv.pipeline.options import RunOptions
from agentv.pipeline.plan import SuitePlan
from agentv.pipeline.suite_check import Findings, SuiteCheck
from agentv.scoring.gates import parse_gate
from agentv.scoring.run_verdict import AskedGate
from agentv.types.errors import ConfigError, UnknownNameError

_EVERY_ROW_PASSES = ("pass_rate >= 100%",)
"""The default gate, for one suite beside others that have gates of their own."""


def asked_gates(
    plans: Sequence[SuitePlan], options: RunOptions, project_gates: Sequence[str], findings: Findings
) -> tuple[AskedGate, ...] | None:
    """Return the gates of a run, None for the default one.

    `--gate` replaces the gates of the suites, which replace the project's. Where any of several suites has its own,
    each suite is measured on its own rows; one that has none is held to the project's, without these to the default.
    """
    asked = _asked(plans, options, project_gates)
    if asked is None:
        return None
    gates: list[AskedGate] = []
    for expression, suite in dict.fromkeys(asked):
        try:
            gates.append(AskedGate(parse_gate(expression), suite))
        except ConfigError as error:
            findings.add(str(error))
    return tuple(gates)


def _asked(
    plans: Sequence[SuitePlan], options: RunOptions, project_gates: Sequence[str]
) -> list[tuple[str, str | None]] | None:
    if options.gates is not None:
        return [(gate, None) for gate in options.gates]
    if not any(plan.suite.gates for plan in plans):
        return [(gate, None) for gate in project_gates] or None
    if len(plans) == 1:
        return [(gate, None) for gate in plans[0].suite.gates]
    return [
        (gate, plan.suite.path)
        for plan in plans
        if plan.selection.count != 0  # what nothing was selected of is held to nothing
        for gate in plan.suite.gates or project_gates or _EVERY_ROW_PASSES
    ] or None


def check_gates(
    gates: Sequence[AskedGate], checks: Sequence[SuiteCheck], options: RunOptions, findings: Findings
) -> None:
    """Refuse gates that nothing can be measured for: of no row, of more trials than are made, of no baseline."""
    way_out = "" if options.gates is not None else " (the gate stands in a file; --gate replaces those)"
    for asked in gates:
        measured = [check for check in checks if asked.suite in (None, check.plan.suite.path)]
        for problem in _problems(asked, measured):
            error = asked.gate.wrong_argument(f"{problem}{way_out}")
            findings.add(f"{asked.suite}: {error}" if asked.suite else str(error))
        if asked.gate.name == "regressions" and options.baseline is None:
            expression = asked.gate.expression
            findings.add(f"gate {expression!r}: regressions from what? Name the earlier run with --baseline RUN")


def _problems(asked: AskedGate, checks: Sequence[SuiteCheck]) -> Iterator[str]:
    gate = asked.gate
    names = _names(checks).get(gate.name)
    if names is not None and gate.argument not in names:
        yield str(UnknownNameError(gate.name, gate.argument or "", known=names))
    if gate.metric.takes == "trials" and all(check.is_whole for check in checks):
        most = max((check.most_trials for check in checks), default=1)
        if int(gate.argument or 1) > most:
            yield f"no case is asked {gate.argument} times; --trials {gate.argument} or `trials:` does that"


def _names(checks: Sequence[SuiteCheck]) -> Mapping[str, Collection[str]]:
    """Return the names that rows will have, by kind, as far as they are known before the run."""
    known = {
        "dataset": {check.plan.suite.dataset for check in checks},
        "target": {target.name for check in checks for target in check.plan.targets},
    }
    if all(check.is_whole for check in checks):
        known["evaluator"] = {name for check in checks for name in check.evaluator_names}
        known["tag"] = {tag for check in checks for tag in check.tags}
    return known
