"""Evaluators and providers of one's own: decorators that mark them, and the loader that finds what is marked."""

import copy
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import MISSING, field, fields, is_dataclass, make_dataclass, replace
from functools import partial
from importlib.metadata import entry_points
from typing import Any, TypeVar

from agentv.evaluators.criteria_evaluator import adapted
from agentv.execution.callables import load_module
from agentv.registry import ENTRY_POINTS, Registry, Spec, Specs
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import PluginError
from agentv.types.evaluation import EvaluationContext, EvaluatorOutput
from agentv.types.protocols import ProviderTools
from agentv.types.provider import Provider
from agentv.types.targets import ResolvedTarget

Marked = TypeVar("Marked", bound=Callable[..., Any])
_MARK = "__agentv_spec__"


def evaluator(name: str, *, aliases: tuple[str, ...] = (), cost: str = "free") -> Callable[[Marked], Marked]:
    """Make a function or class an evaluator type of that name.

    A function gets the EvaluationContext and returns a score 0..1, a bool, or an EvaluationScore; its keyword-only
    parameters become settings. A class has `evaluate(context)`; a dataclass' fields become settings. List the file
    under `plugins:` in `.agentv.yaml`. Raises PluginError when the signature does not fit.

        @evaluator("no_apology")
        def no_apology(context):
            return "sorry" not in context.candidate.lower()
    """

    def mark(plugin: Marked) -> Marked:
        spec = _evaluator_spec(name, plugin, aliases=aliases, cost=cost)
        setattr(plugin, _MARK, ("evaluator", spec))
        return plugin

    return mark


def provider(name: str, *, aliases: tuple[str, ...] = ()) -> Callable[[Marked], Marked]:
    """Make a function or class a provider of that name, for `provider:` in a targets file.

    A function gets a ProviderRequest (and its settings as keyword-only parameters) and returns a string, a
    ProviderResponse or a dict of its keys. A class has `kind` and `async invoke(request)`; a dataclass' fields become
    settings. Raises PluginError when the signature does not fit.
    """

    def mark(plugin: Marked) -> Marked:
        setattr(plugin, _MARK, ("provider", _provider_spec(name, plugin, aliases=aliases)))
        return plugin

    return mark


class FunctionEvaluator:
    """An evaluator that calls a function with the context and its settings."""

    def __init__(self, kind: str, function: Callable[..., Any], settings: Mapping[str, object]) -> None:
        self.kind = kind
        self._function = function
        self._settings = settings
        # Calling a coroutine function only makes the coroutine, so it needs no thread.
        self.inline = inspect.iscoroutinefunction(function)

    def evaluate(self, context: EvaluationContext) -> EvaluatorOutput | Awaitable[EvaluatorOutput]:
        """Return what the function returns."""
        output: EvaluatorOutput | Awaitable[EvaluatorOutput] = self._function(context, **self._settings)
        return output


def as_evaluator(given: object, evaluators: Registry) -> object:
    """Return what stands in a list of evaluators for what a caller put there.

    A function or class that `@evaluator` marked becomes a config of its type, which `evaluators` then knows; any other
    function is called with the context and named as it is. An evaluator of the criteria door's own shape is adapted;
    configs and objects are returned as they are.
    """
    mark = getattr(given, _MARK, None)
    if isinstance(mark, tuple) and mark[0] == "evaluator":
        spec: Spec = mark[1]
        evaluators.add(spec)
        return EvaluatorConfig(name=spec.name, type=spec.name)
    if inspect.isfunction(given):
        spec = _evaluator_spec(given.__name__, given, aliases=(), cost="free")
        return FunctionEvaluator(spec.name, given, {})
    return adapted(given)


def _evaluator_spec(name: str, plugin: Callable[..., Any], *, aliases: tuple[str, ...], cost: str) -> Spec:
    if isinstance(plugin, type):
        if not callable(getattr(plugin, "evaluate", None)):
            raise PluginError(f"evaluator {name!r}: class {plugin.__name__} has no method evaluate(context)")
        if not hasattr(plugin, "kind"):
            plugin.kind = name  # type: ignore[attr-defined]  # a plug-in need not repeat its name
        settings, factory = _class_parts(plugin)
    else:
        settings = _settings_of(name, plugin, subject="context")

        def factory(_config: object, settings: object, _tools: object) -> FunctionEvaluator:
            return FunctionEvaluator(name, plugin, _as_keywords(settings))

    return Spec(name, _summary(plugin), settings=settings, factory=factory, aliases=aliases, cost=cost)


def _provider_spec(name: str, plugin: Callable[..., Any], *, aliases: tuple[str, ...]) -> Spec:
    if isinstance(plugin, type):
        if not inspect.iscoroutinefunction(getattr(plugin, "invoke", None)):
            raise PluginError(f"provider {name!r}: class {plugin.__name__} has no method `async invoke(request)`")
        if not hasattr(plugin, "kind"):
            plugin.kind = name  # type: ignore[attr-defined]  # a plug-in need not repeat its name
        settings, make = _class_parts(plugin)

        def factory(target: ResolvedTarget, tools: ProviderTools) -> Provider:  # noqa: ARG001 - a class needs none
            made: Provider = make(None, target.settings, None)
            return made
    else:
        settings = _settings_of(name, plugin, subject="request")

        def factory(target: ResolvedTarget, tools: ProviderTools) -> Provider:
            from agentv.providers.python import PythonProvider, PythonSettings  # noqa: PLC0415 - only who has one

            function = partial(plugin, **_as_keywords(target.settings))
            return PythonProvider(replace(target, settings=PythonSettings(function)), tools)

    return Spec(name, _summary(plugin), settings=settings, factory=factory, aliases=aliases, can_judge=True)


def _class_parts(plugin: type) -> tuple[type, Callable[..., Any]]:
    """Return settings and factory of a class: a dataclass is its own settings, filled it is the plug-in itself."""
    if is_dataclass(plugin):
        return plugin, lambda _config, settings, _tools: settings
    return make_dataclass("NoSettings", [], frozen=True), lambda _config, _settings, _tools: plugin()


def _settings_of(name: str, function: Callable[..., Any], *, subject: str) -> type:
    """Return a settings dataclass made from a function's keyword-only parameters."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    others = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    if len(positional) != 1 or len(positional) + len(others) != len(parameters):
        shown = f"{getattr(function, '__name__', name)}{signature}"
        raise PluginError(f"{name!r} must take one argument, {subject}, and settings after `*`; it is {shown}")
    hints = inspect.get_annotations(function, eval_str=True)
    columns: list[tuple[str, Any, Any]] = [
        (p.name, hints.get(p.name, Any), MISSING if p.default is p.empty else p.default) for p in others
    ]
    made = [(key, hint, _field(default)) for key, hint, default in columns]
    return make_dataclass(f"{name}_settings", made, frozen=True, kw_only=True)


def _field(default: Any) -> Any:
    """Return a dataclass field; a list or dict as default is copied for each, as people expect of a function."""
    if default is MISSING:
        return field()
    if isinstance(default, list | dict | set):
        return field(default_factory=partial(copy.copy, default))
    return field(default=default)


def _as_keywords(settings: Any) -> dict[str, object]:
    return {item.name: getattr(settings, item.name) for item in fields(settings)}


def _summary(plugin: Callable[..., Any]) -> str:
    """Return the first line of a plug-in's docstring."""
    return (inspect.getdoc(plugin) or "").partition("\n")[0]


def load_specs(plugins: Iterable[str] = (), *, base_dir: str = ".") -> Specs:
    """Return the built-in plug-ins, those of installed packages (entry points), and those of `plugins`.

    `plugins` are files (`path.py`, relative to `base_dir`) or modules (`package.module`). Raises PluginError.
    """
    from agentv.evaluators import EVALUATORS  # noqa: PLC0415 - see the note on start-up in design of the registry
    from agentv.providers import PROVIDERS  # noqa: PLC0415

    specs = Specs(providers=PROVIDERS.copy(), evaluators=EVALUATORS.copy())
    for what, group in ENTRY_POINTS.items():
        for entry in entry_points(group=group):
            _register(specs, [(entry.name, _load_entry(what, entry.load))])
    for plugin in plugins:
        _register(specs, vars(load_module(plugin, base_dir)).items())
    return specs


def _load_entry(what: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except Exception as error:  # a package's own code: whatever it raises is its fault, said by name
        raise PluginError(f"cannot load an installed {what}: {type(error).__name__}: {error}") from error


def _register(specs: Specs, named: Iterable[tuple[str, Any]]) -> None:
    for _, value in named:
        mark = getattr(value, _MARK, None)
        if isinstance(mark, tuple):
            what, spec = mark
            registry: Registry = specs.evaluators if what == "evaluator" else specs.providers
            registry.add(spec)
