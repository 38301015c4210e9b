"""Targets and judges given from Python: names, settings, live providers, functions and clients."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.planning.inline_targets import inline_target
from agentv.providers.local.python import JudgeFunction, PythonSettings
from agentv.registry import Spec, Specs
from agentv.types.errors import ConfigError
from agentv.types.protocols import ProviderTools
from agentv.types.provider import Provider
from agentv.types.targets import ResolvedTarget, TargetConfig


class OpenAIClient(Protocol):
    """A client of the package `openai`, sync or async."""

    @property
    def chat(self) -> Any:
        """The chat API."""


class AnthropicClient(Protocol):
    """A client of the package `anthropic`, sync or async."""

    @property
    def messages(self) -> Any:
        """The messages API."""


TargetLike: TypeAlias = str | TargetConfig | Provider | Mapping[str, Any]
"""A target's name, `provider:model`, a TargetConfig, a dict with `provider` and its settings, or a live provider."""

JudgeLike: TypeAlias = TargetLike | Callable[..., object] | OpenAIClient | AnthropicClient
"""A target, a function that gets the judge's request, or a client of OpenAI or Anthropic."""

GIVEN = "given"
"""The provider name of targets given as objects."""


class NoSettings(Struct, frozen=True):
    """The settings of a plug-in that was given as an object."""


def named_target(given: object, role: str, specs: Specs, env: Mapping[str, str]) -> TargetConfig | str | None:
    """Return a target (TargetLike) as a config or a name; a live provider is registered under the name of its role."""
    if given is None or isinstance(given, str | TargetConfig):
        return given
    if isinstance(given, Mapping):
        return inline_target(given, specs, env)
    if not isinstance(given, Provider):
        advice = "; give a function as task=" if callable(given) else ""
        raise ConfigError(
            f"{role}= takes a target's name, provider:model, a TargetConfig, a dict with `provider`, or a Provider; "
            f"got {type(given).__name__}{advice}"
        )
    return _registered(role, specs, lambda _target, _tools: given, is_code=getattr(given, "is_code", True))


def named_judge(given: object, role: str, specs: Specs, env: Mapping[str, str]) -> TargetConfig | str | None:
    """Return a judge (JudgeLike) as `named_target` does; it may also be a function, or a client of OpenAI or Anthropic.

    A client judges with the model in `{"client": client, "model": …}`, else with the vendor's default one.
    """
    if isinstance(given, Mapping) and "client" in given:
        unknown = given.keys() - {"client", "model"}
        if unknown:
            raise ConfigError(f"{role}= with a `client` takes `model` besides; got {', '.join(sorted(unknown))}")
        return _client_judge(given["client"], given.get("model"), role, specs)
    if given is None or isinstance(given, str | TargetConfig | Mapping | Provider):
        return named_target(given, role, specs, env)
    if _is_of_vendor(given):
        return _client_judge(given, None, role, specs)
    if callable(given) and not isinstance(given, type):
        function = given

        def factory(target: ResolvedTarget, tools: ProviderTools) -> Provider:
            return JudgeFunction(replace(target, settings=PythonSettings(function)), tools)

        return _registered(role, specs, factory, is_code=True)
    raise ConfigError(
        f"{role}= takes a target's name, provider:model, a TargetConfig, a dict with `provider`, a Provider, a "
        f"function, or a client of OpenAI or Anthropic; got {type(given).__name__}"
    )


def _is_of_vendor(given: object) -> bool:
    return type(given).__module__.partition(".")[0] in ("openai", "anthropic")


def _client_judge(client: object, model: object, role: str, specs: Specs) -> TargetConfig:
    from agentv.providers.local.vendor_clients import client_provider  # noqa: PLC0415 - few judges are clients

    if not isinstance(model, str | None):
        raise ConfigError(f"{role}=: `model` must be a string, not {model!r}")

    def default_model(provider: str) -> str:
        named = specs.providers.get(provider).named_model
        return "" if named is None else named.judge or ""

    provider = client_provider(client, model, default_model)
    if provider is None:
        raise ConfigError(f"{role}= takes clients of OpenAI and Anthropic; got {type(client).__name__}")
    judge = _registered(role, specs, lambda _target, _tools: provider, is_code=False)
    return replace(judge, settings={"max_retries": 0})  # the client repeats requests itself


def _registered(
    role: str, specs: Specs, factory: Callable[[ResolvedTarget, ProviderTools], Provider], *, is_code: bool
) -> TargetConfig:
    kind = f"{GIVEN} {role}"
    summary = f"the {role} given from Python"
    specs.providers.add(Spec(kind, summary, NoSettings, factory, can_judge=True, is_code=is_code))
    return TargetConfig(role, kind)
