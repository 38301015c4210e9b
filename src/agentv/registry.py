"""Names → plug-ins: aliases, lazy factories, "did you mean". One registry for each kind of plug-in."""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

from agentv.types.errors import PluginError, UnknownNameError

Reference: TypeAlias = str | Callable[..., Any]
"""An object, or its import path `package.module:name`. A path is imported on first use."""


def load_reference(reference: Reference) -> Callable[..., Any]:
    """Return the object that a reference names. Raises PluginError if it cannot be imported."""
    if not isinstance(reference, str):
        return reference
    module_name, _, attribute = reference.partition(":")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise PluginError(f"cannot load {reference!r}: {error}") from error
    return found


class NamedModel(Struct, frozen=True):
    """How `provider:model` becomes the settings of a provider: the key of the model, and the variables of other keys.

    `key` is the name of the setting with the model. `variables` are environment variables by setting, as the vendor's
    own client reads them; `api_key` is one of them. `judge` is the model that judges when only a key is given.
    """

    variables: Mapping[str, str]
    key: str = "model"
    judge: str | None = None


class Spec(Struct, frozen=True):
    """A registered plug-in: its names, its settings, and its factory.

    `settings` is a frozen Struct whose fields carry their descriptions (`Annotated[..., Meta(description=…)]`);
    loading derives the strict model, the JSON Schema and the docs table from it. `cost` says whether using it may
    cost money.
    """

    name: str
    summary: str
    settings: Reference
    factory: Reference
    aliases: tuple[str, ...] = ()
    cost: str = "free"
    extra: str | None = None
    is_deterministic: bool = True
    """Evaluators only: the same answer always gets the same score, hits and misses, in any order and company.
    False for one that calls a model or runs user code, whose results cannot be guaranteed."""
    is_model_api: bool = False
    """Providers only: a chat model, prompted with chat messages; its attempts are counted in `calls`."""
    is_web_service: bool = False
    """Providers only: called over HTTP without being a model API; its attempts are counted in `calls` as well."""
    reads_files: bool = False
    """Providers only: an agent that reads files by itself, so that a prompt names them instead of quoting them."""
    works_in_folder: bool = False
    """Providers only: works in a folder, so that a row may get its own workspace."""
    is_canned: bool = False
    """Providers only: answers from stored data, so that there is no service whose health could be checked."""
    program: str | None = None
    """Providers only: the name of the program that it calls, unless its settings name another one."""
    can_judge: bool = False
    """Providers only: may judge its own answers when no `judge_target` is named."""
    is_code: bool = False
    """Providers only: code or stored replies and no model, so that as a judge it may reply with one JSON object and
    nothing else, without the nonce of the call."""
    reports_cost: bool = False
    """Providers only: a program that reports the cost of each answer, whether or not a price is configured."""
    embeds: bool = False
    """Providers only: makes embeddings (types.provider.EmbeddingProvider)."""
    answers: bool = True
    """Providers only: False for one that only makes embeddings and therefore cannot be the target of a run."""
    named_model: NamedModel | None = None
    """Providers only: set if `provider:model` names a target without a targets file."""
    run_store: Reference | None = None
    """Stores only: `run_store(url)` makes the store of runs behind a StoreUrl, whose scheme is one of its names."""
    quota: Reference | None = None
    """Stores only: `quota(url)` makes the QuotaService behind a StoreUrl. Its `check()` raises StorageError when the
    quota cannot be used."""
    password_variable: str | None = None
    """Stores only: the environment variable that may hold the password of a URL without one."""

    def load_factory(self) -> Callable[..., Any]:
        """Return the factory.

        `factory(config, settings, tools)` makes an evaluator, `factory(target, tools)` a provider, `factory(tools)` a
        report, `factory(settings)` a store of judgements.
        """
        return load_reference(self.factory)

    def load_settings(self) -> type:
        """Return the settings class."""
        settings = load_reference(self.settings)
        if not isinstance(settings, type):
            raise PluginError(f"{self.name}: settings must be a class, got {settings!r}")
        return settings


class UnknownSettings(Struct, frozen=True):
    """The settings of a plug-in that is not imported: any keys are accepted, and none is read."""


def names_model(name: str, providers: "Registry") -> bool:
    """Return True for `provider:model` of a provider that has models to name."""
    provider, _, model = name.partition(":")
    known = bool(model) and providers.canonical(provider) is not None
    return known and providers.get(provider).named_model is not None


class Announced(Struct, frozen=True):
    """A plug-in that an installed package announces by name. Nothing of the package is imported before `load`.

    `brought_by` is the package with its version. `load` raises PluginError that names the package.
    """

    brought_by: str
    load: Callable[[], Spec]


class Registry(Struct):
    """The plug-ins of one kind. `what` completes messages: "unknown <what> 'x'".

    `installed` lists what installed packages announce; it is called on the first lookup of an unknown name, or of all
    names. An `announced` plug-in is loaded when its name is looked up, or a name that is otherwise unknown (it may be
    one of its aliases). One that cannot be loaded is `broken`, which is reported only when its name is looked up.
    """

    what: str
    specs: dict[str, Spec] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    announced: dict[str, Announced] = field(default_factory=dict)
    broken: dict[str, PluginError] = field(default_factory=dict)
    brought_by: dict[str, str] = field(default_factory=dict)
    installed: Callable[[], Iterable[tuple[str, Announced]]] | None = None
    stand_in: Callable[[str], Spec] | None = None
    """Makes the plug-in for a name that is unknown because the project's plug-ins are not imported."""
    stand_in_names: dict[str, None] = field(default_factory=dict)

    def add(self, spec: Spec) -> None:
        """Register a plug-in. Raises PluginError if one of its names is already taken."""
        for name in (spec.name, *spec.aliases):
            owner = self._known(name)
            if owner is not None and self.specs[owner] is not spec:
                raise PluginError(f"{self.what} name {name!r} is already taken by {owner!r}")
        self.specs[spec.name] = spec
        self.aliases.update(dict.fromkeys(spec.aliases, spec.name))

    def announce(self, name: str, announced: Announced) -> None:
        """Add a plug-in of an installed package. One registered here under the same name takes precedence."""
        earlier = self.announced.pop(name, None)
        if earlier is None and name not in self.broken:
            self.announced[name] = announced
            return
        first = earlier.brought_by if earlier else "another package"
        message = f"{self.what} {name!r} is brought by {first} and by {announced.brought_by}; uninstall one of them"
        self.broken[name] = PluginError(message)

    def canonical(self, name: str) -> str | None:
        """Return the canonical name for a name or alias, or None when it is not registered.

        Raises PluginError when it is the name of an installed plug-in that cannot be loaded.
        """
        if self._known(name) is not None:
            return self._known(name)
        self._ask_packages()
        if name in self.announced:
            self._load(name)
        if self._known(name) is None and name not in self.broken:
            self.load_all()
        if self._known(name) is None and name in self.broken:
            raise self.broken[name]
        if self._known(name) is None and self.stand_in is not None:
            self.add(self.stand_in(name))
            self.stand_in_names[name] = None
        return self._known(name)

    def load_all(self) -> None:
        """Load what installed packages announce; a plug-in that cannot be loaded goes into `broken`."""
        self._ask_packages()
        for name in tuple(self.announced):
            self._load(name)

    def get(self, name: str) -> Spec:
        """Return the plug-in of that name or alias. Raises UnknownNameError with the nearest known name."""
        registered = self.specs.get(name)
        if registered is not None:
            return registered
        canonical = self.canonical(name)
        if canonical is None:
            raise UnknownNameError(self.what, name, known=self.canonical_names(), aliases=self.aliases)
        return self.specs[canonical]

    def names(self) -> tuple[str, ...]:
        """All names and aliases, sorted."""
        self.load_all()
        return tuple(sorted({*self.specs, *self.aliases}))

    def canonical_names(self) -> tuple[str, ...]:
        """All names, sorted, without the aliases, as messages list them."""
        self.load_all()
        return tuple(sorted(self.specs))

    def copy(self) -> "Registry":
        """Return a registry with the same plug-ins, to which a run may add more."""
        parts = (self.specs, self.aliases, self.announced, self.broken, self.brought_by)
        copied = Registry(self.what, *(dict(part) for part in parts))  # type: ignore[arg-type]  # each a copy of its own
        copied.installed = self.installed
        copied.stand_in = self.stand_in
        return copied

    def _ask_packages(self) -> None:
        if self.installed is not None:
            ask, self.installed = self.installed, None
            for name, announced in ask():
                self.announce(name, announced)

    def _known(self, name: str) -> str | None:
        return name if name in self.specs else self.aliases.get(name)

    def _load(self, name: str) -> None:
        announced = self.announced.pop(name)
        if self._known(name) is not None:
            message = f"{self.what} {name!r} of {announced.brought_by} is hidden by another one of that name"
            self.broken[name] = PluginError(message)
            return
        try:
            spec = announced.load()
            self.add(spec)
        except PluginError as error:
            self.broken[name] = error
        else:
            self.brought_by[spec.name] = announced.brought_by

    def __iter__(self) -> Iterator[Spec]:
        """Yield the plug-ins in the order in which they were registered."""
        self.load_all()
        return iter(self.specs.values())

    def __contains__(self, name: object) -> bool:
        """Return True if the name or alias is registered, even by a package whose plug-in cannot be loaded."""
        try:
            return isinstance(name, str) and self.canonical(name) is not None
        except PluginError:
            return True


def make_registry(what: str, specs: Iterable[Spec]) -> Registry:
    """Return a registry that holds the given plug-ins."""
    registry = Registry(what)
    for spec in specs:
        registry.add(spec)
    return registry


class Specs(Struct, frozen=True):
    """Every plug-in that a run may name: loading validates against them, and the runtime makes objects from them."""

    providers: Registry
    evaluators: Registry
    reports: Registry = field(default_factory=lambda: Registry("report"))
    stores: Registry = field(default_factory=lambda: Registry("store"))

    def copy(self) -> "Specs":
        """Return a copy, so that a suite's plug-ins affect only its own run."""
        return Specs(self.providers.copy(), self.evaluators.copy(), self.reports.copy(), self.stores.copy())

    def of(self, kind: str) -> Registry:
        """Return the registry of a kind of plug-in: `evaluator`, `provider`, `report` or `store`."""
        return {
            "evaluator": self.evaluators,
            "provider": self.providers,
            "report": self.reports,
            "store": self.stores,
        }[kind]


ENTRY_POINTS: Mapping[str, str] = {
    "evaluator": "agentv.evaluators",
    "provider": "agentv.providers",
    "report": "agentv.reports",
    "store": "agentv.stores",
}
"""The kinds of plug-ins, each with the entry-point group through which installed packages provide them."""
