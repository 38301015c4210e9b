"""A dry run: the plan as text or JSON, rendered prompts, and the usage of earlier runs as the basis of a forecast."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TypeGuard

from agentv.engine.conversation.speaking import speaker_of
from agentv.engine.planning.plan import CaseTask, RunPlan, SuitePlan
from agentv.engine.planning.prepared_case import PreparedCase, prepare_case, prompt_form
from agentv.execution.auto_workers import START
from agentv.reports.text.amounts import clock_text, count_text, money_text, seconds_text, tokens_text
from agentv.scoring.comparison.sides import PASSED
from agentv.scoring.counting.forecast import Forecast, ForecastPart, PastUsage
from agentv.scoring.keys.identity import digest, target_key
from agentv.scoring.results.applicable import all_evaluators
from agentv.storage.run.find import list_run_folders
from agentv.storage.run.stored import StoredRun
from agentv.types.cases import BrokenCase, EvalCase, EvaluatorConfig, EvaluatorLike
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.targets import ResolvedTarget

RUNS_SEARCHED = 50
"""Runs searched for the same suites, latest first."""

RUNS_USED = 3
"""Latest runs used for each suite and target."""

ROWS_USED = 500
"""Rows after which no further run is used for a suite and target."""

SuiteAndTarget = tuple[str, str]
"""The path of a suite and the name of a target."""


def load_forecast(plan: RunPlan) -> Forecast:
    """Return the estimated usage of a run, from the latest stored runs of its suites and targets."""
    wanted = {(suite_plan.suite.path, target.name) for suite_plan in plan.suites for target in suite_plan.targets}
    keys = {target.name: target_key(target) for target in plan.targets}
    measured: dict[SuiteAndTarget, PastUsage] = {}
    for run in _runs(Path(plan.home)):
        remaining = {pair for pair in wanted if not _has_enough(measured.get(pair))}
        if not remaining:
            break
        _measure(run, remaining, keys, measured)
    workers = {id(each): START if plan.adapts_workers(each) else plan.workers(each) for each in plan.targets}
    parts = [
        ForecastPart(
            suite=suite_plan.suite.path,
            target=target.name,
            workers=workers[id(target)],
            rows=None if suite_plan.planned is None else suite_plan.planned // len(suite_plan.targets),
            measured=measured.get((suite_plan.suite.path, target.name)),
            reruns=sum(1 for _ in most_reruns(plan, suite_plan, target)),
        )
        for suite_plan in plan.suites
        for target in suite_plan.targets
    ]
    return Forecast(tuple(parts))


def most_reruns(plan: RunPlan, suite_plan: SuitePlan, target: ResolvedTarget) -> Iterator[CaseTask]:
    """Yield the rows that may be called again to confirm regressions, each as often as it may be called.

    These are all cases that passed in every trial of the baseline. Nothing is yielded for a stream, which is not read.
    """
    baseline = plan.baseline
    if baseline is None or not plan.confirms_regressions or suite_plan.selection.count is None:
        return
    steady = {name.eval_id for name in baseline.cases if baseline.mean(PASSED, name) == 1.0}
    for task in suite_plan.tasks(target, by_trial=False):
        if task.trial == 0 and task.case.id in steady:
            yield from [task] * suite_plan.suite.confirm_reruns


def _has_enough(measured: PastUsage | None) -> bool:
    return measured is not None and (measured.rows >= ROWS_USED or len(measured.runs) >= RUNS_USED)


def _runs(home: Path) -> Iterator[StoredRun]:
    """Yield stored runs, latest first, without those that cannot be read."""
    for folder in reversed(list_run_folders(home)[-RUNS_SEARCHED:]):
        try:
            yield StoredRun(folder)
        except OSError:
            continue


def _measure(
    run: StoredRun, remaining: set[SuiteAndTarget], keys: Mapping[str, str], measured: dict[SuiteAndTarget, PastUsage]
) -> None:
    """Count the answered rows of one run that belong to the suites and targets in `remaining`."""
    suites, targets = _objects(run, "suites"), _objects(run, "targets")
    paths = {suite.get("path") for suite in suites}
    stored_keys = {str(target.get("name")): target.get("key") for target in targets}
    if not any(suite in paths and target in stored_keys for suite, target in remaining):
        return
    try:
        for row in islice(run.results(), ROWS_USED * len(remaining)):
            pair = (row.slot.suite, row.slot.target)
            if pair not in remaining or row.answer_key == "" or (row.error is not None and row.error.stage == "target"):
                continue
            found = measured.setdefault(pair, PastUsage())
            found.add(row)
            found.is_target_changed = found.is_target_changed or stored_keys.get(pair[1]) != keys[pair[1]]
    except OSError:
        return


def _objects(run: StoredRun, name: str) -> list[Mapping[str, object]]:
    listed = run.run.plan.get(name)
    return [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list | tuple) else []


_SHORT_S = 60


def forecast_lines(forecast: Forecast, *, budget_usd: float | None = None) -> list[str]:
    """Return the lines of a dry run about the estimated usage and the stored runs behind the estimate."""
    lines: list[str] = []
    if forecast.measured_rows:
        lines.append(f"Cost estimate: {_estimate(forecast)}")
        if any(part.reruns for part in forecast.parts):
            most = forecast.reruns_cost_usd
            cost = "cost unknown" if most is None else f"at most about {money_text(most)} more"
            lines.append(f"  re-runs that confirm regressions: {cost}")
        basis = f"{count_text(forecast.measured_rows, 'result')} of {count_text(len(forecast.runs), 'stored run')}"
        lines.append(f"  based on {basis}, the latest {forecast.runs[-1]}")
        lines += [f"  the settings of target {name!r} have changed since" for name in forecast.changed]
    lines += [f"  unknown: {_part_text(part)} (no stored run has answers)" for part in forecast.unknown]
    if not forecast.measured_rows:
        lines = ["Cost estimate: none (no earlier run of these eval files); run with --sample 5 to get one"]
    if budget_usd is not None and forecast.cost_usd is not None and forecast.cost_usd > budget_usd:
        lines.append(f"  more than the budget of ${budget_usd:g}: the run will probably stop early")
    return lines


def forecast_to_json(forecast: Forecast) -> JsonObject:
    """Return a forecast as JSON; unknown values are null."""
    parts: list[JsonValue] = [
        {
            "suite": part.suite,
            "target": part.target,
            "rows": part.rows,
            "measured_rows": part.measured.rows if part.measured else 0,
            "cost_usd": part.scaled(part.measured.cost_usd if part.measured else None),
            "tokens": part.scaled(part.measured.tokens if part.measured else None),
        }
        for part in forecast.parts
    ]
    return {
        "basis": "history" if forecast.measured_rows else "unknown",
        "runs": list(forecast.runs),
        "judge_calls": forecast.judge_calls,
        "tokens": forecast.tokens,
        "cost_usd": forecast.cost_usd,
        "reruns": sum(part.reruns for part in forecast.parts),
        "reruns_cost_usd": forecast.reruns_cost_usd,
        "duration_s": forecast.seconds,
        "changed_targets": list(forecast.changed),
        "parts": parts,
    }


def _estimate(forecast: Forecast) -> str:
    calls, tokens, seconds = forecast.judge_calls, forecast.tokens, forecast.seconds
    parts = [
        "cost unknown" if forecast.cost_usd is None else f"about {money_text(forecast.cost_usd)}",
        "tokens unknown" if tokens is None else f"{tokens_text(round(tokens))} tokens",
        count_text(round(calls), "judge call") if calls else "",
        "time unknown" if seconds is None else f"{_time_text(seconds)} with this number of workers",
    ]
    return ", ".join(filter(None, parts))


def _time_text(seconds: float) -> str:
    return seconds_text(seconds) if seconds < _SHORT_S else clock_text(seconds)


def _part_text(part: ForecastPart) -> str:
    return f"{part.suite} against {part.target}"


PLAN_SCHEMA = "agentv-plan-1"
_EMPTY_CASE = EvalCase("", ())


def describe_plan(plan: RunPlan, forecast: Forecast) -> str:
    """Return the plan as text: suites, targets, results, estimate, evaluators, gates."""
    lines: list[str] = []
    for suite_plan in plan.suites:
        suite, count = suite_plan.suite, suite_plan.selection.count
        cases = "a stream of cases" if count is None else count_text(count, "case")
        names = ", ".join(target.name for target in suite_plan.targets)
        trials = plan.options.trials or suite.trials
        repeated = f", {trials} trials each" if trials > 1 else ""
        prompts = f", each with {count_text(len(suite.prompts), 'prompt')}" if suite.prompts else ""
        lines.append(f"{suite.path}: {cases}{prompts}{repeated} against {names}")
    planned = "unknown (a stream)" if plan.planned is None else f"{plan.planned:,}"
    calls = planned if plan.planned is None else f"{_calls(plan):,}"
    lines.append(f"results planned: {planned}; target calls: {calls}{_confirming_calls(plan)}")
    lines.extend(forecast_lines(forecast, budget_usd=plan.options.budget_usd))
    named = [f"{name} ({kind})" if name != kind else name for name, kind in _evaluators(plan)]
    more = "; cases of a stream may name others" if plan.planned is None else ""
    lines.append(f"evaluators: {', '.join(named) or 'none'}{more}")
    lines.append(f"gate: {'; '.join(_gates(plan)) or 'none'}")
    return "\n".join(lines)


def plan_to_json(plan: RunPlan, forecast: Forecast, prompts: int | None = None) -> JsonObject:
    """Return the plan as JSON. `rows` and `cases` are null for a stream; `prompts` is the number of files written."""
    return {
        "schema": PLAN_SCHEMA,
        "suites": [
            {
                "suite": suite_plan.suite.path,
                "cases": suite_plan.selection.count,
                "rows": suite_plan.planned,
                "trials": plan.options.trials or suite_plan.suite.trials,
                "prompts": suite_plan.suite.prompts,
                "targets": [target.name for target in suite_plan.targets],
            }
            for suite_plan in plan.suites
        ],
        "rows": plan.planned,
        "forecast": forecast_to_json(forecast),
        "evaluators": [{"name": name, "type": kind} for name, kind in _evaluators(plan)],
        "gates": _gates(plan),
        "warnings": plan.warnings,
        "prompts": prompts,
    }


def _gates(plan: RunPlan) -> list[str]:
    if plan.gates is None:
        return ["every judged result passes"]
    return [
        f"{scoped.suite}: {scoped.gate.expression}" if scoped.suite else scoped.gate.expression for scoped in plan.gates
    ]


def _calls(plan: RunPlan) -> int:
    """Return the maximum number of target calls: one for each result, or for each turn of a conversation."""
    return sum(_calls_of(task) for target in plan.targets for task in plan.tasks(target))


def _calls_of(task: CaseTask) -> int:
    if not _is_called(task.case):
        return 0
    speaker = speaker_of(task.case)
    return 1 if speaker is None else speaker.most_turns


def _is_called(case: EvalCase | BrokenCase) -> TypeGuard[EvalCase]:
    """Return True for a case that is sent to its targets: it can be read, and has no `skip`."""
    return isinstance(case, EvalCase) and case.skip is None


def _confirming_calls(plan: RunPlan) -> str:
    """Return the most target calls that confirm regressions, as the end of a sentence; empty without such a gate."""
    if plan.baseline is None or not plan.confirms_regressions:
        return ""
    reruns = (task for each in plan.suites for target in each.targets for task in most_reruns(plan, each, target))
    most = "an unknown number of" if plan.planned is None else f"at most {sum(map(_calls_of, reruns)):,}"
    return f", and {most} more to confirm regressions"


def _evaluators(plan: RunPlan) -> list[tuple[str, str]]:
    """Return name and type of every evaluator; for a stream, which is not read here, only those of its suite."""
    found: dict[tuple[str, str], None] = {}
    for suite_plan in plan.suites:
        cases = [_EMPTY_CASE] if suite_plan.selection.count is None else suite_plan.selection
        for case in cases:
            if _is_called(case):
                found.update(dict.fromkeys(map(_name_and_type, all_evaluators(case, suite_plan.suite))))
    return list(found)


def _name_and_type(evaluator: EvaluatorLike) -> tuple[str, str]:
    if isinstance(evaluator, EvaluatorConfig):
        return evaluator.name, evaluator.type
    return evaluator.kind, evaluator.kind


def prepared_cases(plan: RunPlan) -> Iterator[PreparedCase]:
    """Yield the prepared cases of a plan, one per case, prompt and target."""
    for target in plan.targets:
        form, key = prompt_form(target, plan.specs.providers.get(target.provider)), target_key(target)
        for task in plan.tasks(target):
            if task.trial == 0 and _is_called(task.case):
                yield prepare_case(task, task.case, target_key=key, form=form)


def write_prompts(plan: RunPlan, folder: Path) -> int:
    """Write each prompt to a file `SUITE.CASE[.PROMPT].TARGET.md`, and return the number of files."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for prepared in prepared_cases(plan):
        key = prepared.task.slot
        names = tuple(filter(None, (key.suite, key.eval_id, key.prompt, key.target)))
        parts = [f"# {' · '.join(names)}"]
        if prepared.request.system_prompt:
            parts.append(f"## system\n\n{prepared.request.system_prompt}")
        if prepared.request.guidelines:
            parts.append(f"## guidelines\n\n{prepared.request.guidelines}")
        parts.append(f"## question\n\n{prepared.request.question}")
        turns = prepared.request.chat_prompt or ()
        parts += [f"## chat message: {turn.role}\n\n{turn.content}" for turn in turns]
        name = ".".join(map(_file_stem, names)) + ".md"
        (folder / name).write_text("\n\n".join(parts) + "\n", encoding="utf-8")
        count += 1
    return count


def _file_stem(name: str) -> str:
    """Return a name that is safe for a file; a changed name gets a digest, so that no two collide."""
    safe = "".join(char if char.isalnum() or char in "-_." else "_" for char in name)[:80]
    return safe if safe == name and not safe.startswith(".") else f"{safe.lstrip('.')}-{digest(name)[:8]}"
