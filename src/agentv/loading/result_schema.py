"""The JSON Schema of exported rows (formats.md, section 4), kept by hand: rows are written by us, not by people.

Readers ignore unknown keys, so nothing here forbids them.
"""

from typing import get_args

from agentv.loading.schema_parts import Schema
from agentv.types.evaluation import EvaluatorStatus, JudgeRole, Verdict
from agentv.types.failures import FAILURE_KINDS
from agentv.types.records.result import RowStatus

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_NUMBER: Schema = {"type": "number"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_OBJECT: Schema = {"type": "object"}
_OBJECTS: Schema = {"type": "array", "items": _OBJECT}
_YES: Schema = {"type": "boolean"}
_SCORE: Schema = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
_VERDICT: Schema = {"enum": [*get_args(Verdict), None]}
_ERROR: Schema = {
    "type": "object",
    "properties": {"kind": {"enum": list(FAILURE_KINDS)}, "message": _TEXT, "stage": _TEXT},
    "required": ["kind", "message"],
}
_CRITERION: Schema = {
    "type": "object",
    "properties": {"criterion_name": _TEXT, "value": _SCORE, "scale": _TEXT, "error": {"type": ["string", "null"]}},
    "required": ["criterion_name"],
}
_JUDGE_CALL: Schema = {
    "type": "object",
    "properties": {"judge": _TEXT, "role": {"enum": list(get_args(JudgeRole))}, "reply": _TEXT},
    "required": ["judge", "reply"],
}
_JUDGED: Schema = {
    "score": _SCORE,
    "verdict": _VERDICT,
    "hits": _TEXTS,
    "misses": _TEXTS,
    "reasoning": _TEXT,
    "expected_aspect_count": _COUNT,
    "raw_aspects": _TEXTS,
    "evaluator_provider_request": _OBJECT,
    "evaluator_raw_request": _OBJECT,
    "duration_ms": _NUMBER,
    "cost_usd": _NUMBER,
    "error": _ERROR,
}
_EVALUATOR: Schema = {
    "type": "object",
    "properties": {
        **_JUDGED,
        "name": _TEXT,
        "type": _TEXT,
        "status": {"enum": list(get_args(EvaluatorStatus))},
        "weight": {"type": "number", "minimum": 0},
        "required": {"type": ["boolean", "number"]},
        "results": {"type": "array", "items": _CRITERION},
        "judge_calls": {"type": "array", "items": _JUDGE_CALL},
        "usage": _OBJECT,
        "evaluator_results": {"type": "array", "items": {"$ref": "#/$defs/evaluator_result"}},
    },
    "required": ["name", "type", "status", "score"],
}
_ROW: Schema = {
    **_JUDGED,
    "schema": {"type": "string", "pattern": "^agentv-result-"},
    "run_id": _TEXT,
    "timestamp": {"type": "string", "format": "date-time"},
    "eval_id": _TEXT,
    "suite": _TEXT,
    "dataset": _TEXT,
    "conversation_id": _TEXT,
    "tags": _TEXTS,
    "metadata": _OBJECT,
    "target": _TEXT,
    "trial": _COUNT,
    "attempt": _COUNT,
    "generation": _COUNT,
    "status": {"enum": list(get_args(RowStatus))},
    "candidate_answer": _TEXT,
    "evaluator_results": {"type": "array", "items": {"$ref": "#/$defs/evaluator_result"}},
    "evaluator_error": _ERROR,
    "trace_summary": _OBJECT,
    "trace": _OBJECTS,
    "output_messages": _OBJECTS,
    "agent_provider_request": _OBJECT,
    "lm_provider_request": _OBJECT,
    "usage_by": _OBJECT,
    "cached": _YES,
}


def result_schema() -> Schema:
    """Return the schema of one row of results."""
    return {
        "type": "object",
        "properties": _ROW,
        "required": ["schema", "run_id", "timestamp", "eval_id", "target", "status", "score"],
        "$defs": {"evaluator_result": _EVALUATOR},
    }
