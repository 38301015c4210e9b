"""User-defined plug-ins: their decorators, their specs, and the functions and objects accepted as evaluators."""

import copy
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar, cast

from msgspec import defstruct, field
from msgspec.structs import replace

from agentv.engine.plugins.loading import MARK
from agentv.evaluators.registry import adapted
from agentv.execution.user_code import described
from agentv.registry import EvaluatorSpec, ProviderSpec, Registry, ReportSpec, Spec, StoreSpec
from agentv.templating.store_url import StoreUrl
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import PluginError, StorageError
from agentv.types.evaluation import EvaluationContext, EvaluatorOutput
from agentv.types.events import RunEnded, RunEvent
from agentv.types.protocols import ProviderTools
from agentv.types.provider import Provider
from agentv.types.structs import has_fields, names_of_fields
from agentv.types.targets import ResolvedTarget


class FunctionEvaluator:
    """An evaluator that calls a function with the context and its settings."""

    def __init__(self, kind: str, function: Callable[..., Any], settings: Mapping[str, object]) -> None:
        self.kind = kind
        self._function = function
        self._settings = settings
        # Calling a coroutine function only creates the coroutine, so it needs no thread.
        self.inline = inspect.iscoroutinefunction(function)

    def evaluate(self, context: EvaluationContext) -> EvaluatorOutput | Awaitable[EvaluatorOutput]:
        """Return what the function returns."""
        output: EvaluatorOutput | Awaitable[EvaluatorOutput] = self._function(context, **self._settings)
        return output


def evaluator_spec(
    name: str, plugin: Callable[..., Any], *, aliases: tuple[str, ...] = (), cost: str = "free"
) -> EvaluatorSpec:
    """Return the spec of an evaluator. Raises PluginError for a missing method or a wrong signature."""
    if isinstance(plugin, type):
        if not callable(getattr(plugin, "evaluate", None)):
            raise PluginError(f"evaluator {name!r}: class {plugin.__name__} has no method evaluate(context)")
        if not hasattr(plugin, "kind"):
            plugin.kind = name  # type: ignore[attr-defined]  # a plug-in need not repeat its name
        settings, factory = _class_parts(plugin)
    else:
        settings = _settings_of(name, plugin, "context")

        def factory(_config: object, settings: object, _tools: object) -> FunctionEvaluator:
            return FunctionEvaluator(name, plugin, _as_keywords(settings))

    return EvaluatorSpec(
        name=name,
        summary=_summary(plugin),
        settings=settings,
        factory=factory,
        aliases=aliases,
        cost=cost,
        is_deterministic=False,
        criteria_from_results=True,
    )


def provider_spec(name: str, plugin: Callable[..., Any], *, aliases: tuple[str, ...] = ()) -> ProviderSpec:
    """Return the spec of a provider. Raises PluginError for a missing method or a wrong signature."""
    if isinstance(plugin, type):
        if not inspect.iscoroutinefunction(getattr(plugin, "invoke", None)):
            raise PluginError(f"provider {name!r}: class {plugin.__name__} has no method `async invoke(request)`")
        if not hasattr(plugin, "kind"):
            plugin.kind = name  # type: ignore[attr-defined]  # a plug-in need not repeat its name
        settings, make = _class_parts(plugin)

        def factory(target: ResolvedTarget, tools: ProviderTools) -> Provider:  # noqa: ARG001 - a class gets no tools
            made: Provider = make(None, target.settings, None)
            return made
    else:
        settings = _settings_of(name, plugin, "request")

        def factory(target: ResolvedTarget, tools: ProviderTools) -> Provider:
            from agentv.providers.local.python import PythonProvider, PythonSettings  # noqa: PLC0415 - few projects have one

            function = partial(plugin, **_as_keywords(target.settings))
            return PythonProvider(replace(target, settings=PythonSettings(function)), tools)

    is_code = bool(getattr(plugin, "is_code", True))
    return ProviderSpec(
        name, _summary(plugin), settings=settings, factory=factory, aliases=aliases, can_judge=True, is_code=is_code
    )


def report_spec(name: str, plugin: Callable[..., Any], *, aliases: tuple[str, ...] = ()) -> ReportSpec:
    """Return the spec of a report format. Raises PluginError for a wrong signature."""
    settings = _settings_of(name, plugin, "report", "rows")
    if names_of_fields(settings):
        shown = _signature_text(name, plugin)
        raise PluginError(
            f"report {name!r} must not take settings: `-o FILE` has no way to pass them; its signature is {shown}"
        )

    def factory(tools: Any) -> object:
        from agentv.reports.run.formats import Format  # noqa: PLC0415 - few projects have one

        def text_of(event: RunEvent) -> str:
            return _report_text(name, plugin, event, tools) if isinstance(event, RunEnded) else ""

        return Format(text_of, empty=None)

    return ReportSpec(name, _summary(plugin), settings=settings, factory=factory, aliases=aliases)


def _report_text(name: str, plugin: Callable[..., Any], event: RunEnded, tools: Any) -> str:
    try:
        text = plugin(event.report, tools.rows(event.report))
    except Exception as error:  # plug-in code: the run is over, and its error must not prevent other reports
        raise StorageError(f"report {name!r} failed: {described(error)}") from error
    if not isinstance(text, str):
        raise StorageError(f"report {name!r} returned {type(text).__name__}, not a string")
    return text


def store_spec(name: str, plugin: Callable[..., Any], *, aliases: tuple[str, ...] = ()) -> StoreSpec:
    """Return the spec of a store. Raises PluginError for a missing method or a wrong signature."""
    run_store = None
    if isinstance(plugin, type):
        stores_judgements = callable(getattr(plugin, "save_result", None))
        shares_runs = callable(getattr(plugin, "share_run", None))
        if not stores_judgements and not shares_runs:
            message = f"class {plugin.__name__} has neither save_result(result) nor share_run(open_folder)"
            raise PluginError(f"store {name!r}: {message}")
        run_store = _run_store(name, plugin) if shares_runs else None
        if not hasattr(plugin, "kind"):
            plugin.kind = name  # type: ignore[attr-defined]  # recorded as the storage type of a judgement
        settings, make = _class_parts(plugin)

        def factory(settings: object, _base_dir: str) -> object:
            if not stores_judgements:
                raise PluginError(f"store {name!r} is for runs: class {plugin.__name__} has no save_result(result)")
            return make(None, settings, None)
    else:
        settings = _settings_of(name, plugin)

        def factory(settings: object, _base_dir: str) -> object:
            made = plugin(**_as_keywords(settings))
            if not callable(getattr(made, "save_result", None)):
                raise PluginError(f"store {name!r} returned {type(made).__name__}, which has no save_result(result)")
            return made

    return StoreSpec(name, _summary(plugin), settings=settings, factory=factory, aliases=aliases, run_store=run_store)


def _run_store(name: str, plugin: type) -> Callable[[StoreUrl], object]:
    """Return a function that makes a store of runs. Raises PluginError if the class needs more than `url`."""
    try:
        inspect.signature(plugin).bind(url="")
    except TypeError:
        raise PluginError(
            f"store {name!r} must be callable with url alone; its signature is {_signature_text(name, plugin)}"
        ) from None
    return lambda url: plugin(url=url.text)


def _class_parts(plugin: type) -> tuple[type, Callable[..., Any]]:
    """Return the settings class and the factory of a plug-in class.

    A class with fields is its own settings class, so its factory returns the settings object itself.
    """
    if has_fields(plugin):
        return plugin, lambda _config, settings, _tools: settings
    return defstruct("NoSettings", [], frozen=True), lambda _config, _settings, _tools: plugin()


def _settings_of(name: str, function: Callable[..., Any], *positional_names: str) -> type:
    """Return a settings class made from a function's keyword-only parameters.

    Raises PluginError unless the function has as many positional parameters as `positional_names`, with any names.
    """
    parameters = list(inspect.signature(function).parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    others = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    if len(positional) != len(positional_names) or len(positional) + len(others) != len(parameters):
        expected, found = _expected_arguments(positional_names), _signature_text(name, function)
        raise PluginError(f"{name!r} must take {expected}; its signature is {found}")
    hints = inspect.get_annotations(function, eval_str=True)
    fields = [(p.name, hints.get(p.name, Any), *_default_of(p)) for p in others]
    return defstruct(f"{name}_settings", fields, frozen=True, kw_only=True)


def _expected_arguments(positional_names: tuple[str, ...]) -> str:
    match positional_names:
        case ():
            return "no argument but settings after `*`"
        case (name,):
            return f"one argument, {name}, and settings after `*`"
        case _:  # a report, which takes no settings
            return f"only the arguments {' and '.join(positional_names)}"


def _signature_text(name: str, function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__name__', name)}{inspect.signature(function)}"


def _default_of(parameter: inspect.Parameter) -> tuple[Any, ...]:
    """Return a tuple with a parameter's default, () without one; a list, dict or set is copied on each use."""
    default = parameter.default
    if default is parameter.empty:
        return ()
    if isinstance(default, list | dict | set):
        return (field(default_factory=partial(copy.copy, default)),)
    return (default,)


def _as_keywords(settings: Any) -> dict[str, object]:
    return {name: getattr(settings, name) for name in names_of_fields(type(settings))}


def _summary(plugin: Callable[..., Any]) -> str:
    """Return the first line of a plug-in's docstring."""
    return (inspect.getdoc(plugin) or "").partition("\n")[0]


Marked = TypeVar("Marked", bound=Callable[..., Any])


def evaluator(name: str, *, aliases: tuple[str, ...] = (), cost: str = "free") -> Callable[[Marked], Marked]:
    """Register a function or class as an evaluator type of that name.

    A function gets the EvaluationContext and returns a score 0..1, a bool, an EvaluationScore, or one or several
    EvaluationResults; its keyword-only parameters become settings. A class has `evaluate(context)`; the fields of a
    dataclass become settings. List the file under `plugins:` in `.agentv.yaml`, or provide it in a package as an entry
    point `agentv.evaluators`. Raises PluginError for a missing method or a wrong signature.

        @evaluator("no_apology")
        def no_apology(context):
            return "sorry" not in context.candidate.lower()
    """
    return _marker("evaluator", partial(evaluator_spec, name, aliases=aliases, cost=cost))


def provider(name: str, *, aliases: tuple[str, ...] = ()) -> Callable[[Marked], Marked]:
    """Register a function or class as a provider of that name, for `provider:` in a targets file.

    A function gets a ProviderRequest (and its settings as keyword-only parameters) and returns a string, a
    ProviderResponse or a dict of its keys. A class has `async invoke(request)`; the fields of a dataclass become
    settings. Entry points: `agentv.providers`. Raises PluginError for a missing method or a wrong signature.
    """
    return _marker("provider", partial(provider_spec, name, aliases=aliases))


def report(name: str, *, aliases: tuple[str, ...] = ()) -> Callable[[Marked], Marked]:
    """Register a function as the format of files whose names end in `.NAME`: `agentv run -o week.NAME`.

    The function gets the RunReport and an iterator over the run's rows (CaseResults, which can be read once), and
    returns the text. Entry points: `agentv.reports`. Raises PluginError for a wrong signature.

        @report("ids.txt")
        def ids(report, rows):
            return " ".join(row.eval_id for row in rows)
    """
    return _marker("report", partial(report_spec, name, aliases=aliases))


def store(name: str, *, aliases: tuple[str, ...] = ()) -> Callable[[Marked], Marked]:
    """Register a function or class as a store of that name, for the results of criteria-based evaluation or for runs.

    A class has `save_result(result)`, sync or async; the fields of a dataclass become settings. A function returns an
    object with that method, and its keyword-only parameters become settings. A class that takes `url` and has
    `share_run(open_folder)` stores runs for `--store NAME://…`: see RunStore (docs/how-to/extending.md). Entry points:
    `agentv.stores`. Raises PluginError for a missing method or a wrong signature.
    """
    return _marker("store", partial(store_spec, name, aliases=aliases))


def _marker(kind: str, spec_of: Callable[[Callable[..., Any]], Spec]) -> Callable[[Marked], Marked]:
    def mark(plugin: Marked) -> Marked:
        setattr(plugin, MARK, (kind, spec_of(plugin)))
        return plugin

    return mark


def as_evaluator(given: object, evaluators: Registry[EvaluatorSpec]) -> object:
    """Return an entry of a list of evaluators as a config or an evaluator object.

    A function or class with the decorator `@evaluator` is registered in `evaluators` and becomes a config of its type.
    If another plug-in is registered under that type, for example an installed copy of the same package, an evaluator
    object without settings is returned instead. Any other function becomes an evaluator object named after it. An
    object with `evaluate(input, criteria)` is wrapped; configs and other objects are returned as they are. Raises
    PluginError for a function with a wrong signature, for a type that is an alias of another plug-in, and for an alias
    that another plug-in has as its name or alias.
    """
    mark = getattr(given, MARK, None)
    if isinstance(mark, tuple) and mark[0] == "evaluator":
        spec: EvaluatorSpec = mark[1]
        if evaluators.specs.get(spec.name, spec) is not spec:
            return given() if isinstance(given, type) else FunctionEvaluator(spec.name, cast(Any, given), {})
        evaluators.add(spec)
        return EvaluatorConfig(name=spec.name, type=spec.name)
    if inspect.isfunction(given):
        spec = evaluator_spec(given.__name__, given)
        return FunctionEvaluator(spec.name, given, {})
    return adapted(given)
