"""Inputs as the cases and answers that a run stores, and back again."""

from datetime import datetime, timedelta
from pathlib import Path

from msgspec import structs
from msgspec.structs import replace

from agentv.engine.calling.given_answer import metadata_of, question_of
from agentv.engine.logs.files import without_rotation
from agentv.loading.files.places import find_repository_root
from agentv.loading.suites.suites import relative_name
from agentv.scoring.keys.identity import digest
from agentv.types.cases import EvalCase, Location
from agentv.types.evaluation_input import (
    EvaluationInput,
    input_messages,
    milliseconds_of,
    output_messages,
    without_impossible_facts,
)
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message
from agentv.types.messages_json import message_to_json, messages_to_json
from agentv.types.records.answer import Answer, Origin, ResultKey
from agentv.types.records.run import CaseRecord

_ID_LENGTH = 16
_LOG_ENDINGS = (".jsonl", ".json", ".ndjson", ".log")


def eval_id_of(given: EvaluationInput, source: str) -> str:
    """Return the id of the case that an answer belongs to: the input's own, else a hash of history and prompt.

    An answer without any question is a case of its own, named by its `source`.
    """
    if given.id is not None:
        return given.id
    messages = messages_to_json(input_messages(given))
    return digest(messages)[:_ID_LENGTH] if messages else source


def case_of_input(given: EvaluationInput, eval_id: str, location: Location | None = None) -> EvalCase:
    """Return the case of a given answer: prompt and history, and the ground truth if it is a text."""
    truth = given.ground_truth
    return EvalCase(
        id=eval_id,
        input_messages=input_messages(given),
        expected_messages=(Message("assistant", truth),) if isinstance(truth, str) else (),
        tags=given.tags,
        metadata=metadata_of(given),
        location=location,
    )


def suite_of_file(path: Path) -> str:
    """Return the path of a configuration as the name of a suite: relative to the repository root."""
    return relative_name(path, find_repository_root(path.resolve().parent))


def target_of_file(file: str) -> str:
    """Return the name of a file without its endings, for the target whose answers are in it; `stdin` for `-`.

    A log that was rotated keeps the target that it had before.
    """
    name = Path(file).name.removesuffix(".gz") or Path(file).name
    unrotated = without_rotation(name)
    name = unrotated if unrotated.endswith(_LOG_ENDINGS) else name
    for ending in _LOG_ENDINGS:
        name = name.removesuffix(ending) or name
    return "stdin" if name == "-" else name


def answer_of_input(
    given: EvaluationInput, slot: ResultKey, key: str, origin: Origin, *, now: datetime, is_first: bool
) -> Answer:
    """Return the answer of an input. `is_first` is False if the stored case was made from another input.

    The field `given` of the answer holds the keys of the input that nothing else stores.
    """
    ended_at = given.timestamp or now
    answer = Answer(
        slot=slot,
        answer_key=key,
        text=given.text,
        output_messages=output_messages(given),
        usage=given.usage,
        cost_usd=given.cost_usd,
        billed_usd=0.0,
        started_at=_started_at(ended_at, given.duration_ms or 0.0),
        ended_at=ended_at,
        duration_ms=given.duration_ms,
        origin=origin,
    )
    fields, stored = _fields_of(given), _stored_fields(_case_facts(given, slot) if is_first else None, answer)
    unstored = {name: fields.get(name) for name in {**fields, **stored} if fields.get(name) != stored.get(name)}
    if not is_first:
        unstored |= {name: fields.get(name) for name in _CASE_KEYS}
    return replace(answer, given=unstored) if unstored else answer


def _started_at(ended_at: datetime, duration_ms: float) -> datetime:
    try:
        return ended_at - timedelta(milliseconds=duration_ms)
    except OverflowError:  # before the first day of the calendar
        return ended_at


def _case_facts(given: EvaluationInput, slot: ResultKey) -> CaseRecord:
    """Return what the stored case of an input says about the input."""
    return CaseRecord(
        case_key="",
        suite=slot.suite,
        eval_id=slot.eval_id,
        file="",
        line=0,
        session_id=given.session_id,
        question=question_of(given),
        input_messages=input_messages(given),
        reference_answer=given.ground_truth if isinstance(given.ground_truth, str) else None,
        tags=given.tags,
        metadata=metadata_of(given),
    )


_CASE_KEYS = ("prompt", "messageHistory", "criteria", "groundTruth", "sessionId", "metadata", "tags")
"""Keys of an input that a stored case holds."""
_IMPLIED_KEYS = ("id", "target", "timestamp")
"""Keys of an input that follow from the result key and the time of its answer."""


def _fields_of(given: EvaluationInput) -> dict[str, JsonValue]:
    """Return an input as JSON, without `_IMPLIED_KEYS`."""
    fields = {name: value for name, value in given.to_dict().items() if name not in _IMPLIED_KEYS}
    return {**fields, "metadata": metadata_of(given)}


def _stored_fields(case: CaseRecord | None, answer: Answer) -> dict[str, JsonValue]:
    """Return the known keys of an input that a stored case and answer hold, without `_IMPLIED_KEYS`."""
    output = answer.output_messages
    known: dict[str, JsonValue] = {
        "response": answer.text if output is None else message_to_json(output[-1]),
        "durationMs": answer.duration_ms,
        "usage": None if answer.usage is None else structs.asdict(answer.usage),
        "costUsd": answer.cost_usd,
    }
    if case is not None:
        known |= {
            "criteria": [],
            "groundTruth": case.reference_answer,
            "sessionId": case.session_id,
            "metadata": case.metadata,
            "tags": list(case.tags) or None,
        }
        if output is None:
            known["prompt"] = case.question or None
        else:
            known["messageHistory"] = messages_to_json((*case.input_messages, *output[:-1]))
    return {name: value for name, value in known.items() if value is not None}


def input_of(case: CaseRecord | None, answer: Answer) -> EvaluationInput:
    """Return the input that a stored case and answer were made of. Raises EvalFileError if it cannot be read."""
    fields = {**_stored_fields(case, answer), **(answer.given or {})}
    implied: dict[str, JsonValue] = {
        "id": answer.slot.eval_id,
        "target": answer.slot.target,
        "timestamp": milliseconds_of(answer.ended_at),
    }
    stored = {**implied, **{name: value for name, value in fields.items() if value is not None}}
    return EvaluationInput.from_dict(without_impossible_facts(stored))
