"""The copy of its configuration that a judgement records: enough to run it again, with secrets redacted."""

from collections.abc import Mapping, Sequence
from typing import Any

from agentv.engine.criteria.config import EvaluationRunConfig
from agentv.engine.criteria.plan import CriteriaPlan, PlannedEvaluator
from agentv.engine.planning.given import GIVEN, JudgeLike
from agentv.templating.secrets import REDACTED, SHORTEST_SECRET, looks_secret
from agentv.types.cases import EvaluatorConfig
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.structs import has_fields, names_of_fields, struct_fields
from agentv.types.targets import TargetConfig
from agentv.version import __version__


def config_snapshot(
    config: EvaluationRunConfig, plan: CriteriaPlan, criteria: Sequence[EvaluationCriteria]
) -> JsonObject:
    """Return the PRD's four keys, and under `config` a dict that `EvaluationRunConfig.from_dict` reads."""
    return {
        "evaluatorTypes": list(dict.fromkeys(each.config.type for each in plan.selected)),
        "criteriaNames": [criterion.name for criterion in criteria],
        "storageProviderType": ", ".join(_kind(store) for store in plan.stores),
        "metadataKeys": list(config.metadata),
        "agentvVersion": __version__,
        "config": {
            "evaluators": [_evaluator(each) for each in plan.evaluators],
            "criteria": [criterion.to_dict() for criterion in criteria],
            "judge": _judge(config.judge, plan),
            "targets": [_target(target) for target in plan.targets if _is_data(target)],
            "only": _plain(config.only),
            "evaluator_concurrency": config.evaluator_concurrency,
            "evaluator_timeout_seconds": config.evaluator_timeout_s,
            "error_policy": config.error_policy,
            "gates": list(config.gates),
            "metadata": _plain(config.metadata),
        },
    }


def _is_data(target: TargetConfig) -> bool:
    """Return True if a target can be made again from its config; one given as an object cannot."""
    return not target.provider.startswith(f"{GIVEN} ")


def _target(target: TargetConfig) -> dict[str, JsonValue]:
    return {"name": target.name, "provider": target.provider, **_object(target.settings)}


def _judge(given: JudgeLike | None, plan: CriteriaPlan) -> str | None:
    """Return the judge's name: as it was given, `judge` for an object, or that of the judge that was chosen."""
    if isinstance(given, str):
        return given
    if isinstance(given, TargetConfig):
        return given.name
    if plan.judge is not None:
        return plan.judge.name
    return None if given is None else "judge"


def _kind(given: object) -> str:
    kind = getattr(given, "kind", type(given).__name__)
    return kind if isinstance(kind, str) else type(given).__name__


def _evaluator(planned: PlannedEvaluator) -> JsonValue:
    config = planned.config
    if not isinstance(planned.given, EvaluatorConfig):
        return {"name": config.name, "type": config.type, "object": _named(type(planned.given))}
    return _config_to_json(config)


def _config_to_json(config: EvaluatorConfig) -> dict[str, JsonValue]:
    """Return an evaluator's config as in a file, without keys that have their default."""
    common = {
        field.name: getattr(config, field.name)
        for field in struct_fields(EvaluatorConfig)
        if field.name not in _OWN_KEYS and getattr(config, field.name) != field.default
    }
    if config.timeout_s is not None:
        common["timeout_seconds"] = common.pop("timeout_s")
    return {"name": config.name, "type": config.type, **_object(common), **_object(config.settings)}


_OWN_KEYS = frozenset({"name", "type", "settings", "base_dir"})


def _object(value: Mapping[str, Any]) -> dict[str, JsonValue]:
    return {str(key): _redacted(item) if looks_secret(str(key)) else _plain(item) for key, item in value.items()}


def _redacted(value: Any, shortest: int = 0) -> JsonValue:
    """Return the value of a secret-looking name with strings redacted, except references to variables.

    Inside lists and objects strings shorter than `shortest` stay: there they are words, such as the type in a schema.
    """
    match value:
        case str():
            return value if "${{" in value or len(value) < shortest else REDACTED
        case Mapping():
            return {str(key): _redacted(item, SHORTEST_SECRET) for key, item in value.items()}
        case list() | tuple():
            return [_redacted(item, SHORTEST_SECRET) for item in value]
        case _:
            return _plain(value)


def _plain(value: Any) -> JsonValue:
    """Return a config value as JSON; a function or an object becomes its name."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return _object(value)
        case EvaluatorConfig():
            return _config_to_json(value)
        case Sequence() | set() | frozenset():
            return [_plain(item) for item in value]
        case _ if has_fields(value) and not isinstance(value, type):
            return _object({name: getattr(value, name) for name in names_of_fields(type(value))})
        case _:
            return _named(value)


def _named(value: object) -> str:
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", type(value).__qualname__)
    return f"{module}:{name}" if module else name
