"""Older and exported lines -> the present form, dict by dict."""

from collections.abc import Mapping
from typing import Any

from agentv.types.json_value import JsonObject

_REQUEST_NAMES = ("evaluator_provider_request", "evaluator_raw_request", "grader_raw_request")
"""What a judge was sent has had three names; the first is written, all are read."""


def upgrade_answer(record: JsonObject) -> JsonObject:
    """Return an answer with the keys that its first versions left out."""
    return {"answer_key": "", "text": "", "duration_ms": 0.0, **_without_none(record)}


def upgrade_result(record: JsonObject) -> JsonObject:
    """Return a result, stored or exported, with the keys of the present form.

    An exported row of the single form has its only evaluator's fields at the top; its name is not known there.
    """
    upgraded: dict[str, Any] = {"dataset": "", "run_id": "", "score": None, "verdict": None, **_without_none(record)}
    if isinstance(upgraded.get("cached"), Mapping):
        upgraded["cached"] = True
    if "evaluator_results" in record:
        upgraded["evaluator_results"] = _evaluators(record["evaluator_results"])
    else:
        upgraded |= {"single_form": True, "evaluator_results": _only_evaluator(record)}
    return upgraded


def _only_evaluator(record: JsonObject) -> object:
    if record.get("score") is None:
        return []
    of_the_row = ("status", "duration_ms", "cost_usd", "verdict", "error")
    top = {key: value for key, value in record.items() if key not in of_the_row}
    error = record.get("evaluator_error")
    if error is not None:
        top |= {"error": error, "status": "error"}
    return _evaluators([{**top, "name": "evaluator", "type": "llm_judge"}])


def _evaluators(listed: object) -> object:
    return [_evaluator(each) for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else listed


def _evaluator(record: JsonObject) -> JsonObject:
    known = _without_none(record)
    upgraded: dict[str, Any] = {"type": "llm_judge", "score": 0.0, **known}
    request = next((known[name] for name in _REQUEST_NAMES if name in known), None)
    if request is not None:
        upgraded["evaluator_provider_request"] = request
    if isinstance(known.get("error"), Mapping):
        upgraded["error"] = {"stage": "evaluator", **known["error"]}
    if "evaluator_results" in known:
        upgraded["evaluator_results"] = _evaluators(known["evaluator_results"])
    return upgraded


def _without_none(record: JsonObject) -> dict[str, Any]:
    return {key: value for key, value in record.items() if value is not None}
