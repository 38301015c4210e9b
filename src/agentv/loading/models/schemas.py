"""JSON Schemas of everything people write, generated from the models and the plug-ins' settings."""

from collections.abc import Callable
from typing import cast

import msgspec

from agentv.loading.criteria.run_configs import RunConfigModel
from agentv.loading.models.file_model import FileModel
from agentv.loading.models.json_schema import Schema, describe, joined, models_in, rewritten
from agentv.loading.project import ProjectModel
from agentv.loading.suites.models import (
    CaseModel,
    CriterionModel,
    DatasetModel,
    EvaluatorModel,
    PartModel,
    PromptModel,
    SuiteModel,
)
from agentv.loading.targets.models import TargetModel, TargetsFileModel, UseTargetModel
from agentv.registry import Registry, Specs
from agentv.types.errors import PluginError, UnknownNameError
from agentv.types.records.result import EXPORT_KEYS, FLAT_REQUEST, CaseResult

DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS = ("eval", "targets", "config", "evaluation", "results")
_FAILURE = {"$ref": "#/$defs/Failure"}
_REFERENCE = {"type": "string", "pattern": r"\$\{\{"}


_ROW_REQUIRED = ["schema", "run_id", "timestamp", "eval_id", "target", "status", "score"]


def _result_schema() -> Schema:
    """Return the schema of an exported row: the stored shape, with the keys and the flat form of exports."""
    _, parts = msgspec.json.schema_components((CaseResult,))
    parts = {name: rewritten(part, _as_exported) for name, part in parts.items()}
    row, evaluator = parts.pop("CaseResult"), parts["EvaluatorResult"]
    evaluator["required"] = [*evaluator["required"], "status"]
    flat = {FLAT_REQUEST: evaluator["properties"]["evaluator_provider_request"], "evaluator_error": _FAILURE}
    known = {**row["properties"], **evaluator["properties"], **flat}
    known |= {name: row["properties"][name] for name in ("score", "verdict", "status")}
    return {
        "type": "object",
        "properties": {key: known[key] for key in EXPORT_KEYS},
        "required": _ROW_REQUIRED,
        "$defs": parts,
    }


def _as_exported(part: Schema) -> Schema:
    """Return a part as readers need it: bounds of scores without the tolerance, no titles and no empty defaults."""
    bounds = {"minimum": 0, "maximum": 1} if "minimum" in part and "maximum" in part else {}
    return {key: value for key, value in part.items() if key not in ("title", "default")} | bounds


def json_schema(kind: str, specs: Specs) -> Schema:
    """Return the JSON Schema of a file kind, one of KINDS. Raises UnknownNameError."""
    makers: dict[str, Callable[[], Schema]] = {
        "eval": lambda: _eval_schema(specs.evaluators),
        "targets": lambda: _targets_schema(specs.providers),
        "config": lambda: _Definitions().add(ProjectModel),
        "evaluation": lambda: _evaluation_schema(specs.evaluators),
        "results": _result_schema,
    }
    if kind not in makers:
        raise UnknownNameError("kind of file", kind, known=KINDS)
    return {"$schema": DIALECT, "title": f"agentv {kind}", **makers[kind]()}


class _Definitions:
    """Collects `$defs` while the schemas of several models become one."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}

    def add(self, model: type[FileModel]) -> Schema:
        """Return a model's own schema; those that it refers to are collected."""
        whole, *parts = ((each.__name__, describe(each)) for each in models_in(model))
        self.schemas.update(parts)
        return whole[1]

    def add_settings(self, settings: type, prefix: str) -> Schema:
        """Return the schema of a settings dataclass; those that it refers to are collected under a prefix."""
        schema = describe(settings)
        parts = schema.pop("$defs", {})
        renamed = {f"#/$defs/{name}": f"#/$defs/{prefix}{name}" for name in parts}

        def change(part: Schema) -> Schema:
            return {**part, "$ref": renamed[part["$ref"]]} if part.get("$ref") in renamed else part

        self.schemas |= {prefix + name: rewritten(part, change) for name, part in parts.items()}
        return cast(Schema, rewritten(schema, change))


def _eval_schema(registry: Registry) -> Schema:
    definitions = _Definitions()
    top = definitions.add(SuiteModel)
    case = definitions.add(CaseModel)
    prompt = definitions.add(PromptModel)
    part = definitions.add(PartModel)
    evaluator = definitions.add(EvaluatorModel)
    definitions.schemas |= {
        "Case": case,
        "Cases": {
            "anyOf": [
                {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Case"}},
                {"type": "string", "description": "a file of cases, or a pattern of such files"},
                definitions.add(DatasetModel),
            ]
        },
        "Prompts": {
            "type": "array",
            "minItems": 1,
            "items": {"anyOf": [{"type": "string", "minLength": 1}, prompt]},
        },
        "CaseTemplate": {"type": ["object", "null"], "description": "the keys of a case, with {{ column }}"},
        "Content": {"anyOf": [{"type": "string"}, {"type": "array", "items": part}, {"type": ["object", "null"]}]},
        **_evaluator_schemas(definitions, registry, evaluator),
    }
    return {**top, "$defs": definitions.schemas}


def _evaluation_schema(registry: Registry) -> Schema:
    """Return the schema of a criteria door's configuration: its evaluators need no name, and may be nested (PRD)."""
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
    """Return what eval files and configurations have in common: evaluators and criteria, or their names."""
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
    common = definitions.add(TargetModel)
    common["properties"] = {**common["properties"], "settings": {"type": "object"}}
    target = _plugin_schema(definitions, common, registry, "provider", unless="settings")
    definitions.schemas = {name: _or_reference(part) for name, part in definitions.schemas.items()}
    is_second_name: Schema = {"if": {"required": ["use_target"]}, "then": definitions.add(UseTargetModel)}
    definitions.schemas["Targets"] = {"type": "array", "items": {**is_second_name, "else": _or_reference(target)}}
    return {**top, "$defs": definitions.schemas}


def _plugin_schema(
    definitions: _Definitions, common: Schema, registry: Registry, key: str, *, unless: str | None = None
) -> Schema:
    """Return the schema of an object whose keys are the common ones and those of the plug-in that `key` names.

    A name that is not registered may be a plug-in's: nothing is demanded of its own keys, nor of an object that has
    the key `unless`, in which they are nested.
    """
    branches: list[Schema] = []
    for spec in registry:
        try:
            settings = definitions.add_settings(spec.load_settings(), f"{spec.name}.")
        except PluginError:  # its optional packages are not installed: its keys are not known here
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
    """Return a schema in which a number, a boolean or a choice may also be `${{ VAR }}`."""

    def change(part: Schema) -> Schema:
        is_value = part.get("type") in ("integer", "number", "boolean") or ("enum" in part and "type" in part)
        return {"anyOf": [part, _REFERENCE]} if is_value else part

    changed: Schema = rewritten(schema, change)
    return changed
