"""The loader of plug-ins: built-in ones, decorated ones in a project's files or modules, and those of packages."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from agentv.execution.user_code import described, load_module
from agentv.registry import ENTRY_POINTS, Announced, EvaluatorSpec, ProviderSpec, Spec, Specs, UnknownSettings
from agentv.types.errors import PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


MARK = "__agentv_spec__"
"""The attribute that marks a decorated plug-in: a tuple of its kind and its Spec."""


def load_specs_without(plugins: Iterable[str]) -> Specs:
    """Return the built-in plug-ins and those of installed packages, without importing the project's `plugins`.

    If the project lists `plugins`, an unknown evaluator type or provider is assumed to come from one of them.
    """
    specs = load_specs()
    if tuple(plugins):
        specs.evaluators.make_stand_in = _unknown_evaluator
        specs.providers.make_stand_in = _unknown_provider
    return specs


def _unknown_evaluator(name: str) -> EvaluatorSpec:
    return EvaluatorSpec(
        name,
        "not imported",
        UnknownSettings,
        _REFUSED,
        cost="paid",
        is_deterministic=False,
        criteria_from_results=True,
    )


def _unknown_provider(name: str) -> ProviderSpec:
    """Return a spec in place of a provider that is not imported; its fields permit every use."""
    return ProviderSpec(
        name,
        "not imported",
        UnknownSettings,
        _REFUSED,
        cost="paid",
        works_in_folder=True,
        can_judge=True,
        embeds=True,
    )


_REFUSED = "agentv.engine.plugins.loading:refuse_unknown"
"""The factory of a plug-in that is not imported."""


def refuse_unknown(*_arguments: object) -> None:
    """Raise PluginError, because a plug-in that was not imported cannot be used."""
    raise PluginError("the plug-ins of the project are not imported here")


def load_specs(plugins: Iterable[str] = (), *, base_dir: str = ".") -> Specs:
    """Return the built-in plug-ins, those of `plugins`, and those of installed packages (entry points).

    `plugins` are files (`path.py`, relative to `base_dir`) or modules (`package.module`); they take precedence over an
    installed plug-in of the same name. A package is imported on first use of one of its plug-ins. Raises PluginError
    for one of `plugins` that cannot be imported, or that uses the name of another or of a built-in plug-in.
    """
    from agentv.evaluators import EVALUATORS  # noqa: PLC0415 - keeps the start-up fast
    from agentv.importers import IMPORTERS  # noqa: PLC0415
    from agentv.providers import PROVIDERS  # noqa: PLC0415
    from agentv.reports import REPORTS  # noqa: PLC0415
    from agentv.storage import STORES  # noqa: PLC0415

    specs = Specs(
        providers=PROVIDERS.copy(),
        evaluators=EVALUATORS.copy(),
        importers=IMPORTERS,
        reports=REPORTS.copy(),
        stores=STORES.copy(),
    )
    for plugin in plugins:
        for value in vars(load_module(plugin, base_dir)).values():
            mark = getattr(value, MARK, None)
            if isinstance(mark, tuple):
                marked_kind, spec = mark
                specs.of(marked_kind).add(spec)
    for kind in ENTRY_POINTS:
        specs.of(kind).find_announced = partial(_installed, kind)
    return specs


def _installed(kind: str) -> Iterator[tuple[str, Announced[Spec]]]:
    """Yield the name and plug-in of each entry point of `kind` in installed packages; import none of them."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and not needed for built-in plug-ins

    for entry in entry_points(group=ENTRY_POINTS[kind]):
        yield entry.name, Announced(_package_of(entry), partial(_load_entry, entry, kind))


def _package_of(entry: "EntryPoint") -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


def _load_entry(entry: "EntryPoint", kind: str) -> Spec:
    """Import an installed plug-in. Raises a PluginError that names the plug-in and its package."""
    which = f"{kind} {entry.name!r} of {_package_of(entry)}"
    try:
        loaded = entry.load()
    except (Exception, SystemExit) as error:  # a package's own code may raise anything
        raise PluginError(f"cannot load {which}: {described(error)}") from error
    mark = getattr(loaded, MARK, None)
    if not isinstance(mark, tuple) or mark[0] != kind:
        raise PluginError(f"{which}: {entry.value} is not marked with @{kind}(...)")
    spec: Spec = mark[1]
    if entry.name not in (spec.name, *spec.aliases):
        raise PluginError(f"{which} has the name {spec.name!r}; give its entry point the same name")
    return spec
