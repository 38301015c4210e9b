"""What a run would ask, without asking: the plan in words, and the rendered prompts."""

from collections.abc import Iterator
from pathlib import Path

from agentv.engine.planning.plan import RunPlan
from agentv.engine.planning.prepared_case import Question, make_question
from agentv.reports.text.amounts import clock_text, count_text, money_text, seconds_text, tokens_text
from agentv.scoring.counting.forecast import Forecast, Part
from agentv.scoring.keys.identity import digest, target_key
from agentv.scoring.results.applicable import applicable_evaluators
from agentv.types.cases import EvalCase, EvaluatorConfig, EvaluatorLike
from agentv.types.json_value import JsonObject, JsonValue

_SHORT_S = 60


def forecast_lines(forecast: Forecast, *, budget_usd: float | None = None) -> list[str]:
    """Return the lines that a dry run prints: what is to be expected, and what it is drawn from."""
    lines: list[str] = []
    if forecast.measured_rows:
        lines.append(f"to be expected: {_expected(forecast)}")
        basis = f"{count_text(forecast.measured_rows, 'row')} of {count_text(len(forecast.runs), 'stored run')}"
        lines.append(f"  drawn from {basis}, the latest {forecast.runs[-1]}")
        lines += [f"  settings of target {name!r} were others then" for name in forecast.changed]
    lines += [f"  unknown: {_named(part)}, of which no stored run has an answer" for part in forecast.unknown]
    if not forecast.measured_rows:
        lines = ["to be expected: unknown, no stored run of this is there; --sample 5 makes one to draw from"]
    if budget_usd is not None and forecast.cost_usd is not None and forecast.cost_usd > budget_usd:
        lines.append(f"  more than the budget of ${budget_usd:g}: the run will probably stop before its end")
    return lines


def forecast_to_json(forecast: Forecast) -> JsonObject:
    """Return a forecast as JSON; what is not known is null."""
    parts: list[JsonValue] = [
        {
            "suite": part.suite,
            "target": part.target,
            "rows": part.rows,
            "measured_rows": part.measured.rows if part.measured else 0,
            "cost_usd": part.share(part.measured.cost_usd if part.measured else None),
            "tokens": part.share(part.measured.tokens if part.measured else None),
        }
        for part in forecast.parts
    ]
    return {
        "basis": "history" if forecast.measured_rows else "unknown",
        "runs": list(forecast.runs),
        "judge_calls": forecast.judge_calls,
        "tokens": forecast.tokens,
        "cost_usd": forecast.cost_usd,
        "duration_s": forecast.seconds,
        "changed_targets": list(forecast.changed),
        "parts": parts,
    }


def _expected(forecast: Forecast) -> str:
    calls, tokens, seconds = forecast.judge_calls, forecast.tokens, forecast.seconds
    told = [
        "cost unknown" if forecast.cost_usd is None else f"about {money_text(forecast.cost_usd)}",
        "tokens unknown" if tokens is None else f"{tokens_text(round(tokens))} tokens",
        f"{count_text(round(calls), 'call')} of judges" if calls else "",
        "time unknown" if seconds is None else f"{_time_text(seconds)} at the present number of workers",
    ]
    return ", ".join(filter(None, told))


def _time_text(seconds: float) -> str:
    return seconds_text(seconds) if seconds < _SHORT_S else clock_text(seconds)


def _named(part: Part) -> str:
    return f"{part.suite} against {part.target}"


PLAN_SCHEMA = "agentv-plan-1"
_ANY_CASE = EvalCase("", ())


def describe_plan(plan: RunPlan, forecast: Forecast) -> str:
    """Return the plan as text: suites, targets, rows, what is to be expected, evaluators, gates."""
    lines: list[str] = []
    for item in plan.suites:
        cases = "a stream of cases" if item.selection.count is None else _count(item.selection.count, "case")
        names = ", ".join(target.name for target in item.targets)
        trials = plan.options.trials or item.suite.trials
        repeated = f", {trials} trials each" if trials > 1 else ""
        lines.append(f"{item.suite.path}: {cases}{repeated} against {names}")
    planned = "unknown (a stream)" if plan.planned is None else f"{plan.planned:,}"
    lines.append(f"rows planned: {planned}; calls of targets: {planned}")
    lines.extend(forecast_lines(forecast, budget_usd=plan.options.budget_usd))
    named = [f"{name} ({kind})" if name != kind else name for name, kind in _evaluators(plan)]
    more = "; cases of a stream may name others" if plan.planned is None else ""
    lines.append(f"evaluators: {', '.join(named) or 'none'}{more}")
    lines.append(f"gate: {'; '.join(_gates(plan)) or 'none'}")
    return "\n".join(lines)


def plan_to_json(plan: RunPlan, forecast: Forecast, prompts: int | None = None) -> JsonObject:
    """Return the same as JSON. `rows` and `cases` are null for a stream; `prompts` is how many were written."""
    return {
        "schema": PLAN_SCHEMA,
        "suites": [
            {
                "suite": item.suite.path,
                "cases": item.selection.count,
                "rows": item.rows,
                "trials": plan.options.trials or item.suite.trials,
                "targets": [target.name for target in item.targets],
            }
            for item in plan.suites
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
        return ["every judged row passes"]
    return [f"{f'{asked.suite}: ' if asked.suite else ''}{asked.gate.expression}" for asked in plan.gates]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _evaluators(plan: RunPlan) -> list[tuple[str, str]]:
    """Return name and type of every evaluator; of a stream, which is not read for this, those that its suite names."""
    found: dict[tuple[str, str], None] = {}
    for item in plan.suites:
        cases = [_ANY_CASE] if item.selection.count is None else item.selection
        for case in cases:
            if isinstance(case, EvalCase):
                found.update(dict.fromkeys(map(_name_and_type, applicable_evaluators(case, item.suite)[0])))
    return list(found)


def _name_and_type(evaluator: EvaluatorLike) -> tuple[str, str]:
    if isinstance(evaluator, EvaluatorConfig):
        return evaluator.name, evaluator.type
    return evaluator.kind, evaluator.kind


def questions(plan: RunPlan) -> Iterator[Question]:
    """Yield every question of a plan, once per case and target."""
    for target in plan.targets:
        names_files, key = plan.specs.providers.get(target.provider).has_files, target_key(target)
        for task in plan.tasks(target):
            if task.trial == 0 and isinstance(task.case, EvalCase):
                yield make_question(task, task.case, target_key=key, names_files=names_files)


def write_prompts(plan: RunPlan, folder: Path) -> int:
    """Write each rendered prompt as a text file `SUITE.CASE.TARGET.md`; returns how many were written."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for question in questions(plan):
        parts = [f"# {question.slot.suite} · {question.slot.eval_id} · {question.slot.target}"]
        if question.request.system_prompt:
            parts.append(f"## system\n\n{question.request.system_prompt}")
        if question.request.guidelines:
            parts.append(f"## guidelines\n\n{question.request.guidelines}")
        parts.append(f"## question\n\n{question.request.question}")
        turns = question.request.chat_prompt or ()
        parts += [f"## chat message: {turn.role}\n\n{turn.content}" for turn in turns]
        slot = question.slot
        name = ".".join(_file_stem(part) for part in (slot.suite, slot.eval_id, slot.target)) + ".md"
        (folder / name).write_text("\n\n".join(parts) + "\n", encoding="utf-8")
        count += 1
    return count


def _file_stem(name: str) -> str:
    """Return a name fit for a file; a name that has to be changed keeps a digest, so that no two collide."""
    safe = "".join(char if char.isalnum() or char in "-_." else "_" for char in name)[:80]
    return safe if safe == name and not safe.startswith(".") else f"{safe.lstrip('.')}-{digest(name)[:8]}"
