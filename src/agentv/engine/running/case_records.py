"""The records of cases, as a run stores them before their first call."""

from msgspec.structs import replace

from agentv.engine.calling.fingerprints import StoredEvaluators
from agentv.engine.planning.prepared_case import PreparedCase
from agentv.scoring.keys.identity import (
    canonical_json,
    case_key,
    criterion_to_json,
    files_of,
    turn_rules_to_json,
    turn_to_json,
)
from agentv.types.cases import EvalCase
from agentv.types.json_value import JsonObject
from agentv.types.messages import FilePart
from agentv.types.messages_json import reference_answer
from agentv.types.records.run import CaseRecord


def has_attachments(case: EvalCase) -> bool:
    """Return True if a case has binary files, which are stored with it."""
    return any(part.text is None for part in files_of((*case.input_messages, *case.expected_messages)))


def case_record(prepared: PreparedCase, evaluators: StoredEvaluators) -> CaseRecord:
    """Return the record of a case in `cases.jsonl`."""
    case, suite = prepared.case, prepared.task.suite
    record = CaseRecord(
        case_key=case_key(prepared.keys, evaluators.canonical),
        suite=suite.path,
        eval_id=case.id,
        file=case.location.path if case.location else suite.path,
        line=case.location.line if case.location else 0,
        question=prepared.prompt.question,
        input_messages=case.input_messages,
        expected_outcome=case.expected_outcome,
        expected_messages=case.expected_messages,
        reference_answer=reference_answer(case.expected_messages),
        evaluators=evaluators.json,
        tags=prepared.tags,
        metadata=case.metadata,
    )
    files = files_of(case.input_messages)
    if case.incomplete is not None:
        record = replace(record, incomplete=case.incomplete)
    if files or prepared.criteria or case.prompt is not None:  # most cases have none of them (bench/echo_cases.py)
        record = replace(
            record,
            criteria=tuple(map(criterion_to_json, prepared.criteria)),
            files=tuple(map(_file_to_json, files)),
            prompt=case.prompt,
        )
    return _with_turns(record, prepared, evaluators) if case.is_conversation else record


def _with_turns(record: CaseRecord, prepared: PreparedCase, evaluators: StoredEvaluators) -> CaseRecord:
    """Return the record of a case with its turns, which are a part of its key."""
    case = prepared.case
    turns, rules = tuple(map(turn_to_json, case.turns)), turn_rules_to_json(case.turn_rules)
    turns_in_key = [turn_to_json(turn, evaluators.settings_class) for turn in case.turns]
    messages = (*case.input_messages, *[turn.input for turn in case.turns])
    return replace(
        record,
        case_key=case_key(prepared.keys, canonical_json([evaluators.in_key, turns_in_key, rules])),
        files=tuple(map(_file_to_json, files_of(messages))),
        turns=turns,
        turn_rules=rules,
    )


def _file_to_json(file: FilePart) -> JsonObject:
    return {"path": file.path, "sha256": file.sha256, "bytes": file.size}
