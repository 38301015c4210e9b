"""The targets of a suite: named in a file, written as `provider:model`, or inline as an object with `provider`."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.loading.models.reader import raise_errors
from agentv.loading.targets.choice import choose_target
from agentv.loading.targets.openai_services import service_advice
from agentv.loading.targets.targets import ParsedTargets, resolve_target, secrets_of
from agentv.registry import NamedModel, ProviderSpec, Registry, Specs, model_spelling, names_model
from agentv.scoring.keys.identity import digest
from agentv.types.errors import TargetError, nearest
from agentv.types.json_value import JsonObject, JsonValue, camel_case
from agentv.types.run_options import RunOptions
from agentv.types.targets import ResolvedTarget, TargetConfig

API_KEY = "api_key"


def inline_target(
    given: Mapping[str, Any], specs: Specs, env: Mapping[str, str], *, base_dir: str = "."
) -> TargetConfig:
    """Return the target of an object with `provider`, its settings and, optionally, a `name`.

    A target without `api_key` gets references to the variables of `env` that the vendor's client reads. A target with
    its own address does not: the vendor's key must not be sent there. Raises TargetError, UnknownNameError.
    """
    provider = given.get("provider")
    if not isinstance(provider, str):
        known = ", ".join(name for name, _ in _judge_models(specs.providers))
        raise TargetError(f"a target given as an object needs a `provider`, such as {known}")
    advice = service_advice(provider)
    if advice is not None and provider not in specs.providers:
        raise TargetError(f"unknown provider {provider!r}; {advice}")
    spec = specs.providers.get(provider)
    settings: dict[str, JsonValue] = {key: value for key, value in given.items() if key not in ("name", "provider")}
    model = settings.get("model", settings.get("deployment"))
    name = given.get("name") or (f"{spec.name}:{model}" if model else spec.name)
    if not isinstance(name, str):
        raise TargetError(f"`name` must be a string, not {name!r}")
    if spec.named_model is not None:
        settings |= _settings_from_env(spec.named_model, settings, env)
    return TargetConfig(name, spec.name, settings, base_dir=base_dir)


def described_target(name: str, specs: Specs, env: Mapping[str, str]) -> TargetConfig | None:
    """Return the target that `provider:model` or the JSON of an object describes; None for another name."""
    if name.startswith("{"):
        return inline_target(_parse_json_target(name), specs, env)
    provider, _, model = name.partition(":")
    named_model = specs.providers.get(provider).named_model if names_model(name, specs.providers) else None
    if named_model is None:
        return None
    return inline_target({"name": name, "provider": provider, named_model.key: model}, specs, env)


def _parse_json_target(text: str) -> Mapping[str, Any]:
    """Return the object that describes a target, written as JSON. Raises TargetError."""
    try:
        decoded: Mapping[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TargetError(
            f"target {text:.60}: not valid JSON: {error}; write an object such as "
            '{"provider": "openai", "model": "gpt-5"}, or the name of a target'
        ) from error
    return decoded


def default_judge(specs: Specs, env: Mapping[str, str]) -> TargetConfig | None:
    """Return the judge of the first vendor whose API key is in the environment; None if there is no key."""
    for spec in specs.providers.specs.values():
        named_model = spec.named_model
        if named_model is not None and named_model.judge is not None and env.get(named_model.variables[API_KEY]):
            return described_target(f"{spec.name}:{named_model.judge}", specs, env)
    return None


def judge_key_variables(providers: Registry[ProviderSpec]) -> tuple[str, ...]:
    """Return the environment variables of the keys that `default_judge` looks for."""
    named = (spec.named_model for spec in providers.specs.values())
    return tuple(each.variables[API_KEY] for each in named if each is not None and each.judge is not None)


def model_hint(providers: Registry[ProviderSpec]) -> str:
    """Return how to name a model without a targets file."""
    return f"provider:model, such as {', '.join(f'{name}:{model}' for name, model in _judge_models(providers))}"


def _judge_models(providers: Registry[ProviderSpec]) -> list[tuple[str, str]]:
    """Return the providers that have a default judge, each with that model."""
    named = ((spec.name, spec.named_model) for spec in providers.specs.values())
    return [(name, each.judge) for name, each in named if each is not None and each.judge is not None]


def _settings_from_env(
    named_model: NamedModel, settings: Mapping[str, JsonValue], env: Mapping[str, str]
) -> dict[str, JsonValue]:
    """Return references to the variables of key and address; none if `settings` have a key or an address."""

    def is_given(key: str) -> bool:
        return key in settings or camel_case(key) in settings

    addresses = {key: variable for key, variable in named_model.variables.items() if key != API_KEY}
    if any(map(is_given, addresses)) or is_given(API_KEY):
        return {}
    added = {key: variable for key, variable in addresses.items() if env.get(variable)}
    if env.get(named_model.variables[API_KEY]) or not added:
        added[API_KEY] = named_model.variables[API_KEY]
    return {key: f"${{{{ {variable} }}}}" for key, variable in added.items()}


LOCAL_EMBEDDINGS = "local"
"""The provider of the built-in embedding model."""
OPENAI_EMBEDDINGS = "text-embedding-"
"""How the names of OpenAI's embedding models start."""


class KnownTargets(Struct, frozen=True):
    """The targets of one targets file (or of one call of `evaluate`), resolved on first use."""

    configs: Mapping[str, TargetConfig]
    env: Mapping[str, str]
    specs: Specs
    options: RunOptions = field(default_factory=RunOptions)
    judge: str | None = None
    """The name of the judge of every target's answers; it overrides `judge`."""
    secrets: tuple[str, ...] = ()
    """Redacted in the responses of all targets: the secrets of the environment and, by `with_targets`, those of every
    target, used or not.
    """
    public_env: tuple[str, ...] = ()
    """The variables that are not secret."""
    parsed: ParsedTargets = ParsedTargets((), ())
    """Has the problems of the file's targets; a run stops only for problems of targets that it uses."""
    resolved: dict[str, ResolvedTarget] = field(default_factory=dict)

    def get(self, name: str) -> ResolvedTarget:
        """Return the named target, ready for use; `provider:model` names one without a targets file.

        Raises TargetError for an unknown name, EvalFileError for bad settings.
        """
        if name not in self.resolved:
            target = self._resolved(self._config(name))
            if self.judge is not None:
                target = replace(target, judge=self.judge)
            self.resolved[name] = target
        return self.resolved[name]

    def _resolved(self, config: TargetConfig) -> ResolvedTarget:
        target = resolve_target(config, env=self.env, specs=self.specs, public_env=self.public_env)
        if self.secrets:
            target = replace(target, secrets=tuple(sorted({*target.secrets, *self.secrets})))
        if self.options.max_retries is None:
            return target
        return replace(target, retry=replace(target.retry, max_retries=self.options.max_retries))

    def judged_by(self, judge: str | None) -> "KnownTargets":
        """Return these targets with `judge` as the judge of their answers, or unchanged if it is None."""
        return self if judge is None else replace(self, judge=judge, resolved={})

    def with_targets(self, configs: Iterable[TargetConfig]) -> "KnownTargets":
        """Return these targets and others, which replace those of the same name."""
        named = {config.name: config for config in configs}
        found = [secrets_of(config, env=self.env, public_env=self.public_env) for config in named.values()]
        secrets = tuple(dict.fromkeys((*self.secrets, *sorted(frozenset().union(*found)))))
        return replace(self, configs={**self.configs, **named}, secrets=secrets, resolved={})

    def with_inline(self, configs: Sequence[TargetConfig]) -> "KnownTargets":
        """Return these targets with those that a suite defines itself, which replace those of the same name."""
        if not configs:
            return self
        return replace(self.with_targets(configs), parsed=self.parsed.with_inline(configs))

    def choose(self, name: str | None) -> ResolvedTarget:
        """Return the named target, or the default target for None, ready for use. Raises TargetError, EvalFileError."""
        providers = self.specs.providers
        is_model = name is not None and (names_model(name, providers) or model_spelling(name, providers) is not None)
        if name is not None and is_model and name not in self.configs:
            return self.get(name)
        return self.get(choose_target(tuple(self.configs.values()), name).name)

    def check(self, name: str) -> None:
        """Raise EvalFileError with the problems of a target, if it has errors."""
        for each in sorted(self.parsed.with_needed([name])):
            if each == name or each in self.parsed.chains.get(name, ()):
                raise_errors(name, self.parsed.problems_of_target(each))

    def warnings(self) -> Iterator[str]:
        """Yield the warnings about the used targets, and one warning that names the unused targets with errors."""
        used = self.parsed.with_needed(self.resolved)
        for problem in self.parsed.problems_for(used):
            if self.parsed.owner_of(problem) in used:
                yield problem.render()
        with_errors = {
            self.parsed.owner_of(problem) or "(a target without a name)": problem.path
            for problem in self.parsed.problems
            if problem.severity == "error" and self.parsed.owner_of(problem) not in used
        }
        if with_errors:
            names = ", ".join(with_errors)
            yield f"{next(iter(with_errors.values()))}: unused targets have errors, which `agentv check` lists: {names}"

    def _config(self, name: str) -> TargetConfig:
        self.check(name)
        if name in self.configs:
            return self.configs[name]
        described = described_target(name, self.specs, self.env)
        if described is not None:
            return described
        near = model_spelling(name, self.specs.providers) or nearest(name, self.configs)
        hint = f" Did you mean {near!r}?" if near else ""
        if not self.configs or ":" in name:
            hint = f"{hint} A model may also be written as {model_hint(self.specs.providers)}"
        raise TargetError(f"no target named {name!r}; known: {', '.join(self.configs) or 'none'}.{hint}")

    def embedding_config(self, model: str | JsonObject) -> TargetConfig:
        """Return the config of an embedding model: a target by name, or one given inline. Raises TargetError.

        `local` is the built-in model without settings, and `text-embedding-…` one of OpenAI, unless a target has that
        name.
        """
        if isinstance(model, str) and (model in self.configs or model != LOCAL_EMBEDDINGS):
            is_openai = model.startswith(OPENAI_EMBEDDINGS) and model not in self.configs
            config = self._config(f"openai:{model}" if is_openai else model)
        else:
            config = _inline_embedding_config({"provider": LOCAL_EMBEDDINGS} if isinstance(model, str) else model)
        provider = self.specs.providers.get(config.provider)
        if not provider.embeds:
            able = ", ".join(spec.name for spec in self.specs.providers if spec.embeds)
            raise TargetError(f"{config.name!r} ({provider.name}) cannot make embeddings; providers that can: {able}")
        return config

    def embedding_target(self, model: str | JsonObject) -> ResolvedTarget:
        """Return the resolved target of an embedding model; the same one for the same settings.

        Raises TargetError, EvalFileError.
        """
        config = self.embedding_config(model)
        if config.name in self.configs:
            return self.get(config.name)
        # Added to the resolved targets, so that its secrets are redacted as well.
        key = f"embeddings {digest([config.provider, dict(config.settings)])}"
        if key not in self.resolved:
            self.resolved[key] = self._resolved(config)
        return self.resolved[key]


def _inline_embedding_config(model: JsonObject) -> TargetConfig:
    """Return the config of an embedding model given as an object. Raises TargetError."""
    settings = {key: value for key, value in model.items() if key not in ("name", "provider")}
    provider = model.get("provider")
    if not isinstance(provider, str):
        raise TargetError("`model` must be the name of a target, or an object with a `provider`")
    model_name = next((settings[key] for key in ("model", "deployment", "deploymentName") if key in settings), None)
    return TargetConfig(f"{provider} {model_name}" if model_name else provider, provider, settings)
