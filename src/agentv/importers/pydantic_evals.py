"""Datasets of pydantic-evals, as `Dataset.to_file` writes them, as eval files."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, field

from agentv.importers.located import Converted, Located, Losses, lost_reason, open_located, require
from agentv.loading.suites.other_evaluators import PYDANTIC_EVALS_LOST
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import short_messages

_TOP_LEVEL_KEYS = {
    "name": None,
    "cases": None,
    "evaluators": None,
    "$schema": None,
    "report_evaluators": "use `agentv report` and gates, which count results",
}
_CASE_KEYS: Mapping[str, str | None] = {
    "name": None,
    "inputs": None,
    "expected_output": None,
    "metadata": None,
    "evaluators": None,
}
REPORT_ADVICE = (
    "to judge the answers, write the objects under `cases` as JSON Lines, and score them with: "
    "agentv score FILE.jsonl --map prompt=inputs --map response=output --extra metadata"
)

Settings = dict[str, JsonValue]


def is_pydantic_evals(value: JsonValue) -> bool:
    """Return True for the content of a dataset of pydantic-evals: cases with `inputs`, and without results."""
    cases = value.get("cases") if isinstance(value, Mapping) else None
    if not isinstance(cases, list) or not cases or is_report(value):
        return False
    return all(isinstance(case, Mapping) and "inputs" in case for case in cases)


def is_report(value: JsonValue) -> bool:
    """Return True for a report of pydantic-evals, whose cases have results; those whose task failed are elsewhere."""
    cases = value.get("cases") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(cases, list):
        return False
    has_results = any(isinstance(case, Mapping) and {"inputs", "output", "assertions"} <= case.keys() for case in cases)
    return has_results or {"failures", "report_evaluator_failures"} <= value.keys()


def convert_pydantic_evals(path: Path, output: Path) -> Converted:  # noqa: ARG001 - the signature of all converters
    """Return the eval file of a dataset. Raises EvalFileError or ConfigError for one that cannot be read."""
    losses = Losses()
    source = open_located(path, losses)
    require(is_pydantic_evals(source.value), path, "it has no cases with `inputs`")
    has_reports = bool(source.get("report_evaluators").value)
    source.drop_unsupported(
        _TOP_LEVEL_KEYS if has_reports else {**_TOP_LEVEL_KEYS, "report_evaluators": None}, "a dataset"
    )
    shared = _evaluators(source.get("evaluators"), set(), {})
    lost_of_all = losses.reasons_since(0)
    cases: list[Settings] = []
    for number, item in enumerate(source.get("cases").items(), 1):
        before = len(losses.errors)
        case = _case(item, number, source)
        lost = tuple(dict.fromkeys((*lost_of_all, *losses.reasons_since(before))))
        cases.append(_with_losses(case, lost, is_judged=bool(shared) or "evaluators" in case))
    top: Settings = {"$schema": "agentv-eval-v2"}
    if source.get("name").text():
        top["dataset"] = source.get("name").text()
    if shared:
        top["evaluators"] = shared
    elif not any("evaluators" in case or "skip" in case for case in cases):
        source.get("evaluators" if "evaluators" in _keys(source) else "cases").drop(
            "no evaluator is carried over: only an empty answer fails here", "add evaluators"
        )
        top["evaluators"] = [{"name": "answered", "type": "length", "min": 1}]
    suite: Settings = {**top, "evalcases": list(cases)}
    return Converted(program="pydantic-evals", suite=suite, cases=len(cases), losses=tuple(losses.found))


def _keys(place: Located) -> frozenset[str]:
    return frozenset(key for key, _ in place.entries())


def _case(case: Located, number: int, source: Located) -> Settings:
    """Return a case; its own evaluators stand after those of the dataset."""
    case.drop_unsupported(_CASE_KEYS, "a case")
    converted: Settings = {"id": _id(case, number, source)}
    converted["input"] = short_messages([{"role": "user", "content": _content(case.get("inputs").value)}], "user")
    expected = case.get("expected_output").value
    if expected is not None:
        converted["expected"] = short_messages([{"role": "assistant", "content": _content(expected)}], "assistant")
    metadata = case.get("metadata").value
    if metadata is not None:
        converted["metadata"] = metadata if isinstance(metadata, Mapping) else {"value": metadata}
    own = case.get("evaluators")
    values: Settings = {}
    if expected is not None:
        values["expected"] = expected
    uses_expected = any(name == "EqualsExpected" for name, _ in _specs(source.get("evaluators")))
    if own.value or uses_expected:
        taken_names: set[str] = set()
        evaluators = [
            *_evaluators(source.get("evaluators"), taken_names, values),
            *_evaluators(own, taken_names, values),
        ]
        if evaluators:
            converted["evaluators"] = evaluators
    return converted


def _with_losses(case: Settings, lost: tuple[str, ...], *, is_judged: bool) -> Settings:
    """Return a case with the reason of its losses: `skip` if no evaluator is left, else `incomplete`."""
    return {**case, ("incomplete" if is_judged else "skip"): lost_reason(lost)} if lost else case


def _id(case: Located, number: int, source: Located) -> str:
    """Return the name of a case, with its number if the name is missing or not unique."""
    name = case.get("name").text()
    names = [other.get("name").text() for other in source.get("cases").items()]
    return name if name and names.count(name) == 1 else f"{name or 'case'}-{number}"


def _content(value: JsonValue) -> JsonValue:
    return value if isinstance(value, str | Mapping) else json.dumps(value, ensure_ascii=False)


def _specs(listed: Located) -> list[tuple[str, Located]]:
    """Return each evaluator's name and its arguments: `Name`, `{Name: value}` or `{Name: {key: value}}`."""
    found: list[tuple[str, Located]] = []
    for item in listed.items():
        entries = list(item.entries())
        found.append(entries[0] if len(entries) == 1 else (item.text(), item))
    return found


class _EvaluatorSpec(Struct):
    """An evaluator that is being converted."""

    name: str
    place: Located
    single_argument: str
    """The name of the argument, if the evaluator is given a single value."""
    expected: JsonValue = None
    """The case's expected output; None without one."""
    has_expected: bool = False
    used: set[str] = field(default_factory=set)

    def get(self, key: str) -> JsonValue:
        """Return an argument."""
        self.used.add(key)
        value = self.place.value
        if isinstance(value, Mapping) and self.place.at and self._is_named(value):
            return value.get(key)
        is_argument = self.name != value and key == self.single_argument
        return value if is_argument else None

    def _is_named(self, value: JsonObject) -> bool:
        return self.single_argument in value or "evaluation_name" in value or value.keys() <= _ARGUMENTS

    def drop(self, what: str, advice: str | None = None) -> None:
        """Record that the evaluator is carried over, but not exactly."""
        self.place.drop(f"`{self.name}` {what}", advice)

    def lose(self, what: str, advice: str | None = None) -> None:
        """Record that the evaluator is not carried over."""
        self.place.lose(f"`{self.name}` {what}", advice)


_ARGUMENTS = frozenset(
    {"value", "case_sensitive", "as_strings", "evaluation_name", "rubric", "model", "include_input", "score",
     "include_expected_output", "model_settings", "assertion", "seconds", "type_name", "criteria", "evaluation_steps",
     "score_range", "query", "expected_tools", "max_calls", "max_requests"}
)  # fmt: skip


def _evaluators(listed: Located, taken_names: set[str], values: JsonObject) -> list[JsonValue]:
    """Return the evaluators of a list; those without a counterpart are recorded."""
    evaluators: list[JsonValue] = []
    for name, place in _specs(listed):
        converter = _CONVERTERS.get(name)
        if converter is None:
            advice = PYDANTIC_EVALS_LOST.get(
                name, "write it as an evaluator of your own (docs/how-to/extending.md) or a code_judge"
            )
            place.lose(f"`{name}` is not carried over", advice)
            continue
        single_argument, convert = converter
        spec = _EvaluatorSpec(
            name, place, single_argument, expected=values.get("expected"), has_expected="expected" in values
        )
        settings = convert(spec)
        if settings is None:
            continue
        stem = str(spec.get("evaluation_name") or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
        unique, number = stem, 1
        while unique in taken_names:
            number += 1
            unique = f"{stem}-{number}"
        taken_names.add(unique)
        evaluators.append({"name": unique, **settings})
    return evaluators


def _equals(spec: _EvaluatorSpec) -> Settings | None:
    return _equality(spec.get("value"))


def _equality(value: JsonValue) -> Settings:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return {"type": "equals", "value": value}
    return {"type": "is_json", "schema": {"const": value}}


def _equals_expected(spec: _EvaluatorSpec) -> Settings | None:
    # Without an expected output there is no result, as in pydantic-evals.
    return _equality(spec.expected) if spec.has_expected else None


def _contains(spec: _EvaluatorSpec) -> Settings | None:
    value = spec.get("value")
    if isinstance(value, Mapping):
        properties: Settings = {key: {"const": item} for key, item in value.items()}
        schema: Settings = {"type": "object", "required": list(value), "properties": properties}
        return {"type": "is_json", "schema": schema}
    if not isinstance(value, str | int | float):
        spec.lose("is not carried over: its value is neither a text nor an object")
        return None
    settings: Settings = {"type": "contains", "value": value}
    return {**settings, "case_sensitive": False} if spec.get("case_sensitive") is False else settings


def _duration(spec: _EvaluatorSpec) -> Settings | None:
    seconds = spec.get("seconds")
    if not isinstance(seconds, int | float):
        spec.lose("is not carried over: its duration is not in seconds", "use trace with max_duration_ms")
        return None
    return {"type": "trace", "max_duration_ms": seconds * 1000}


def _judge(spec: _EvaluatorSpec) -> Settings | None:
    rubric = spec.get("rubric")
    if not isinstance(rubric, str):
        spec.lose("is not carried over: it has no rubric")
        return None
    if spec.get("model"):
        spec.drop(
            f"the judge {spec.get('model')} is not carried over",
            "add it to targets.yaml, and write its name as `target`",
        )
    if spec.get("score"):
        spec.drop("its score is not carried over: the rubric is met or not met", "use an item with `scale: likert5`")
    return {"type": "rubric", "rubrics": [rubric]}


def _geval(spec: _EvaluatorSpec) -> Settings | None:
    steps = _strings(spec.get("evaluation_steps"))
    criteria = spec.get("criteria")
    if not isinstance(criteria, str):
        spec.lose("is not carried over: it has no criteria")
        return None
    text = "\n".join([criteria, *steps])
    return {"type": "rubric", "rubrics": [{"description": text, "id": "quality", "scale": "likert5"}]}


def _strings(value: JsonValue) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


_CONVERTERS: Mapping[str, tuple[str, Callable[[_EvaluatorSpec], Settings | None]]] = {
    "Equals": ("value", _equals),
    "EqualsExpected": ("", _equals_expected),
    "Contains": ("value", _contains),
    "MaxDuration": ("seconds", _duration),
    "LLMJudge": ("rubric", _judge),
    "GEval": ("criteria", _geval),
}
"""For each evaluator, the argument that a single value stands for, and the converter."""

EVALUATOR_NAMES = frozenset(_CONVERTERS) | frozenset(PYDANTIC_EVALS_LOST)
"""The built-in evaluators of pydantic-evals."""
