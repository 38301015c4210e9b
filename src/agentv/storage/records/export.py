"""Results as exported by `-o x.jsonl` and `-o x.yaml` (docs/reference/results-and-verdicts.md)."""

from msgspec.structs import replace

from agentv.storage.records.encode import to_record
from agentv.storage.records.json_line import decode, encode
from agentv.types.evaluation import EvaluatorResult
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.records.result import EXPORT_KEYS, FLAT_REQUEST, CaseResult

_SINGLE_FORM_FIELDS = ("hits", "misses", "reasoning", "expected_aspect_count", "raw_aspects")


def export_record(result: CaseResult, *, include_trace: bool = False) -> JsonObject:
    """Return a result as exports write it; `trace` and `output_messages`, also of `partial`, only with `include_trace`.

    A case in the single form has no `evaluator_results`: its evaluator's fields are at the top (seed REQ-EVAL-008).
    Values from plug-ins that are not JSON are converted as in the run folder.
    """
    record = to_record(result)
    if not include_trace:
        record.pop("trace", None)
        record.pop("output_messages", None)
        if result.partial is not None:
            record["partial"] = to_record(replace(result.partial, trace=None, output_messages=None))
    if result.single_form:
        record |= _flat_fields(result.evaluator_results)
        record.pop("evaluator_results", None)
    else:
        record["evaluator_results"] = [to_record(each) for each in result.evaluator_results]
    return decode(encode({key: record[key] for key in EXPORT_KEYS if key in record}))


def _flat_fields(evaluators: tuple[EvaluatorResult, ...]) -> dict[str, JsonValue]:
    if not evaluators:
        return {}
    record = to_record(evaluators[0])
    flat = {key: record[key] for key in _SINGLE_FORM_FIELDS if key in record}
    if "evaluator_provider_request" in record:
        flat[FLAT_REQUEST] = record["evaluator_provider_request"]
    if "error" in record:
        flat["evaluator_error"] = record["error"]
    return flat
