"""JSON Schemas of all files that people write, generated from the models and the settings of plug-ins."""

from collections.abc import Callable
from typing import cast, get_args

from agentv.loading.criteria.run_configs import RunConfigModel
from agentv.loading.models.file_model import FileModel
from agentv.loading.models.json_schema import Schema, adapter_of, finished, joined, models_in, rewritten
from agentv.loading.project import ProjectModel
from agentv.loading.suites.models import (
    CaseFilesModel,
    CaseModel,
    CriterionModel,
    EvaluatorModel,
    PartModel,
    SuiteModel,
)
from agentv.loading.targets.models import TargetModel, TargetsFileModel
from agentv.registry import Registry, Specs
from agentv.types.errors import PluginError, UnknownNameError
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
    """Return the schema of one result in a results file."""
    return {
        "type": "object",
        "properties": _ROW,
        "required": ["schema", "run_id", "timestamp", "eval_id", "target", "status", "score"],
        "$defs": {"evaluator_result": _EVALUATOR},
    }


DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS = ("eval", "targets", "config", "evaluation", "results")
_REFERENCE = {"type": "string", "pattern": r"\$\{\{"}


def json_schema(kind: str, specs: Specs) -> Schema:
    """Return the JSON Schema of a file kind, one of KINDS. Raises UnknownNameError."""
    makers: dict[str, Callable[[], Schema]] = {
        "eval": lambda: _eval_schema(specs.evaluators),
        "targets": lambda: _targets_schema(specs.providers),
        "config": lambda: _Definitions().add(ProjectModel),
        "evaluation": lambda: _evaluation_schema(specs.evaluators),
        "results": result_schema,
    }
    if kind not in makers:
        raise UnknownNameError("kind of file", kind, known=KINDS)
    return {"$schema": DIALECT, "title": f"agentv {kind}", **makers[kind]()}


class _Definitions:
    """The `$defs` of one schema that is built from several models."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}

    def add(self, model: type[FileModel]) -> Schema:
        """Return a model's own schema; add those that it refers to."""
        whole, *parts = (
            (each.__name__, finished(adapter_of(cast(type, each)).json_schema())) for each in models_in(model)
        )
        self.schemas.update(parts)
        return whole[1]

    def add_settings(self, settings: type, prefix: str) -> Schema:
        """Return the schema of a settings class; add those that it refers to, with a prefix."""
        return self._collect(adapter_of(settings).json_schema(ref_template=f"#/$defs/{prefix}{{model}}"), prefix)

    def _collect(self, schema: Schema, prefix: str) -> Schema:
        for name, part in schema.pop("$defs", {}).items():
            self.schemas[prefix + name] = finished(part)
        return finished(schema)


def _eval_schema(registry: Registry) -> Schema:
    definitions = _Definitions()
    top = definitions.add(SuiteModel)
    case = definitions.add(CaseModel)
    part = definitions.add(PartModel)
    evaluator = definitions.add(EvaluatorModel)
    definitions.schemas |= {
        "Case": case,
        "Cases": {
            "anyOf": [
                {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Case"}},
                {"type": "string", "description": "a file of cases, or a pattern of such files"},
                definitions.add(CaseFilesModel),
            ]
        },
        "Content": {"anyOf": [{"type": "string"}, {"type": "array", "items": part}, {"type": ["object", "null"]}]},
        **_evaluator_schemas(definitions, registry, evaluator),
    }
    return {**top, "$defs": definitions.schemas}


def _evaluation_schema(registry: Registry) -> Schema:
    """Return the schema of a configuration of the criteria API: evaluators need no name, and may be nested."""
    definitions = _Definitions()
    top = definitions.add(RunConfigModel)
    common = definitions.add(EvaluatorModel)
    common["required"] = [key for key in common.get("required", ()) if key != "name"]
    common["properties"] = {**common["properties"], "config": {"type": "object"}}
    definitions.schemas |= _evaluator_schemas(definitions, registry, common, unless="config")
    return {**top, "$defs": definitions.schemas}


def _evaluator_schemas(
    definitions: _Definitions, registry: Registry, common: Schema, *, unless: str | None = None
) -> dict[str, Schema]:
    """Return the schemas shared by eval files and configurations: evaluators and criteria, or their names."""
    criterion = definitions.add(CriterionModel)
    schemas: dict[str, Schema] = {
        "Criteria": {"type": "array", "items": {"anyOf": [{"type": "string"}, criterion]}},
        "Evaluators": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Evaluator"}]}},
    }
    known = {"enum": list(registry.names())}
    return {
        **{name: {"anyOf": [schema, {"type": "null"}]} for name, schema in schemas.items()},
        "Evaluator": _plugin_schema(definitions, common, registry, "type", unless=unless),
        "EvaluatorType": {"anyOf": [known, {"type": "string", "description": "a plug-in's own type"}]},
    }


def _targets_schema(registry: Registry) -> Schema:
    definitions = _Definitions()
    top = definitions.add(TargetsFileModel)
    target = _plugin_schema(definitions, definitions.add(TargetModel), registry, "provider")
    definitions.schemas = {name: _or_reference(part) for name, part in definitions.schemas.items()}
    definitions.schemas["Targets"] = {"type": "array", "items": _or_reference(target)}
    return {**top, "$defs": definitions.schemas}


def _plugin_schema(
    definitions: _Definitions, common: Schema, registry: Registry, key: str, *, unless: str | None = None
) -> Schema:
    """Return the schema of an object with the common keys and those of the plug-in that `key` names.

    The own keys are not checked for an unregistered name, which may be a plug-in's, nor for an object with the key
    `unless`, in which they are nested.
    """
    branches: list[Schema] = []
    for spec in registry:
        try:
            settings = definitions.add_settings(spec.load_settings(), f"{spec.name}.")
        except PluginError:  # its optional packages are not installed, so its keys are unknown
            continue
        names = [spec.name, *(alias for alias, owner in registry.aliases.items() if owner == spec.name)]
        whole = joined(common, settings)
        whole["properties"] = {**whole["properties"], key: {"enum": names}}
        definitions.schemas[spec.name] = whole
        condition: Schema = {"properties": {key: {"enum": names}}, "required": [key]}
        if unless is not None:
            condition["not"] = {"required": [unless]}
        branches.append({"if": condition, "then": {"$ref": f"#/$defs/{spec.name}"}})
    return {**common, "additionalProperties": True, "allOf": [*common.get("allOf", []), *branches]}


def _or_reference(schema: Schema) -> Schema:
    """Return a schema in which a number, a boolean or an enum may also be `${{ VAR }}`."""

    def change(part: Schema) -> Schema:
        is_value = part.get("type") in ("integer", "number", "boolean") or ("enum" in part and "type" in part)
        return {"anyOf": [part, _REFERENCE]} if is_value else part

    changed: Schema = rewritten(schema, change)
    return changed
