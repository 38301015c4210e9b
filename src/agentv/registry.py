"""Registries that find plug-ins by name or alias, and import them on first use. Each kind of plug-in has one."""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

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
    """The settings of a target that is named `provider:model` instead of being listed in a targets file."""

    variables: Mapping[str, str]
    """The environment variables of further settings, `api_key` among them: those that the vendor's own client reads."""
    key: str = "model"
    """The setting that takes the model."""
    judge: str | None = None
    """The model of the default judge, which is used if the environment has the API key."""


class Spec(Struct, frozen=True):
    """A registered plug-in of any kind; each kind has its own subclass."""

    name: str
    summary: str
    settings: Reference
    """A frozen Struct whose fields carry their descriptions (`Annotated[..., Meta(description=…)]`). Loading derives
    the strict model and the JSON Schema from it, and `agentv plugins` the table of settings."""
    factory: Reference
    """Makes the plug-in; its arguments depend on the kind."""
    aliases: tuple[str, ...] = ()
    extra: str | None = None
    """The extra of agentv's package that installs what the plug-in needs."""

    def load_factory(self) -> Callable[..., Any]:
        """Return the factory. Raises PluginError if it cannot be imported."""
        return load_reference(self.factory)

    def load_settings(self) -> type:
        """Return the settings class."""
        settings = load_reference(self.settings)
        if not isinstance(settings, type):
            raise PluginError(f"{self.name}: settings must be a class, got {settings!r}")
        return settings


class EvaluatorSpec(Spec, frozen=True):
    """An evaluator, made by `factory(config, settings, tools)`."""

    cost: str = "free"
    """`free`, or `paid` if it may cost money."""
    is_deterministic: bool = True
    """The same answer always gets the same score, hits and misses, whatever else is judged before or with it. False
    for an evaluator that calls a model or runs user code."""
    criteria_from_results: bool = False
    """Its results may have criteria that its settings do not name, as those of a plug-in."""


class ProviderSpec(Spec, frozen=True):
    """A provider, made by `factory(target, tools)`."""

    cost: str = "free"
    """`free`, or `paid` if it may cost money."""
    is_model_api: bool = False
    """A chat model, prompted with chat messages. Its repeated attempts do not count in the row's `attempt`; they are
    only in `calls`."""
    is_web_service: bool = False
    """Called over HTTP without being a model API. Its repeated attempts do not count in the row's `attempt`; they are
    only in `calls`."""
    reads_files: bool = False
    """An agent that reads files by itself, so that a prompt names them instead of quoting them."""
    works_in_folder: bool = False
    """Works in a folder, so that a row may get its own workspace."""
    is_canned: bool = False
    """Answers from stored data, so that there is no service whose health could be checked."""
    program: str | None = None
    """The program that it calls, unless its settings name another one."""
    can_judge: bool = False
    """May judge its own answers when no `judge` is named."""
    is_code: bool = False
    """Runs code or returns stored replies instead of calling a model. As a judge, it may therefore reply with a bare
    JSON object that lacks the nonce of the call."""
    reports_cost: bool = False
    """An answer may come with its cost, whether or not a price is configured. A budget then needs no price, and stops
    the run at the first answer without a cost."""
    embeds: bool = False
    """Makes embeddings (types.provider.EmbeddingProvider)."""
    answers: bool = True
    """False if it only makes embeddings and therefore cannot be the target of a run."""
    named_model: NamedModel | None = None
    """Set if a target may be named as `provider:model`, without a targets file."""


class ReportSpec(Spec, frozen=True):
    """A report format, made by `factory(tools)`; its name is the suffix of its files."""

    document: Reference | None = None
    """`document(documents)` returns documents as text, so that commands such as `agentv compare` have this format,
    too."""


class StoreSpec(Spec, frozen=True):
    """A store of judgements, made by `factory(settings, base_dir)`; it may also store runs."""

    run_store: Reference | None = None
    """`run_store(url)` makes the store of runs at a StoreUrl, whose scheme is a name of this plug-in."""
    quota: Reference | None = None
    """`quota(url)` makes the QuotaService at a StoreUrl. Its `check` raises StorageError if the quota cannot be
    used."""
    password_variable: str | None = None
    """The environment variable that may hold the password of a URL without one."""


S = TypeVar("S", bound=Spec)


class UnknownSettings(Struct, frozen=True):
    """The settings of a plug-in that is not imported: any keys are accepted, and none is read."""


def names_model(name: str, providers: "Registry[ProviderSpec]") -> bool:
    """Return True if `name` is `provider:model`, with a provider whose models may be named so."""
    provider, _, model = name.partition(":")
    if not model or providers.canonical(provider) is None:
        return False
    return providers.get(provider).named_model is not None


def model_spelling(name: str, providers: "Registry[ProviderSpec]") -> str | None:
    """Return `provider:model` for a name that is written `provider/model`, as other tools do; else None."""
    spelled = name.replace("/", ":", 1)
    return spelled if "/" in name and names_model(spelled, providers) else None


class Announced(Struct, Generic[S], frozen=True):
    """A plug-in that an installed package announces by name. Nothing of the package is imported before `load`."""

    package: str
    """The name of the package with its version."""
    load: Callable[[], S]
    """Imports the plug-in. Raises a PluginError that names the package if it cannot be loaded."""


class Registry(Struct, Generic[S]):
    """The plug-ins of one kind.

    An announced plug-in is loaded when its name is looked up. All are loaded when a name is still unknown, because it
    may be an alias of one of them.
    """

    kind: str
    """The word for them in messages: "unknown <kind> 'x'"."""
    specs: dict[str, S] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    announced: dict[str, Announced[S]] = field(default_factory=dict)
    broken: dict[str, PluginError] = field(default_factory=dict)
    """The errors of announced plug-ins that cannot be loaded, each raised only when its name is looked up."""
    packages: dict[str, str] = field(default_factory=dict)
    """The package of each loaded plug-in that was announced, with its version."""
    find_announced: Callable[[], Iterable[tuple[str, Announced[S]]]] | None = None
    """Returns the plug-ins that installed packages announce; called once, when a name is unknown or all are listed."""
    make_stand_in: Callable[[str], S] | None = None
    """Makes a stand-in for a name that is unknown because the project's plug-ins are not imported."""
    stand_in_names: dict[str, None] = field(default_factory=dict)

    def add(self, spec: S) -> None:
        """Register a plug-in. Raises PluginError if one of its names is already taken."""
        for name in (spec.name, *spec.aliases):
            owner = self._registered(name)
            if owner is not None and self.specs[owner] is not spec:
                raise PluginError(f"{self.kind} name {name!r} is already taken by {owner!r}")
        self.specs[spec.name] = spec
        self.aliases.update(dict.fromkeys(spec.aliases, spec.name))

    def announce(self, name: str, announced: Announced[S]) -> None:
        """Add a plug-in of an installed package. A registered plug-in with the same name takes precedence."""
        earlier = self.announced.pop(name, None)
        if earlier is None and name not in self.broken:
            self.announced[name] = announced
            return
        first = earlier.package if earlier else "another package"
        message = f"{self.kind} {name!r} is provided by {first} and by {announced.package}; uninstall one of them"
        self.broken[name] = PluginError(message)

    def canonical(self, name: str) -> str | None:
        """Return the canonical name for a name or alias, or None when it is not registered.

        Raises PluginError when it is the name of an installed plug-in that cannot be loaded.
        """
        if self._registered(name) is not None:
            return self._registered(name)
        self._announce_installed()
        if name in self.announced:
            self._load(name)
        if self._registered(name) is None and name not in self.broken:
            self.load_all()
        if self._registered(name) is None and name in self.broken:
            raise self.broken[name]
        if self._registered(name) is None and self.make_stand_in is not None:
            self.add(self.make_stand_in(name))
            self.stand_in_names[name] = None
        return self._registered(name)

    def load_all(self) -> None:
        """Load all plug-ins that installed packages announce; those that cannot be loaded are moved to `broken`."""
        self._announce_installed()
        for name in tuple(self.announced):
            self._load(name)

    def get(self, name: str) -> S:
        """Return the plug-in of that name or alias. Raises UnknownNameError with the nearest known name."""
        registered = self.specs.get(name)
        if registered is not None:
            return registered
        canonical = self.canonical(name)
        if canonical is None:
            raise UnknownNameError(self.kind, name, known=self.canonical_names(), aliases=self.aliases)
        return self.specs[canonical]

    def names(self) -> tuple[str, ...]:
        """Return all names and aliases, sorted."""
        self.load_all()
        return tuple(sorted({*self.specs, *self.aliases}))

    def canonical_names(self) -> tuple[str, ...]:
        """Return all names without the aliases, sorted, as messages list them."""
        self.load_all()
        return tuple(sorted(self.specs))

    def copy(self) -> "Registry[S]":
        """Return a registry with the same plug-ins, to which a run may add more."""
        return Registry(
            self.kind,
            specs=dict(self.specs),
            aliases=dict(self.aliases),
            announced=dict(self.announced),
            broken=dict(self.broken),
            packages=dict(self.packages),
            find_announced=self.find_announced,
            make_stand_in=self.make_stand_in,
        )

    def _announce_installed(self) -> None:
        if self.find_announced is not None:
            find, self.find_announced = self.find_announced, None
            for name, announced in find():
                self.announce(name, announced)

    def _registered(self, name: str) -> str | None:
        """Return the canonical name of a registered name or alias; unlike `canonical`, load nothing."""
        return name if name in self.specs else self.aliases.get(name)

    def _load(self, name: str) -> None:
        announced = self.announced.pop(name)
        if self._registered(name) is not None:
            message = f"{self.kind} {name!r} of {announced.package} is hidden by another plug-in of that name"
            self.broken[name] = PluginError(message)
            return
        try:
            spec = announced.load()
            self.add(spec)
        except PluginError as error:
            self.broken[name] = error
        else:
            self.packages[spec.name] = announced.package

    def __iter__(self) -> Iterator[S]:
        """Yield the plug-ins in the order in which they were registered."""
        self.load_all()
        return iter(self.specs.values())

    def __contains__(self, name: object) -> bool:
        """Return True if the name or alias is registered, even by a package whose plug-in cannot be loaded."""
        try:
            return isinstance(name, str) and self.canonical(name) is not None
        except PluginError:
            return True


def make_registry(kind: str, specs: Iterable[S]) -> Registry[S]:
    """Return a registry that holds the given plug-ins."""
    registry = Registry[S](kind)
    for spec in specs:
        registry.add(spec)
    return registry


class Specs(Struct, frozen=True):
    """The plug-ins that the files of a run may name, one registry for each kind."""

    providers: Registry[ProviderSpec]
    evaluators: Registry[EvaluatorSpec]
    importers: Reference
    """Makes, from these plug-ins, the importers of files of other programs (loading.translation.importers)."""
    reports: Registry[ReportSpec] = field(default_factory=lambda: Registry("report"))
    stores: Registry[StoreSpec] = field(default_factory=lambda: Registry("store"))

    def of(self, kind: str) -> Registry[Any]:
        """Return the registry of a kind of plug-in: `evaluator`, `provider`, `report` or `store`."""
        registries: Mapping[str, Registry[Any]] = {
            "evaluator": self.evaluators,
            "provider": self.providers,
            "report": self.reports,
            "store": self.stores,
        }
        return registries[kind]


ENTRY_POINTS: Mapping[str, str] = {
    "evaluator": "agentv.evaluators",
    "provider": "agentv.providers",
    "report": "agentv.reports",
    "store": "agentv.stores",
}
"""The kinds of plug-ins, each with the entry-point group through which installed packages provide them."""
