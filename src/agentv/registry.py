"""Names → plug-ins: aliases, lazy factories, "did you mean". One registry per room that has plug-ins."""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agentv.types.errors import PluginError, UnknownNameError

Reference: TypeAlias = str | Callable[..., Any]
"""An object, or where to import it from: `package.module:name`. A string costs nothing until it is used."""


def load_reference(reference: Reference) -> Callable[..., Any]:
    """Return the object that a reference names. Raises PluginError when it is not there."""
    if not isinstance(reference, str):
        return reference
    module_name, _, attribute = reference.partition(":")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise PluginError(f"cannot load {reference!r}: {error}") from error
    return found


@dataclass(frozen=True, slots=True)
class Spec:
    """A plug-in as registered: its names, its settings, and how to make one.

    `settings` is a frozen dataclass whose fields carry their description in `metadata={"help": …}`; loading derives
    the strict model, the JSON Schema and the docs table from it. `cost` says whether using it may cost money.
    """

    name: str
    summary: str
    settings: Reference
    factory: Reference
    aliases: tuple[str, ...] = ()
    cost: str = "free"
    extra: str | None = None
    is_model_api: bool = False
    """Providers only: a chat model, prompted with chat messages, its tries counted in `calls`, not as attempts."""
    is_web_service: bool = False
    """Providers only: asked over HTTP without being a model API; its tries are counted in `calls` as well."""
    has_files: bool = False
    """Providers only: an agent that reads files by itself, so that a prompt names them instead of quoting them."""
    works_in_folder: bool = False
    """Providers only: works in a folder, so that a row may get a workspace of its own."""
    is_canned: bool = False
    """Providers only: answers from what is written down, so that there is nobody to ask whether he is there."""
    can_judge: bool = False
    """Providers only: may judge its own answers when no `judge_target` is named."""

    def load_factory(self) -> Callable[..., Any]:
        """Return what makes one: `factory(target, tools)` for a provider, `factory(config, settings, tools)` else."""
        return load_reference(self.factory)

    def load_settings(self) -> type:
        """Return the settings dataclass."""
        settings = load_reference(self.settings)
        if not isinstance(settings, type):
            raise PluginError(f"{self.name}: settings must be a dataclass, got {settings!r}")
        return settings


@dataclass(slots=True)
class Registry:
    """The plug-ins of one sort. `what` completes messages: "unknown <what> 'x'"."""

    what: str
    specs: dict[str, Spec] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    def add(self, spec: Spec) -> None:
        """Register a plug-in; a name that is taken by another one is refused."""
        for name in (spec.name, *spec.aliases):
            owner = self.canonical(name)
            if owner is not None and self.specs[owner] is not spec:
                raise PluginError(f"{self.what} name {name!r} is already taken by {owner!r}")
        self.specs[spec.name] = spec
        self.aliases.update(dict.fromkeys(spec.aliases, spec.name))

    def canonical(self, name: str) -> str | None:
        """Return the canonical name for a name or alias, or None when nobody registered it."""
        if name in self.specs:
            return name
        return self.aliases.get(name)

    def get(self, name: str) -> Spec:
        """Return the plug-in of that name or alias. Raises UnknownNameError with the nearest known name."""
        canonical = self.canonical(name)
        if canonical is None:
            raise UnknownNameError(self.what, name, known=self.names())
        return self.specs[canonical]

    def names(self) -> tuple[str, ...]:
        """All names and aliases, sorted."""
        return tuple(sorted({*self.specs, *self.aliases}))

    def copy(self) -> "Registry":
        """Return a registry with the same plug-ins, to which a run may add its own."""
        return Registry(self.what, dict(self.specs), dict(self.aliases))

    def __iter__(self) -> Iterator[Spec]:
        """Yield the plug-ins in the order they were registered."""
        return iter(self.specs.values())

    def __contains__(self, name: object) -> bool:
        """Whether the name or alias is registered."""
        return isinstance(name, str) and self.canonical(name) is not None


def make_registry(what: str, specs: Iterable[Spec]) -> Registry:
    """Return a registry that holds the given plug-ins."""
    registry = Registry(what)
    for spec in specs:
        registry.add(spec)
    return registry


@dataclass(frozen=True, slots=True)
class Specs:
    """Every plug-in that a run may name: what loading validates against and the toolbox makes things from."""

    providers: Registry
    evaluators: Registry

    def copy(self) -> "Specs":
        """Return copies, so that a suite's plug-ins stay with its run."""
        return Specs(self.providers.copy(), self.evaluators.copy())


ENTRY_POINTS: Mapping[str, str] = {"evaluator": "agentv.evaluators", "provider": "agentv.providers"}
