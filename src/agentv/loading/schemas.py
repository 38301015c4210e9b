"""JSON Schemas of everything people write, generated from the models and the plug-ins' settings."""

from collections.abc import Callable

from pydantic import BaseModel, TypeAdapter

from agentv.loading.eval_models import (
    CaseFilesModel,
    CaseModel,
    CriterionModel,
    EvaluatorModel,
    PartModel,
    SuiteModel,
)
from agentv.loading.project import ProjectModel
from agentv.loading.result_schema import result_schema
from agentv.loading.schema_parts import Schema, finished, joined, rewritten
from agentv.loading.settings import settings_adapter
from agentv.loading.target_models import TargetModel, TargetsFileModel
from agentv.registry import Registry, Specs
from agentv.types.errors import PluginError, UnknownNameError

DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS = ("eval", "targets", "config", "results")
_REFERENCE = {"type": "string", "pattern": r"\$\{\{"}


def json_schema(kind: str, specs: Specs) -> Schema:
    """Return the JSON Schema of a file kind: `eval`, `targets`, `config` or `results`. Raises UnknownNameError."""
    makers: dict[str, Callable[[], Schema]] = {
        "eval": lambda: _eval_schema(specs.evaluators),
        "targets": lambda: _targets_schema(specs.providers),
        "config": lambda: _Definitions().add(ProjectModel),
        "results": result_schema,
    }
    if kind not in makers:
        raise UnknownNameError("kind of file", kind, known=KINDS)
    return {"$schema": DIALECT, "title": f"agentv {kind}", **makers[kind]()}


class _Definitions:
    """Collects `$defs` while the schemas of several models become one."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}

    def add(self, model: type[BaseModel]) -> Schema:
        """Return a model's own schema; those that it refers to are collected."""
        return self._collect(model.model_json_schema(ref_template="#/$defs/{model}"), "")

    def add_settings(self, settings: type, prefix: str) -> Schema:
        """Return the schema of a settings dataclass; those that it refers to are collected under a prefix."""
        adapter: TypeAdapter[object] = settings_adapter(settings)
        return self._collect(adapter.json_schema(ref_template=f"#/$defs/{prefix}{{model}}"), prefix)

    def _collect(self, schema: Schema, prefix: str) -> Schema:
        for name, part in schema.pop("$defs", {}).items():
            self.schemas[prefix + name] = finished(part)
        return finished(schema)


def _eval_schema(registry: Registry) -> Schema:
    definitions = _Definitions()
    top = definitions.add(SuiteModel)
    case = definitions.add(CaseModel)
    part, criterion = definitions.add(PartModel), definitions.add(CriterionModel)
    evaluator = _plugin_schema(definitions, definitions.add(EvaluatorModel), registry, "type")
    known = {"enum": list(registry.names())}
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
        "Criteria": {"type": "array", "items": {"anyOf": [{"type": "string"}, criterion]}},
        "Evaluators": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Evaluator"}]}},
        "Evaluator": evaluator,
        "EvaluatorType": {"anyOf": [known, {"type": "string", "description": "a plug-in's own type"}]},
    }
    for name in ("Criteria", "Evaluators"):
        definitions.schemas[name] = {"anyOf": [definitions.schemas[name], {"type": "null"}]}
    return {**top, "$defs": definitions.schemas}


def _targets_schema(registry: Registry) -> Schema:
    definitions = _Definitions()
    top = definitions.add(TargetsFileModel)
    target = _plugin_schema(definitions, definitions.add(TargetModel), registry, "provider")
    definitions.schemas = {name: _or_reference(part) for name, part in definitions.schemas.items()}
    definitions.schemas["Targets"] = {"type": "array", "items": _or_reference(target)}
    return {**top, "$defs": definitions.schemas}


def _plugin_schema(definitions: _Definitions, common: Schema, registry: Registry, key: str) -> Schema:
    """Return the schema of an object whose keys are the common ones and those of the plug-in that `key` names.

    A name that is not registered may be a plug-in's: nothing is demanded of its own keys.
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
        condition = {"properties": {key: {"enum": names}}, "required": [key]}
        branches.append({"if": condition, "then": {"$ref": f"#/$defs/{spec.name}"}})
    return {**common, "additionalProperties": True, "allOf": [*common.get("allOf", []), *branches]}


def _or_reference(schema: Schema) -> Schema:
    """Return a schema in which a number, a boolean or a choice may also be `${{ VAR }}`."""

    def change(part: Schema) -> Schema:
        is_value = part.get("type") in ("integer", "number", "boolean") or ("enum" in part and "type" in part)
        return {"anyOf": [part, _REFERENCE]} if is_value else part

    changed: Schema = rewritten(schema, change)
    return changed
