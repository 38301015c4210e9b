"""Targets written in place of a name: `provider:model`, or an object with `provider` and its settings."""

import json
from collections.abc import Mapping
from typing import Any

from agentv.registry import NamedModel, Registry, Specs, names_model
from agentv.types.errors import TargetError
from agentv.types.json_value import JsonValue, camel_case
from agentv.types.targets import TargetConfig

API_KEY = "api_key"


def inline_target(
    given: Mapping[str, Any], specs: Specs, env: Mapping[str, str], *, base_dir: str = "."
) -> TargetConfig:
    """Return the target of an object with `provider`, its settings, and perhaps a `name`.

    Without a key of its own it gets references to the variables of `env` that the vendor's client reads, unless it has
    an address of its own, which must not get the vendor's key. Raises TargetError, UnknownNameError.
    """
    provider = given.get("provider")
    if not isinstance(provider, str):
        known = ", ".join(_names_of_models(specs.providers))
        raise TargetError(f"a target given as an object needs a `provider`, such as {known}")
    spec = specs.providers.get(provider)
    settings: dict[str, JsonValue] = {key: value for key, value in given.items() if key not in ("name", "provider")}
    model = settings.get("model", settings.get("deployment"))
    name = given.get("name") or (f"{spec.name}:{model}" if model else spec.name)
    if not isinstance(name, str):
        raise TargetError(f"`name` must be a string, not {name!r}")
    if spec.named_model is not None:
        settings |= _from_variables(spec.named_model, settings, env)
    return TargetConfig(name, spec.name, settings, base_dir=base_dir)


def target_named(name: str, specs: Specs, env: Mapping[str, str]) -> TargetConfig | None:
    """Return the target that a name describes: `provider:model`, or the JSON of an object; None for another name."""
    if name.startswith("{"):
        return inline_target(_object_of(name), specs, env)
    provider, _, model = name.partition(":")
    named = specs.providers.get(provider).named_model if names_model(name, specs.providers) else None
    if named is None:
        return None
    return inline_target({"name": name, "provider": provider, named.key: model}, specs, env)


def _object_of(text: str) -> Mapping[str, Any]:
    """Return a target written as JSON. Raises TargetError."""
    try:
        decoded: Mapping[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TargetError(
            f"target {text:.60}: not valid JSON: {error}; write an object such as "
            '{"provider": "openai", "model": "gpt-5"}, or the name of a target'
        ) from error
    return decoded


def default_judge(specs: Specs, env: Mapping[str, str]) -> TargetConfig | None:
    """Return the judge of the first vendor whose API key is in the environment; None without any."""
    for spec in specs.providers.specs.values():
        named = spec.named_model
        if named is not None and named.judge is not None and env.get(named.variables[API_KEY]):
            return target_named(f"{spec.name}:{named.judge}", specs, env)
    return None


def key_variables(providers: Registry) -> tuple[str, ...]:
    """Return the environment variables of the keys that `default_judge` looks for."""
    named = (spec.named_model for spec in providers.specs.values())
    return tuple(each.variables[API_KEY] for each in named if each is not None and each.judge is not None)


def model_hint(providers: Registry) -> str:
    """Return how to name a model without a targets file."""
    return f"provider:model, such as {', '.join(_names_of_models(providers))}"


def _names_of_models(providers: Registry) -> list[str]:
    named = ((spec.name, spec.named_model) for spec in providers.specs.values())
    return [f"{name}:{each.judge}" for name, each in named if each is not None and each.judge is not None]


def _from_variables(
    named: NamedModel, settings: Mapping[str, JsonValue], env: Mapping[str, str]
) -> dict[str, JsonValue]:
    def is_given(key: str) -> bool:
        return key in settings or camel_case(key) in settings

    addresses = {key: variable for key, variable in named.variables.items() if key != API_KEY}
    if any(map(is_given, addresses)) or is_given(API_KEY):
        return {}
    added = {key: variable for key, variable in addresses.items() if env.get(variable)}
    if env.get(named.variables[API_KEY]) or not added:
        added[API_KEY] = named.variables[API_KEY]
    return {key: f"${{{{ {variable} }}}}" for key, variable in added.items()}
