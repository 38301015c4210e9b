"""Warnings about an eval file that may be one of AgentV 2, for keys that mean something else there than here.

`input` and `expected_output` are keys of both. A file is surely ours if it has a key or evaluator that AgentV 2 does
not have, or if its cases lack `expected_outcome`, without which AgentV 2 skips a case.
"""

from collections.abc import Iterator, Mapping, Sequence

from agentv.importers.agentv.generations import CASE_LISTS, DIALECT_KEY
from agentv.loading.files.documents import JsonPath
from agentv.loading.models.eval_files import SuiteModel
from agentv.loading.models.reader import Reader
from agentv.types.json_value import JsonObject, JsonValue

_SHARED_SUITE_KEYS = frozenset({"$schema", "description", "dataset", "tags", "target", "evaluator", "grader"})
"""Our keys at the top of a file that AgentV 2 has as well, or that it would ignore."""
_OUR_CASE_KEYS = ("expected", "add_evaluators", "turns", "skip", "incomplete")
_WORDS = ("input", "expected_output")
_WISHES = ("expected_outcome", "outcome")
_SHARED_TYPES = ("code_judge", "code", "llm_judge", "composite", "tool_trajectory", "rubric", "rubrics")
_SHARE_MODES = ("in_order", "exact", "superset", "subset")
_ADVICE = "write `dialect: agentv-2` at the top if this is a file of AgentV 2, else `dialect: agentv`"


def warn_of_other_meanings(top: Reader) -> None:
    """Record a warning at the first place of each kind where a file of AgentV 2 would mean something else."""
    value = top.document.value
    if not isinstance(value, Mapping) or DIALECT_KEY in value or not _may_be_agentv(value):
        return
    warned: set[str] = set()
    for at, message in _differences(value):
        if message not in warned:
            warned.add(message)
            top.warn(at, message, allowed=_ADVICE)


def _may_be_agentv(suite: JsonObject) -> bool:
    names = SuiteModel.names()
    our_keys = {names.of(key) for key in suite} - {None, "evalcases", "execution", *_SHARED_SUITE_KEYS}
    cases = [case for _, case in _cases(suite)]
    has_words = any(key in case for case in cases for key in _WORDS)
    if our_keys or not has_words or any(key in case for case in cases for key in _OUR_CASE_KEYS):
        return False
    if not any(key in case for case in cases for key in _WISHES):
        return False
    return all(evaluator.get("type") in _SHARED_TYPES for _, evaluator in _evaluators(suite))


def _differences(suite: JsonObject) -> Iterator[tuple[JsonPath, str]]:
    """Yield each place that means something else in AgentV 2, with what it means here and there."""
    for at, evaluator in _evaluators(suite):
        kind = evaluator.get("type")
        if kind == "composite" and _has_weights(evaluator):
            yield at, "here the weights of a composite's members count; in AgentV 2 only `aggregator.weights` do"
        elif kind == "tool_trajectory" and _scores_shares(evaluator):
            yield at, "here this scores 1 or 0; in AgentV 2 the share of the calls that match"
        elif kind in ("rubric", "rubrics"):
            yield from _open_items((*at, "rubrics"), evaluator.get("rubrics"))
    for at, case in _cases(suite):
        yield from _open_items((*at, "rubrics"), case.get("rubrics"))


def _has_weights(composite: JsonObject) -> bool:
    aggregator = composite.get("aggregator")
    kind = aggregator.get("type", "weighted_average") if isinstance(aggregator, Mapping) else "weighted_average"
    return kind == "weighted_average" and any("weight" in each for _, each in _objects(composite.get("evaluators")))


def _scores_shares(trajectory: JsonObject) -> bool:
    default = "in_order" if "expected" in trajectory else "any_order"
    return "score" not in trajectory and trajectory.get("mode", default) in _SHARE_MODES


def _open_items(at: JsonPath, items: JsonValue) -> Iterator[tuple[JsonPath, str]]:
    """Yield the items of a rubric that do not say whether they are required."""
    for index, item in enumerate(items if isinstance(items, list | tuple) else ()):
        if not (isinstance(item, Mapping) and "required" in item):
            yield (*at, index), "here an item of a rubric without `required` is optional; in AgentV 2 it is required"


def _cases(suite: JsonObject) -> Iterator[tuple[JsonPath, JsonObject]]:
    for key in CASE_LISTS:
        for index, case in _objects(suite.get(key)):
            yield (key, index), case


def _evaluators(suite: JsonObject) -> Iterator[tuple[JsonPath, JsonObject]]:
    """Yield the evaluators of a suite and its cases, with the members of composites."""
    for at, holder in (((), suite), *_cases(suite)):
        execution = holder.get("execution")
        yield from _with_members((*at, "evaluators"), holder.get("evaluators"))
        if isinstance(execution, Mapping):
            yield from _with_members((*at, "execution", "evaluators"), execution.get("evaluators"))


def _with_members(at: JsonPath, listed: JsonValue) -> Iterator[tuple[JsonPath, JsonObject]]:
    for index, evaluator in _objects(listed):
        yield (*at, index), evaluator
        yield from _with_members((*at, index, "evaluators"), evaluator.get("evaluators"))


def _objects(listed: JsonValue) -> Iterator[tuple[int, JsonObject]]:
    items: Sequence[JsonValue] = listed if isinstance(listed, list | tuple) else ()
    return ((index, item) for index, item in enumerate(items) if isinstance(item, Mapping))
