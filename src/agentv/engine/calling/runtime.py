"""The objects that live as long as a run: providers and evaluators made from configs, and what they share."""

import asyncio
import hashlib
import hmac
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from agentv.engine.calling.budget import Budget
from agentv.engine.calling.recorded_answers import RecordedAnswers
from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.capture import Redactor
from agentv.engine.planning.plan import RunPlan
from agentv.engine.planning.prices import budget_problem, needs_reported_costs
from agentv.engine.planning.targets import KnownTargets
from agentv.evaluators.isolation import is_evaluator
from agentv.evaluators.watched_files import WatchedFiles
from agentv.execution.limits import AccountLimiter
from agentv.execution.quotas import InProcessQuota, LeasedPermits, QuotaClient
from agentv.execution.sharing import SharedResources
from agentv.execution.user_code import call_user_code
from agentv.loading.models.judges import member_configs
from agentv.loading.models.settings import named_files, read_settings
from agentv.registry import Specs
from agentv.scoring.keys.identity import digest
from agentv.storage.run.find import find_run
from agentv.storage.run.stored import counted_lines
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import AgentvError, ConfigError, EvaluatorError, PluginError
from agentv.types.evaluation import Evaluator
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.protocols import Clock, EvaluatorTools, SharedParts
from agentv.types.provider import BatchTicket, CheckedProvider, PlacedCheckProvider, Provider, ProviderError
from agentv.types.targets import ResolvedTarget

if TYPE_CHECKING:
    from agentv.engine.calling.embeddings import SharedEmbedder
    from agentv.engine.calling.target_answer_cache import RunCache


Part = TypeVar("Part")


class LRUCache(Generic[Part]):
    """The `limit` last used objects made from configs, by the identity of the config.

    The configs of a suite stay the same objects from case to case; those of a stream do not.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Hold the config as well: once it is freed, its id may be reused for another object.
        self._parts: dict[int, tuple[EvaluatorConfig, Part]] = {}

    def get(self, config: EvaluatorConfig) -> Part | None:
        """Return the object cached for a config, or None."""
        cached = self._parts.pop(id(config), None)
        if cached is None:
            return None
        self._parts[id(config)] = cached
        return cached[1]

    def put(self, config: EvaluatorConfig, part: Part) -> None:
        """Cache an object; the least recently used one is dropped if there are too many."""
        if len(self._parts) >= self._limit:
            del self._parts[next(iter(self._parts))]
        self._parts[id(config)] = (config, part)


MAX_SETTINGS = 1024
MAX_EVALUATORS = 64
"""Fewer than settings: one evaluator may hold tens of thousands of compiled terms."""

ADDRESS_SETTINGS = ("base_url", "endpoint", "resource", "resourceName", "url", "project", "location")
"""Settings with an account's address; provider, address and key identify an account."""


class Runtime:
    """The live objects of one process, made from configs on first use.

    Use a runtime as an async context manager, which closes its objects at the end. `machine` is the name of a node of
    a cluster. `overrides` are evaluators given as objects, by type name (seed REQ-EVAL-006). `note` reports a message
    to the user; `workers` returns the number of concurrent rows of a target. `cache` has the cached answers, `budget`
    the money of the run. `uncalled_targets` will not be called, and need no price for the budget. `quota` is the
    client of a quota shared with other processes; without it, rate limits apply to this process alone. `watched_files`
    are those that evaluators read or run.
    """

    def __init__(
        self,
        *,
        specs: Specs,
        clock: Clock,
        rng: random.Random,
        home: str,
        machine: str = "",
        run_id: str | None = None,
        prices: Mapping[str, JsonObject] | None = None,
        overrides: Mapping[str, Evaluator] | None = None,
        note: Callable[[str], None] = lambda _message: None,
        workers: Callable[[ResolvedTarget], int] = lambda target: (
            target.workers if isinstance(target.workers, int) else 1
        ),
        cache: "RunCache | None" = None,
        budget: Budget | None = None,
        uncalled_targets: tuple[ResolvedTarget, ...] = (),
        quota: QuotaClient | None = None,
        watched_files: WatchedFiles | None = None,
    ) -> None:
        self.specs = specs
        self.clock = clock
        self.rng = rng
        self.home = home
        self.machine = machine
        self.run_id = run_id
        self.note = note
        self._workers = workers
        self._cache = cache
        self.budget = budget
        self._uncalled = uncalled_targets
        self._quota = quota
        self.watched_files = watched_files or WatchedFiles()
        self.shared: SharedParts = SharedResources()
        self.recorded_answers = RecordedAnswers(self.find_run)
        self._prices = prices or {}
        self._overrides = overrides or {}
        self._providers: dict[int, tuple[ResolvedTarget, ResilientProvider]] = {}
        self._embedders: dict[int, SharedEmbedder] = {}
        self._limiters: dict[str, AccountLimiter] = {}
        self._redactors: dict[tuple[int, int, tuple[str, ...], frozenset[str]], Redactor] = {}
        self._settings: LRUCache[object] = LRUCache(MAX_SETTINGS)
        self._reusable: LRUCache[Evaluator] = LRUCache(MAX_EVALUATORS)

    async def __aenter__(self) -> Self:
        """Return the runtime itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close everything that was opened: embedders, which call providers, before providers."""
        await asyncio.gather(*(embedder.aclose() for embedder in self._embedders.values()))
        closing = [provider.aclose() for _, provider in self._providers.values()]
        await asyncio.gather(*closing, return_exceptions=True)
        await asyncio.gather(*(limiter.aclose() for limiter in self._limiters.values()))
        if self.budget is not None:
            await self.budget.aclose()
        if self._quota is not None:
            await self._quota.quota.aclose()
        if isinstance(self.shared, SharedResources):
            await self.shared.aclose()

    @property
    def may_refuse_calls(self) -> bool:
        """True if a call may be refused because of a budget, or because a shared quota does not answer."""
        return self.budget is not None or self._quota is not None

    def find_run(self, reference: str) -> str:
        """Return the folder of a stored run, never that of the current run."""
        return str(find_run(Path(self.home), reference, without=self.run_id))

    def recorded_rows(self, path: str) -> Iterator[tuple[int, JsonObject]] | None:
        """Return the records of a table, a JSON document or OTLP exports, each with its line; None for JSON Lines."""
        from agentv.loading.datasets.log_rows import has_whole_rows, whole_rows  # noqa: PLC0415 - few runs need it

        return whole_rows(Path(path)) if has_whole_rows(Path(path)) else None

    def counted_lines(self, path: str) -> Iterator[tuple[int, int, bytes]] | None:
        """Return number, offset and bytes of the lines that count in a file of a stored run; None for other files."""
        return counted_lines(Path(path))

    def find_open_batch(self, target: str, remaining: frozenset[str], keys: frozenset[str]) -> BatchTicket | None:
        """Return the ticket of an open batch with answers to `remaining`, or None.

        `remaining` are those of the answer keys `keys` that have no answer yet. A batch of another run must contain all
        of them, a batch of this run at least one.
        """
        from agentv.storage.run.open_batches import find_open_batch  # noqa: PLC0415 - few runs submit batches

        return find_open_batch(Path(self.home), target, remaining, keys=keys, own_run_id=self.run_id)

    def provider(self, target: ResolvedTarget) -> ResilientProvider:
        """Return the live provider of a target; the same object for the same target."""
        known = self._providers.get(id(target))
        if known is not None:
            return known[1]
        spec = self.specs.providers.get(target.provider)
        # Planning rejects targets without a price, but cannot see the judges that are named in the lines of a stream.
        is_budgeted = self.budget is not None and not any(target is other for other in self._uncalled)
        if is_budgeted and (problem := budget_problem(target, spec, self._prices)):
            raise ConfigError(problem)
        provider = spec.load_factory()(target, self)
        if not isinstance(provider, Provider):
            raise PluginError(
                f"provider {spec.name!r} returned a {type(provider).__name__} without `kind` and `invoke()`"
            )
        resilient = ResilientProvider(
            provider,
            target,
            counts_attempts=not (spec.is_model_api or spec.is_web_service),
            is_code=spec.is_code,
            clock=self.clock,
            rng=self.rng,
            prices=self._prices,
            limiter=self._limiter(target) if spec.is_model_api or target.requests_per_minute else None,
            answer_cache=None if self._cache is None else self._cache.for_target(target, spec),
            budget=None if spec.is_canned else self.budget,
            needs_costs=needs_reported_costs(target, spec, self._prices),
            note=self.note,
        )
        self._providers[id(target)] = (target, resilient)
        return resilient

    def embedder(self, target: ResolvedTarget) -> "SharedEmbedder":
        """Return the embedder of a target; the same object for the same target."""
        if id(target) not in self._embedders:
            from agentv.engine.calling.embeddings import SharedEmbedder  # noqa: PLC0415 - few runs have an embedder
            from agentv.storage.cache.embeddings import EMBEDDINGS_FOLDER, EmbeddingCache  # noqa: PLC0415

            # A library call must not create a folder in the caller's project: cache on disk only if it exists.
            home = Path(self.home)
            cache = EmbeddingCache(home / EMBEDDINGS_FOLDER) if home.is_dir() else None
            self._embedders[id(target)] = SharedEmbedder(self.provider(target), cache)
        return self._embedders[id(target)]

    def _limiter(self, target: ResolvedTarget) -> AccountLimiter:
        """Return the rate limiter of a target's account, shared by targets and judges with the same address and key."""
        account = self.account_of(target)
        if account not in self._limiters:
            now = asyncio.get_running_loop().time
            client = self._quota or QuotaClient(InProcessQuota(now), now)
            self._limiters[account] = AccountLimiter(now=now, leased=LeasedPermits(client, account))
        self._limiters[account].add_target(
            requests_per_minute=target.requests_per_minute,
            tokens_per_minute=target.tokens_per_minute,
            workers=self._workers(target),
        )
        return self._limiters[account]

    def account_of(self, target: ResolvedTarget) -> str:
        """Return the name of a target's account, which does not reveal its key.

        Settings do not identify the account of a program or a function: each such target is an account of its own, the
        same on every machine.
        """
        spec = self.specs.providers.get(target.provider)
        settings = target.public_settings
        identity: list[JsonValue] = [target.provider]
        if spec.is_model_api or spec.is_web_service:
            identity.append(sorted(str(settings[name]).rstrip("/") for name in ADDRESS_SETTINGS if name in settings))
        else:
            project = Path(self.home).absolute().parent
            identity += [target.name, os.path.relpath(target.path, project) if target.path else ""]
        key = "\0".join(sorted(target.own_secrets)).encode()
        return hmac.new(key, digest(identity).encode(), hashlib.sha256).hexdigest()

    def own_judge(self, target: ResolvedTarget, known: KnownTargets) -> ResilientProvider | None:
        """Return the judge of a target's answers: its `judge`, else the target itself, or None.

        The result is None if the target has no `judge` and cannot judge, or if its `judge` cannot be
        created, for instance because a key is missing. A run that needs this judge was rejected by planning; a run that
        does not need it must not fail.
        """
        if not target.judge:
            return self.provider(target) if self.specs.providers.get(target.provider).can_judge else None
        try:
            return self.provider(known.get(target.judge))
        except AgentvError as error:
            self.note(f"the judge of target {target.name!r} cannot be used: {error}")
            return None

    def redactor(self, known: KnownTargets, patterns: tuple[str, ...], keys: frozenset[str] = frozenset()) -> Redactor:
        """Return the redactor of responses: for the secrets of all targets in use, the patterns and further keys."""
        key = (id(known), len(known.resolved), patterns, keys)
        if key not in self._redactors:
            secrets = {*known.secrets, *(secret for target in known.resolved.values() for secret in target.secrets)}
            secrets |= keys
            self._redactors[key] = Redactor(secrets, patterns)
        return self._redactors[key]

    def files_of(self, config: EvaluatorConfig) -> Iterator[str]:
        """Yield the files that the settings of an evaluator and of its members name."""
        settings = self.settings(config)
        yield from named_files(settings, config.base_dir)
        for member in member_configs(settings):
            yield from self.files_of(member)

    def evaluator(self, config: EvaluatorConfig, tools: EvaluatorTools) -> Evaluator:
        """Return an evaluator made from its config, or the object given for its type.

        An evaluator is made for each answer (seed: a CodeEvaluator for each case and evaluator), unless its class
        declares with `reusable` that it has no state between answers and depends on nothing but its config.

        An object with a method `configured` gets the settings of the config, such as a judge's prompt. Given objects
        may have types that are not registered (seed REQ-EVAL-006).
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
            raise EvaluatorError(
                f"evaluator type {spec.name!r} returned a {type(evaluator).__name__} without `kind` and `evaluate()`"
            )
        if getattr(evaluator, "reusable", False):
            self._reusable.put(config, evaluator)
        return evaluator

    def _is_overridden(self, type_: str) -> bool:
        """Return True if `overrides` may have an evaluator for a type.

        A type that is not in `specs` is looked up in any case: an `EvaluatorRegistry` may return its default judge.
        """
        return bool(self._overrides) and (type_ in self._overrides or type_ not in self.specs.evaluators)

    def settings(self, config: EvaluatorConfig) -> object:
        """Return the typed settings of a config; they are cached."""
        settings = self._settings.get(config)
        if settings is None:
            settings = read_settings(self.specs.evaluators.get(config.type), config.settings, where=config.name)
            self._settings.put(config, settings)
        return settings


async def failed_check(targets: Iterable[ResolvedTarget], plan: RunPlan, runtime: Runtime) -> str | None:
    """Run the healthcheck of each target that has one; return the message of the first failure, or None."""
    for target in targets:
        provider = runtime.provider(target).provider
        if not isinstance(provider, CheckedProvider):
            continue
        try:
            if isinstance(provider, PlacedCheckProvider):
                await call_user_code(partial(provider.healthcheck_in, plan.folders_of(target)), timeout_s=None)
            else:
                await call_user_code(provider.healthcheck, timeout_s=None)
        except Exception as error:  # noqa: BLE001 - plug-in code: any exception means that the check failed
            message = Redactor(target.secrets).text(str(error))
            is_provider_error = isinstance(error, ProviderError)  # its message is a sentence on the target
            return message if is_provider_error else f"the healthcheck of target {target.name!r} failed: {message}"
    return None
