"""JSON Schemas of the files that people write and of exported rows, generated from models and settings."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast, get_args

import msgspec
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from agentv.loading.criteria.run_configs import RunConfigModel
from agentv.loading.models.core_schema import NOTE_KEY, ListNote, ObjectNote, SpellingsNote, object_schema
from agentv.loading.models.eval_files import (
    CaseModel,
    DatasetModel,
    EvaluatorModel,
    PartModel,
    PromptModel,
    SuiteModel,
)
from agentv.loading.models.file_model import DefinedAs, Names, file_fields, has_members, is_shared
from agentv.loading.models.targets_files import TargetModel, TargetsFileModel, UseTargetModel
from agentv.loading.project import ProjectModel
from agentv.registry import EvaluatorSpec, ProviderSpec, Registry, S, Specs
from agentv.types.errors import PluginError, UnknownNameError
from agentv.types.messages import Message
from agentv.types.records.result import EXPORT_KEYS, ORIGIN, RAW_REQUEST, REQUEST, CaseResult
from agentv.types.scales import EvaluationCriteria
from agentv.types.structs import StructField, has_fields

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema, or a part of one: JSON whose shape is the standard's, not ours."""

_DEFINED_AS_KEY = "x-defined-as"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS = ("eval", "targets", "config", "evaluation", "results")
_FAILURE_REFERENCE = {"$ref": "#/$defs/Failure"}
_ORIGIN = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("file", "trace_id", "span_id")},
        **{name: {"type": "integer"} for name in ("line", "part")},
    },
}
_VARIABLE_REFERENCE = {"type": "string", "pattern": r"\$\{\{"}
_ROW_REQUIRED = ["schema", "run_id", "timestamp", "eval_id", "target", "status", "score"]


def with_spellings(schema: Schema, names: Names) -> Schema:
    """Return an object's schema that accepts every spelling of its keys, and lists only ours."""
    others: dict[str, set[str]] = {name: set() for name in names.canonical}
    for spelling, name in names.spellings.items():
        if spelling != name:
            others[name].add(spelling)
    properties = schema.get("properties", {})
    patterns = {
        f"^({'|'.join(map(re.escape, sorted(spellings)))})$": properties.get(name, {})
        for name, spellings in others.items()
        if spellings
    }
    required = schema.get("required", [])
    single_required = [name for name in required if not others.get(name)]
    spelled_required = [sorted({name} | others[name]) for name in required if others.get(name)]
    accepting = _without(schema, "required")
    if patterns:
        accepting["patternProperties"] = patterns
    if single_required:
        accepting["required"] = single_required
    if spelled_required:
        accepting["allOf"] = [{"anyOf": [{"required": [spelling]} for spelling in group]} for group in spelled_required]
    return accepting


def _is_redundant(key: str, value: object) -> bool:
    return (key == "title" and isinstance(value, str)) or (key == "default" and value is None)


def _without(mapping: Schema, key: str) -> Schema:
    return {name: value for name, value in mapping.items() if name != key}


def joined(first: Schema, second: Schema) -> Schema:
    """Return the schema of an object that has the keys of both; `second` wins."""
    patterns = {**first.get("patternProperties", {}), **second.get("patternProperties", {})}
    schema: Schema = {
        "type": "object",
        "properties": {**first.get("properties", {}), **second.get("properties", {})},
        "required": list(dict.fromkeys([*first.get("required", []), *second.get("required", [])])),
        "allOf": [*first.get("allOf", []), *second.get("allOf", [])],
        "patternProperties": patterns,
        "additionalProperties": False,
    }
    if "description" in second:
        schema["description"] = second["description"]
    return {key: value for key, value in schema.items() if value or value is False}


def rewritten(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    """Return a schema with `change` applied to every object in it, the innermost first."""
    if isinstance(schema, dict):
        return change({key: rewritten(value, change) for key, value in schema.items()})
    if isinstance(schema, list):
        return [rewritten(item, change) for item in schema]
    return schema


def finished(schema: Schema) -> Schema:
    """Return a schema whose parts refer to their definitions, without pydantic's titles and empty defaults."""

    def change(part: Schema) -> Schema:
        if _DEFINED_AS_KEY in part:
            described = {key: part[key] for key in ("description",) if key in part}
            return {**described, "$ref": f"#/$defs/{part[_DEFINED_AS_KEY]}"}
        return {key: value for key, value in part.items() if not _is_redundant(key, value)}

    return cast(Schema, rewritten(schema, change))


def describe(kind: type) -> Schema:
    """Return the JSON Schema of a class, generated from the schema that reads it."""
    return finished(_Describer().generate(object_schema(kind)))


class _Describer(GenerateJsonSchema):
    """Generates a JSON Schema from types and the notes of a schema."""

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Return the JSON Schema of a part."""
        note = schema.get("metadata", {}).get(NOTE_KEY)
        match note:
            case DefinedAs(name):
                return {_DEFINED_AS_KEY: name}
            case ListNote():
                return super().generate_inner(schema["choices"][0])
            case ObjectNote(doc, names):
                described = with_spellings(super().generate_inner(schema), names)
                return described if doc is None else {"description": inspect.cleandoc(doc), **described}
            case SpellingsNote(spellings):
                others = "|".join(map(re.escape, sorted(spellings)))
                ours = super().generate_inner(schema)
                return {"anyOf": [ours, {"type": "string", "pattern": f"^({others})$"}]}
            case StructField():
                return {**super().generate_inner(schema), **_annotations_of(note)}
            case _:
                return super().generate_inner(schema)


def _annotations_of(field: StructField) -> Schema:
    """Return the annotations of a field: its help text, its default, and whether it is deprecated."""
    annotations: Schema = {} if field.description is None else {"description": field.description}
    if isinstance(field.default, bool | int | float | str):
        annotations["default"] = field.default
    return {**annotations, "deprecated": True} if "deprecated" in field.extra else annotations


def shared_in(hint: Any) -> Iterator[type]:
    """Yield the classes in a type that have definitions of their own, and those in their fields."""
    if isinstance(hint, type) and has_fields(hint):
        if is_shared(hint):
            yield hint
        for field in file_fields(hint):
            if not has_members(field):
                yield from shared_in(field.extra.get("written", field.type))
    for inner in get_args(hint):
        yield from shared_in(inner)


def _result_schema() -> Schema:
    """Return the schema of an exported row, including the keys of cases in the short form (`evaluator: TYPE`)."""
    _, parts = msgspec.json.schema_components((CaseResult,))
    parts = {name: rewritten(part, _as_exported) for name, part in parts.items()}
    row, evaluator = parts.pop("CaseResult"), parts["EvaluatorResult"]
    evaluator["required"] = [*evaluator["required"], "status"]
    evaluator["properties"][RAW_REQUEST] = evaluator["properties"][REQUEST]
    flat = {"evaluator_error": _FAILURE_REFERENCE, ORIGIN: _ORIGIN}
    known = {**row["properties"], **evaluator["properties"], **flat}
    known |= {name: row["properties"][name] for name in ("score", "verdict", "status")}
    return {
        "type": "object",
        "properties": {key: known[key] for key in EXPORT_KEYS},
        "required": _ROW_REQUIRED,
        "$defs": parts,
    }


def _as_exported(part: Schema) -> Schema:
    """Return a part as readers need it: bounds of scores without the tolerance, no titles and no defaults."""
    bounds = {key: round(part[key]) for key in ("minimum", "maximum") if "minimum" in part and "maximum" in part}
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

    def add(self, kind: type) -> Schema:
        """Return the schema of a class; those that it refers to are collected."""
        self.schemas |= {each.__name__: describe(each) for each in shared_in(kind) if each is not kind}
        return describe(kind)

    def add_settings(self, settings: type, prefix: str) -> Schema:
        """Return the schema of a settings class; those that it refers to are collected under a prefix."""
        schema = self.add(settings)
        parts = schema.pop("$defs", {})
        renamed = {f"#/$defs/{name}": f"#/$defs/{prefix}{name}" for name in parts}

        def change(part: Schema) -> Schema:
            return {**part, "$ref": renamed[part["$ref"]]} if part.get("$ref") in renamed else part

        self.schemas |= {prefix + name: rewritten(part, change) for name, part in parts.items()}
        return cast(Schema, rewritten(schema, change))


def _eval_schema(registry: Registry[EvaluatorSpec]) -> Schema:
    definitions = _Definitions()
    top = definitions.add(SuiteModel)
    case = definitions.add(CaseModel)
    prompt = definitions.add(PromptModel)
    part = definitions.add(PartModel)
    definitions.schemas[Message.__name__] = definitions.add(Message)
    message: Schema = {"$ref": f"#/$defs/{Message.__name__}"}
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
        "Messages": {
            "description": "a text, or messages",
            "anyOf": [
                {"type": ["string", "null"]},
                {"type": "array", "minItems": 1, "items": {"anyOf": [message, part]}},
                {"type": "object", "minProperties": 1, "if": {"required": ["role"]}, "then": message},
            ],
        },
        "Content": {"anyOf": [{"type": "string"}, {"type": "array", "items": part}, {"type": ["object", "null"]}]},
        **_evaluator_schemas(definitions, registry, evaluator),
    }
    return {**top, "$defs": definitions.schemas}


def _evaluation_schema(registry: Registry[EvaluatorSpec]) -> Schema:
    """Return the schema of `EvaluationRunConfig`. Its evaluators need no name, and may have settings under `config`."""
    definitions = _Definitions()
    top = definitions.add(RunConfigModel)
    common = definitions.add(EvaluatorModel)
    common["required"] = [key for key in common.get("required", ()) if key != "name"]
    common["properties"] = {**common["properties"], "config": {"type": "object"}}
    definitions.schemas |= _evaluator_schemas(definitions, registry, common, nesting_key="config")
    return {**top, "$defs": definitions.schemas}


def _evaluator_schemas(
    definitions: _Definitions, registry: Registry[EvaluatorSpec], common: Schema, *, nesting_key: str | None = None
) -> dict[str, Schema]:
    """Return the definitions that eval files and configurations share: evaluators and criteria, or their names."""
    reference = f"#/$defs/{EvaluationCriteria.__name__}"
    definitions.schemas[EvaluationCriteria.__name__] = definitions.add(EvaluationCriteria)
    schemas: dict[str, Schema] = {
        "Criteria": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": reference}]}},
        "Evaluators": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Evaluator"}]}},
    }
    known = {"enum": list(registry.names())}
    return {
        **{name: {"anyOf": [schema, {"type": "null"}]} for name, schema in schemas.items()},
        "Evaluator": _plugin_schema(definitions, common, registry, "type", nesting_key=nesting_key),
        "EvaluatorType": {"anyOf": [known, {"type": "string", "description": "a plug-in's own type"}]},
    }


def _targets_schema(registry: Registry[ProviderSpec]) -> Schema:
    definitions = _Definitions()
    top = definitions.add(TargetsFileModel)
    common = definitions.add(TargetModel)
    common["properties"] = {**common["properties"], "settings": {"type": "object"}}
    target = _plugin_schema(definitions, common, registry, "provider", nesting_key="settings")
    definitions.schemas = {name: _or_reference(part) for name, part in definitions.schemas.items()}
    if_alias: Schema = {"if": {"required": ["use_target"]}, "then": definitions.add(UseTargetModel)}
    definitions.schemas["Targets"] = {"type": "array", "items": {**if_alias, "else": _or_reference(target)}}
    return {**top, "$defs": definitions.schemas}


def _plugin_schema(
    definitions: _Definitions, common: Schema, registry: Registry[S], key: str, *, nesting_key: str | None = None
) -> Schema:
    """Return the schema of an object whose keys are the common ones and those of the plug-in that `key` names.

    The keys of the plug-in are not checked if its name is not registered, as a plug-in that is not installed may have
    it, or if the object has the key `nesting_key`, under which these keys may be nested.
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
        if nesting_key is not None:
            condition["not"] = {"required": [nesting_key]}
        branches.append({"if": condition, "then": {"$ref": f"#/$defs/{spec.name}"}})
    return {**common, "additionalProperties": True, "allOf": [*common.get("allOf", []), *branches]}


def _or_reference(schema: Schema) -> Schema:
    """Return a schema in which a number, a boolean or a choice may also be `${{ VAR }}`."""

    def change(part: Schema) -> Schema:
        is_value = part.get("type") in ("integer", "number", "boolean") or ("enum" in part and "type" in part)
        return {"anyOf": [part, _VARIABLE_REFERENCE]} if is_value else part

    changed: Schema = rewritten(schema, change)
    return changed
