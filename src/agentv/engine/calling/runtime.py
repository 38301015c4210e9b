"""The live side of a run: turns configs into providers and evaluators, once, and owns what they share."""

import asyncio
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from agentv.engine.calling.budget import Budget
from agentv.engine.calling.capture import Redactor
from agentv.engine.calling.recorded_answers import RecordedAnswers
from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.planning.prices import budget_problem
from agentv.engine.planning.targets import KnownTargets
from agentv.execution.limits import AccountLimiter
from agentv.execution.sharing import Shared
from agentv.loading.models.settings import read_settings
from agentv.registry import Specs
from agentv.scoring.keys.identity import digest
from agentv.storage.run.find import find_run
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import AgentvError, ConfigError, EvaluatorError, PluginError
from agentv.types.evaluation import Evaluator, is_evaluator
from agentv.types.json_value import JsonObject
from agentv.types.protocols import Clock, EvaluatorTools, SharedParts
from agentv.types.provider import BatchTicket, Provider
from agentv.types.targets import ResolvedTarget

if TYPE_CHECKING:
    from agentv.engine.calling.answer_memory import RunCache
    from agentv.engine.calling.embeddings import SharedEmbedder


Part = TypeVar("Part")


class LRUCache(Generic[Part]):
    """Parts by the config object that they were made of, those used last, at most `limit` of them.

    Configs of a suite stay the same objects from case to case; a stream's come and go.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # The config stands beside its part: an id alone would be somebody else's once the config is gone.
        self._parts: dict[int, tuple[EvaluatorConfig, Part]] = {}

    def get(self, config: EvaluatorConfig) -> Part | None:
        """Return what is kept of a config, None when nothing is."""
        kept = self._parts.pop(id(config), None)
        if kept is None:
            return None
        self._parts[id(config)] = kept
        return kept[1]

    def keep(self, config: EvaluatorConfig, part: Part) -> None:
        """Keep a part; what was not used for longest goes when there are too many."""
        if len(self._parts) >= self._limit:
            del self._parts[next(iter(self._parts))]
        self._parts[id(config)] = (config, part)


SETTINGS_KEPT = 1024
EVALUATORS_KEPT = 64
"""Fewer than settings: one may hold tens of thousands of terms, ready to be looked for."""
ADDRESS_SETTINGS = ("base_url", "endpoint", "resource", "resourceName", "url", "project", "location")
"""Settings that say where an account is; with provider and key they tell accounts apart."""


class Runtime:
    """Live objects of one process, made from configs when first asked for.

    Use it as an async context manager: what was opened is closed at the end. `overrides` are evaluators given as
    objects by type name (seed REQ-EVAL-006). `note` tells people something about the run, `workers` how
    many rows of a target are worked on at once. `cache` knows answers that need not be asked for again,
    `budget` what may be spent; the targets in `unasked` will not be called, and need no price for it.
    """

    def __init__(
        self,
        *,
        specs: Specs,
        clock: Clock,
        rng: random.Random,
        home: str,
        run_id: str | None = None,
        prices: Mapping[str, JsonObject] | None = None,
        overrides: Mapping[str, Evaluator] | None = None,
        note: Callable[[str], None] = lambda _message: None,
        workers: Callable[[ResolvedTarget], int] = lambda target: target.workers or 1,
        cache: "RunCache | None" = None,
        budget: Budget | None = None,
        unasked: tuple[ResolvedTarget, ...] = (),
    ) -> None:
        self.specs = specs
        self.clock = clock
        self.rng = rng
        self.home = home
        self.run_id = run_id
        self.note = note
        self._workers = workers
        self._cache = cache
        self.budget = budget
        self._unasked = unasked
        self.shared: SharedParts = Shared()
        self.recorded = RecordedAnswers(self.find_run)
        self._prices = prices or {}
        self._overrides = overrides or {}
        self._providers: dict[int, tuple[ResolvedTarget, ResilientProvider]] = {}
        self._embedders: dict[int, SharedEmbedder] = {}
        self._limiters: dict[str, AccountLimiter] = {}
        self._redactors: dict[tuple[int, int, tuple[str, ...]], Redactor] = {}
        self._settings: LRUCache[object] = LRUCache(SETTINGS_KEPT)
        self._reusable: LRUCache[Evaluator] = LRUCache(EVALUATORS_KEPT)

    async def __aenter__(self) -> Self:
        """Start owning."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what was opened, those who ask providers first, then these."""
        await asyncio.gather(*(embedder.aclose() for embedder in self._embedders.values()))
        closing = [provider.aclose() for _, provider in self._providers.values()]
        await asyncio.gather(*closing, return_exceptions=True)
        if isinstance(self.shared, Shared):
            await self.shared.aclose()

    def find_run(self, reference: str) -> str:
        """Return the folder of a stored run; the one that is being made is never meant."""
        return str(find_run(Path(self.home), reference, without=self.run_id))

    def find_open_batch(self, target: str, left: frozenset[str], keys: frozenset[str]) -> BatchTicket | None:
        """Return a batch that was handed in and not fetched, and that answers what is left of these answer keys."""
        from agentv.storage.run.open_batches import find_open_batch  # noqa: PLC0415 - few runs hand in batches

        return find_open_batch(Path(self.home), target, left, keys=keys, own=self.run_id)

    def provider(self, target: ResolvedTarget) -> ResilientProvider:
        """Return the live provider of a target; the same one for the same target."""
        known = self._providers.get(id(target))
        if known is not None:
            return known[1]
        spec = self.specs.providers.get(target.provider)
        # Planning refuses such a target; a judge that only a late line of a stream names comes to light here.
        is_watched = self.budget is not None and not any(target is other for other in self._unasked)
        if is_watched and (problem := budget_problem(target, spec, self._prices)):
            raise ConfigError(problem)
        provider = spec.load_factory()(target, self)
        if not isinstance(provider, Provider):
            raise PluginError(f"provider {spec.name!r} made {type(provider).__name__}, which has no kind and invoke()")
        resilient = ResilientProvider(
            provider,
            target,
            counts_attempts=not (spec.is_model_api or spec.is_web_service),
            clock=self.clock,
            rng=self.rng,
            prices=self._prices,
            limiter=self._limiter(target) if spec.is_model_api or target.requests_per_minute else None,
            memory=None if self._cache is None else self._cache.memory(target, spec),
            budget=None if spec.is_canned else self.budget,
        )
        self._providers[id(target)] = (target, resilient)
        return resilient

    def embedder(self, target: ResolvedTarget) -> "SharedEmbedder":
        """Return who makes vectors with a target; the same one for the same target."""
        if id(target) not in self._embedders:
            from agentv.engine.calling.embeddings import SharedEmbedder  # noqa: PLC0415 - few runs have an embedder
            from agentv.storage.cache.embeddings import EMBEDDINGS_FOLDER, EmbeddingCache  # noqa: PLC0415

            # A library call makes no folder in somebody's project: what is kept is kept where there is one.
            home = Path(self.home)
            cache = EmbeddingCache(home / EMBEDDINGS_FOLDER) if home.is_dir() else None
            self._embedders[id(target)] = SharedEmbedder(self.provider(target), cache)
        return self._embedders[id(target)]

    def _limiter(self, target: ResolvedTarget) -> AccountLimiter:
        """Return the limiter of a target's account: targets and judges with one address and key share it.

        A program or a function has no account that could be known by its settings: it is one by itself.
        """
        spec = self.specs.providers.get(target.provider)
        settings = target.public_settings
        address = sorted(str(settings[name]).rstrip("/") for name in ADDRESS_SETTINGS if name in settings)
        if not (spec.is_model_api or spec.is_web_service):
            address = [target.path, target.name]
        account = digest([target.provider, address, sorted(target.secrets)])
        if account not in self._limiters:
            self._limiters[account] = AccountLimiter(now=asyncio.get_running_loop().time)
        self._limiters[account].add_target(
            requests_per_minute=target.requests_per_minute,
            tokens_per_minute=target.tokens_per_minute,
            workers=self._workers(target),
        )
        return self._limiters[account]

    def own_judge(self, target: ResolvedTarget, known: KnownTargets) -> ResilientProvider | None:
        """Return who judges a target's answers: its `judge_target`, else itself if it can, else None.

        A judge that cannot be had is None as well: whoever needs one was refused while planning, the others must not
        stumble over a key that nobody set.
        """
        if not target.judge_target:
            return self.provider(target) if self.specs.providers.get(target.provider).can_judge else None
        try:
            return self.provider(known.get(target.judge_target))
        except AgentvError as error:
            self.note(f"judge_target of target {target.name!r} cannot be used: {error}")
            return None

    def redactor(self, known: KnownTargets, patterns: tuple[str, ...]) -> Redactor:
        """Return what must be struck from everything that comes in: the secrets of all targets in use, patterns."""
        key = (id(known), len(known.resolved), patterns)
        if key not in self._redactors:
            secrets = [secret for target in known.resolved.values() for secret in target.secrets]
            self._redactors[key] = Redactor(secrets, patterns)
        return self._redactors[key]

    def evaluator(self, config: EvaluatorConfig, tools: EvaluatorTools) -> Evaluator:
        """Return an evaluator made from its config, or the one given as an object for its type.

        It is a new one each time (seed: a CodeEvaluator for each case and evaluator), unless its class says by
        `reusable` that it keeps nothing between answers and takes nothing but its config.

        An object that can be `configured` takes over the config's own settings (a judge its custom prompt). A registry
        of objects answers for types that nobody registered, too (seed REQ-EVAL-006).
        """
        known = self._reusable.get(config)
        if known is not None:
            return known
        given = self._overrides.get(config.type) if self._is_overridden(config.type) else None
        if given is not None:
            configure = getattr(given, "configured", None)
            if configure is None or config.type not in self.specs.evaluators:
                return given
            configured: Evaluator = configure(config, self.settings(config), tools)
            return configured
        spec = self.specs.evaluators.get(config.type)
        evaluator = spec.load_factory()(config, self.settings(config), tools)
        if not is_evaluator(evaluator):
            raise EvaluatorError(f"evaluator type {spec.name!r} made {type(evaluator).__name__}, which cannot evaluate")
        if getattr(evaluator, "reusable", False):
            self._reusable.keep(config, evaluator)
        return evaluator

    def _is_overridden(self, type_: str) -> bool:
        return bool(self._overrides) and (type_ in self._overrides or type_ not in self.specs.evaluators)

    def settings(self, config: EvaluatorConfig) -> object:
        """Return a config's typed settings, read once as long as they are kept."""
        settings = self._settings.get(config)
        if settings is None:
            settings = read_settings(self.specs.evaluators.get(config.type), config.settings, where=config.name)
            self._settings.keep(config, settings)
        return settings
