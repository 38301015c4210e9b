"""The session of one target in one suite: what its answers are called, judged and cleaned with."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from agentv.engine.calling.fingerprints import Fingerprints, StoredEvaluators, put_bounded
from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.calling.runtime import MAX_EVALUATORS, Runtime
from agentv.engine.capture import Cleaner
from agentv.engine.planning.plan import CaseTask
from agentv.engine.planning.prepared_case import PreparedCase, prompt_form
from agentv.engine.running.context import conversation_evaluator, unanswered_context
from agentv.engine.running.score import DEFAULT_EVALUATOR_TIMEOUT_S, SuiteTools, run_evaluators
from agentv.evaluators.isolation import PreparedEvaluator
from agentv.types.cases import EvaluatorLike
from agentv.types.evaluation import EvaluationContext, EvaluatorResult
from agentv.types.scales import EvaluationCriteria


class Scoring(Struct, frozen=True):
    """All that scoring needs besides the answer; the same for all cases with the same evaluators and criteria."""

    evaluators: tuple[EvaluatorLike, ...]
    criteria: tuple[EvaluationCriteria, ...]
    stored_form: StoredEvaluators
    """The evaluators as a run stores them."""
    prepared_evaluators: tuple[PreparedEvaluator, ...]
    setup_digests: Mapping[str, str]
    """The digests of the evaluators by name (Fingerprints)."""


class Session:
    """What all answers of one target in one suite are judged and cleaned with."""

    def __init__(self, task: CaseTask, runtime: Runtime, fingerprints: Fingerprints) -> None:
        # Keep the suite and the target alive: the session is found by their ids, which must not be reused.
        self._suite, self._target = task.suite, task.target
        self._known = task.known
        self._runtime = runtime
        self._fingerprints = fingerprints
        self._cleaner: Cleaner | None = None
        self._cleaned_targets = 0
        self._workspace_keys: frozenset[str] = frozenset()
        timeout_s = task.suite.evaluator_timeout_s or DEFAULT_EVALUATOR_TIMEOUT_S
        self.tools = SuiteTools(runtime, task.known, timeout_s, task.only_free)

    async def score(
        self,
        context: EvaluationContext,
        evaluators: Sequence[PreparedEvaluator],
        known: Mapping[str, EvaluatorResult],
        *,
        concurrency: int = 1,
    ) -> tuple[EvaluatorResult, ...]:
        """Return the cleaned results of all evaluators, in order; those `known` by name do not run again."""
        pending = [evaluator for evaluator in evaluators if evaluator.config.name not in known] if known else evaluators
        results = await run_evaluators(context, pending, concurrency=concurrency)
        cleaned: tuple[EvaluatorResult, ...] = self.cleaner().clean(results)
        if not known:
            return cleaned
        new_results = iter(cleaned)
        return tuple(known.get(evaluator.config.name) or next(new_results) for evaluator in evaluators)

    def cleaner(self) -> Cleaner:
        """Return the cleaner of answers. It is recreated when a later case names a target with new secrets."""
        target_count = len(self._known.resolved)
        if self._cleaner is None or self._cleaned_targets != target_count:
            self._cleaned_targets = target_count
            self._cleaner = Cleaner(self._runtime.redactor(self._known, self._suite.redact, self._workspace_keys))
        return self._cleaner

    def redact_keys(self, keys: frozenset[str]) -> None:
        """Redact also the keys that were found in a workspace."""
        if not keys <= self._workspace_keys:
            self._workspace_keys |= keys
            self._cleaner = None


class TargetSession(Session):
    """The session of a target that is called. `target_key` is a digest of its settings.

    Provider and judge are created on first use, so that a row that fails earlier reports its own error.
    """

    def __init__(self, task: CaseTask, runtime: Runtime, fingerprints: Fingerprints) -> None:
        super().__init__(task, runtime, fingerprints)
        spec = runtime.specs.providers.get(task.target.provider)
        self.has_dependencies = False
        """True if a case of the suite waits for another case."""
        self.is_model = spec.is_model_api
        self.prompt_form = prompt_form(task.target, spec)
        self.target_key = fingerprints.target_key(task.target)
        self._scorings: dict[tuple[int, bool], Scoring] = {}

    @cached_property
    def provider(self) -> ResilientProvider:
        """The live provider of the target."""
        return self._runtime.provider(self._target)

    @cached_property
    def judge(self) -> ResilientProvider | None:
        """The judge for evaluators that do not name one; None if there is none."""
        return self._runtime.own_judge(self._target, self._known)

    @cached_property
    def unanswered_context(self) -> EvaluationContext:
        """What the contexts of all answers have in common."""
        return unanswered_context(self._target, self.provider, self.judge)

    def scoring(self, prepared: PreparedCase) -> Scoring:
        """Return the Scoring of a case, cached for the next case with the same evaluators and criteria."""
        evaluators, criteria = prepared.evaluators, prepared.criteria
        is_conversation = prepared.case.is_conversation
        key = id(evaluators), is_conversation
        cached = self._scorings.get(key)
        if cached is not None and cached.criteria is criteria:
            return cached
        scoring = Scoring(
            evaluators,
            criteria,
            stored_form=self._fingerprints.stored_form(evaluators, single_form=prepared.single_form),
            prepared_evaluators=self.tools.prepare(
                map(conversation_evaluator, evaluators) if is_conversation else evaluators, criteria
            ),
            setup_digests=self._fingerprints.setup_digests(evaluators, prepared.task),
        )
        put_bounded(self._scorings, key, scoring, most=MAX_EVALUATORS)
        return scoring
