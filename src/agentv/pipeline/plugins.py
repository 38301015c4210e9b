"""Plug-ins of one's own: decorators that mark them, and the loader that finds what is marked."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agentv.evaluators.criteria_evaluator import adapted
from agentv.execution.callables import load_module, raised_at
from agentv.pipeline.plugin_specs import FunctionEvaluator, evaluator_spec, provider_spec, report_spec, store_spec
from agentv.registry import ENTRY_POINTS, Announced, Registry, Spec, Specs
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Marked = TypeVar("Marked", bound=Callable[..., Any])
_MARK = "__agentv_spec__"


def evaluator(name: str, *, aliases: tuple[str, ...] = (), cost: str = "free") -> Callable[[Marked], Marked]:
    """Make a function or class an evaluator type of that name.

    A function gets the EvaluationContext and returns a score 0..1, a bool, an EvaluationScore, or one or several
    EvaluationResults; its keyword-only parameters become settings. A class has `evaluate(context)`; a dataclass'
    fields become settings. List the file under `plugins:` in `.agentv.yaml`, or bring it in a package as an entry
    point `agentv.evaluators`. Raises PluginError when the signature does not fit.

        @evaluator("no_apology")
        def no_apology(context):
            return "sorry" not in context.candidate.lower()
    """
    return _marker("evaluator", partial(evaluator_spec, name, aliases=aliases, cost=cost))


def provider(name: str, *, aliases: tuple[str, ...] = ()) -> Callable[[Marked], Marked]:
    """Make a function or class a provider of that name, for `provider:` in a targets file.

    A function gets a ProviderRequest (and its settings as keyword-only parameters) and returns a string, a
    ProviderResponse or a dict of its keys. A class has `kind` and `async invoke(request)`; a dataclass' fields become
    settings. Entry points: `agentv.providers`. Raises PluginError when the signature does not fit.
    """
    return _marker("provider", partial(provider_spec, name, aliases=aliases))


def report(name: str, *, aliases: tuple[str, ...] = ()) -> Callable[[Marked], Marked]:
    """Make a function the format of files whose names end in `.NAME`: `agentv run -o week.NAME`.

    The function gets the RunReport and the run's rows (CaseResults, read while it goes through them, once), and
    returns the text. Entry points: `agentv.reports`. Raises PluginError when the signature does not fit.

        @report("ids.txt")
        def ids(report, rows):
            return " ".join(row.eval_id for row in rows)
    """
    return _marker("report", partial(report_spec, name, aliases=aliases))


def store(name: str, *, aliases: tuple[str, ...] = ()) -> Callable[[Marked], Marked]:
    """Make a function or class a store of that name, for results of the criteria door.

    A class has `save_result(result)`, sync or async; a dataclass' fields become settings. A function returns an object
    that has it, and its keyword-only parameters become settings. Entry points: `agentv.stores`. Raises PluginError
    when the signature does not fit.
    """
    return _marker("store", partial(store_spec, name, aliases=aliases))


def _marker(sort: str, spec_of: Callable[[Callable[..., Any]], Spec]) -> Callable[[Marked], Marked]:
    def mark(plugin: Marked) -> Marked:
        setattr(plugin, _MARK, (sort, spec_of(plugin)))
        return plugin

    return mark


def as_evaluator(given: object, evaluators: Registry) -> object:
    """Return what stands in a list of evaluators for what a caller put there.

    A function or class that `@evaluator` marked becomes a config of its type, which `evaluators` then knows; when that
    type is somebody else's already (a plug-in package at work on itself, found by its file and installed), it judges
    by itself. Any other function is called with the context and named as it is. An evaluator of the criteria door's
    own shape is adapted; configs and objects are returned as they are.
    """
    mark = getattr(given, _MARK, None)
    if isinstance(mark, tuple) and mark[0] == "evaluator":
        spec: Spec = mark[1]
        if evaluators.specs.get(spec.name, spec) is not spec:
            return given() if isinstance(given, type) else FunctionEvaluator(spec.name, cast(Any, given), {})
        evaluators.add(spec)
        return EvaluatorConfig(name=spec.name, type=spec.name)
    if inspect.isfunction(given):
        spec = evaluator_spec(given.__name__, given)
        return FunctionEvaluator(spec.name, given, {})
    return adapted(given)


def load_specs(plugins: Iterable[str] = (), *, base_dir: str = ".") -> Specs:
    """Return the built-in plug-ins, those of `plugins`, and those of installed packages (entry points).

    `plugins` are files (`path.py`, relative to `base_dir`) or modules (`package.module`); they go before an installed
    plug-in of the same name. Packages are imported when one of their plug-ins is asked for. Raises PluginError.
    """
    from agentv.evaluators import EVALUATORS  # noqa: PLC0415 - see the note on start-up in design of the registry
    from agentv.providers import PROVIDERS  # noqa: PLC0415
    from agentv.reports import REPORTS  # noqa: PLC0415
    from agentv.storage.stores import STORES  # noqa: PLC0415

    specs = Specs(PROVIDERS.copy(), EVALUATORS.copy(), REPORTS.copy(), STORES.copy())
    for plugin in plugins:
        for value in vars(load_module(plugin, base_dir)).values():
            mark = getattr(value, _MARK, None)
            if isinstance(mark, tuple):
                specs.of(mark[0]).add(mark[1])
    for sort in ENTRY_POINTS:
        specs.of(sort).installed = partial(_installed, sort)
    return specs


def _installed(sort: str) -> Iterator[tuple[str, Announced]]:
    """Yield the plug-ins of a sort that installed packages announce, with their names."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - 10 ms, for who names no built-in one

    for entry in entry_points(group=ENTRY_POINTS[sort]):
        yield entry.name, Announced(_package_of(entry), partial(_load_entry, entry, sort))


def _package_of(entry: "EntryPoint") -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


def _load_entry(entry: "EntryPoint", sort: str) -> Spec:
    """Import an installed plug-in. Raises PluginError that names the package which brought it."""
    which = f"{sort} {entry.name!r} of {_package_of(entry)}"
    try:
        loaded = entry.load()
    except (Exception, SystemExit) as error:  # a package's own code: whatever it raises is its fault, said by name
        raise PluginError(f"cannot load {which}: {type(error).__name__}: {error}{raised_at(error)}") from error
    mark = getattr(loaded, _MARK, None)
    if not isinstance(mark, tuple) or mark[0] != sort:
        raise PluginError(f"{which}: {entry.value} is not marked with @{sort}(...)")
    spec: Spec = mark[1]
    if entry.name not in (spec.name, *spec.aliases):
        raise PluginError(f"{which} calls itself {spec.name!r}; give its entry point that name")
    return spec
