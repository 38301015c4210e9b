"""Records of Langfuse and LangSmith with their place in a trace: a root, which is an answer, or one of its steps."""

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from agentv.messages.logs.services import is_langfuse, is_langsmith
from agentv.types.json_value import JsonObject, JsonValue, objects_of

Program: TypeAlias = Literal["Langfuse", "LangSmith"]


class TraceRecord(Struct, frozen=True):
    """An observation or a trace of Langfuse, or a run of LangSmith."""

    program: Program
    trace_id: str
    id: str
    parent_id: str
    """Empty for a root."""
    value: JsonObject
    """The record without the steps that it lists."""


def trace_records(value: JsonObject) -> list[TraceRecord]:
    """Return a record and the steps that it lists; [] for any other value, and for a record without its ids."""
    found = [*_runs(value, "", "")] if is_langsmith(value) else [*_observations(value)] if is_langfuse(value) else []
    return found if all(record.trace_id and record.id for record in found) else []


def _runs(run: JsonObject, parent_id: str, own_id: str) -> Iterator[TraceRecord]:
    """Yield a run and those that it lists. `own_id` is the id of a listed run that has none."""
    run_id = _text(run, "id", "run_id") or own_id
    parent_id = "" if run.get("is_root") is True else _text(run, "parent_run_id") or parent_id
    trace_id = _text(run, "trace_id") or ("" if parent_id else run_id)
    steps = list(objects_of(run.get("child_runs")))
    yield TraceRecord("LangSmith", trace_id, run_id, parent_id, {**run, "child_runs": []} if steps else run)
    for number, step in enumerate(steps):
        yield from _runs({"trace_id": trace_id, **step}, run_id, f"{run_id}.{number}")


def _observations(value: JsonObject) -> Iterator[TraceRecord]:
    inner = value.get("trace")
    trace = inner if isinstance(inner, Mapping) else value
    trace_id = _text(trace, "traceId", "trace_id")
    if trace_id:
        is_root = trace.get("isRootObservation", trace.get("is_root_observation")) is True
        parent_id = "" if is_root else _text(trace, "parentObservationId", "parent_observation_id")
        yield TraceRecord("Langfuse", trace_id, _text(trace, "id"), parent_id, value)
        return
    trace_id = _text(trace, "id")
    steps = list(objects_of(value.get("observations")))
    yield TraceRecord("Langfuse", trace_id, trace_id, "", {**value, "observations": []} if steps else value)
    for number, step in enumerate(steps):
        parent_id = _text(step, "parentObservationId", "parent_observation_id")
        own_id = _text(step, "id") or f"{trace_id}.{number}"
        yield TraceRecord("Langfuse", trace_id, own_id, parent_id or trace_id, step)


def _text(value: JsonObject, *names: str) -> str:
    """Return the first id under these names; an empty text if there is none."""
    found: JsonValue = next((value[name] for name in names if value.get(name)), "")
    return str(found)
