"""Evaluator objects by kind, and scores of one given answer by a case's evaluators (seeds REQ-EVAL-006 and -007)."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.calling.given_answer import GIVEN_TARGET, GivenAnswer, judge_of
from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.given import GivenEvaluators, as_case
from agentv.engine.planning.prepared_case import build_prompt
from agentv.engine.planning.targets import KnownTargets
from agentv.engine.plugins.loading import load_specs
from agentv.engine.running.clock import make_clock
from agentv.engine.running.context import build_context, unanswered_context
from agentv.engine.running.score import SuiteTools
from agentv.evaluators import EVALUATORS
from agentv.evaluators.judges.llm_judge import LlmJudgeEvaluator, ResolveJudge
from agentv.evaluators.registry import DEFAULT_KIND, RUBRIC_KIND, EvaluatorRegistry
from agentv.loading.files.places import find_home
from agentv.loading.models.settings import read_settings
from agentv.messages.shapes.answers import read_answer_object
from agentv.registry import EvaluatorSpec
from agentv.scoring.results.aggregation import case_fields, case_verdict, evaluators_score, first_failed
from agentv.scoring.results.applicable import applicable_evaluators
from agentv.scoring.results.completion import to_score
from agentv.types.cases import EvalCase, EvalSuite, listed_cases
from agentv.types.errors import ConfigError, EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationScore, Evaluator, EvaluatorResult
from agentv.types.messages import Message
from agentv.types.messages_json import content_text
from agentv.types.protocols import Clock
from agentv.types.provider import Provider, ProviderResponse
from agentv.types.records.answer import Answer, ResultKey
from agentv.types.targets import ResolvedTarget


class ContextRule(Struct, frozen=True):
    """A deterministic evaluator that takes its settings from `context.evaluator`."""

    spec: EvaluatorSpec

    @property
    def kind(self) -> str:
        """The kind of the evaluator."""
        return self.spec.name

    def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Score an answer. Raises EvaluatorError without `context.evaluator`, EvalFileError for wrong settings."""
        config, kind = context.evaluator, self.kind
        if config is None or EVALUATORS.canonical(config.type) != kind:
            raise EvaluatorError(
                f"the settings of {kind!r} are missing; give the context an evaluator=EvaluatorConfig(name, {kind!r}, "
                "settings), or call run_evaluators_for_case"
            )
        settings = read_settings(self.spec, config.settings, where=f"evaluator {config.name!r}")
        made = self.spec.load_factory()(config, settings, None)  # None: a deterministic evaluator calls no model
        name = config.criterion or config.name
        return to_score(made.evaluate(context), name=name, kind=kind, criteria=context.criteria, negate=config.negate)


def _rule_of(kind: str) -> Evaluator | None:
    spec = EVALUATORS.get(kind) if EVALUATORS.canonical(kind) is not None else None
    return ContextRule(spec) if spec is not None and spec.cost == "free" and spec.is_deterministic else None


def build_evaluator_registry(
    overrides: Mapping[str, Evaluator] | None = None, resolve_judge_provider: ResolveJudge | None = None
) -> EvaluatorRegistry:
    """Return a registry with `llm_judge` and `rubric`, extended or replaced by `overrides`.

    It also has the deterministic kinds, with settings from `context.evaluator`; any other kind returns `llm_judge`.
    `resolve_judge_provider` finds the judge's model for a context; without it the context's own judge is called.

    >>> registry = build_evaluator_registry()
    >>> registry["unheard_of"] is registry.llm_judge
    True
    >>> registry["contains"].kind
    'contains'
    """
    judge = LlmJudgeEvaluator(resolve_judge_provider=resolve_judge_provider)
    return EvaluatorRegistry({DEFAULT_KIND: judge, RUBRIC_KIND: judge, **(overrides or {})}, rule_of=_rule_of)


async def run_evaluators_for_case(
    eval_case: EvalCase | Mapping[str, Any],
    candidate: str | ProviderResponse | Message | Mapping[str, Any],
    *,
    target: ResolvedTarget | None = None,
    provider: Provider | None = None,
    evaluator_registry: Mapping[str, Evaluator] | None = None,
    judge_provider: Provider | Callable[..., object] | None = None,
    clock: Clock | None = None,
) -> tuple[EvaluationScore, tuple[EvaluatorResult, ...]]:
    """Return the case's aggregated score and one result per evaluator, run in order.

    The evaluators are chosen as in a run: the case's `evaluators`, else its `evaluator` or `grader`, else the default
    judge. `evaluator_registry` (build_evaluator_registry) provides evaluators by type name. The failure of an evaluator
    is recorded in its result; the others still run. The case may be a dict of its fields, the answer a message (also as
    a dict), and the judge a function.
    """
    clock = clock or make_clock()
    case = as_case(eval_case, "eval_case")
    if case.is_conversation:
        raise ConfigError(f"case {case.id!r} has turns, which are answered one by one: run it with evaluate()")
    folder = str(Path.cwd())
    suite = EvalSuite(path="", cases=listed_cases([case]), base_dir=folder, repository_root=folder)
    target = target or GIVEN_TARGET
    response = _response(candidate)
    specs = load_specs()
    if case.evaluators:
        given = GivenEvaluators(Path(folder), specs).converted(case.evaluators, f"case {case.id!r}")
        case = replace(case, evaluators=given)
    known = KnownTargets({}, {}, specs)
    rng = random.Random(0)  # noqa: S311 - jitter of retries, not for security
    home = str(find_home(Path(folder)))
    async with Runtime(specs=specs, clock=clock, rng=rng, home=home, overrides=evaluator_registry) as runtime:
        context = build_context(
            unanswered_context(target, provider or GivenAnswer(), judge_of(judge_provider)),
            case,
            _answer(case, target, response, clock),
            prompt=build_prompt(case, quotes_paths_only=False),
            criteria=case.criteria,
            now=clock(),
        )
        # The duration of a given answer is not known.
        context = replace(context, duration_ms=None)
        evaluators, _ = applicable_evaluators(case, suite)
        results = await SuiteTools(runtime, known).score(context, evaluators)
    return _aggregated(results), results


def _response(candidate: str | ProviderResponse | Message | Mapping[str, Any]) -> ProviderResponse:
    if isinstance(candidate, str):
        return ProviderResponse(text=candidate)
    if isinstance(candidate, ProviderResponse):
        return candidate
    answer = read_answer_object(candidate, "candidate")
    if isinstance(answer, str):
        return ProviderResponse(answer)
    return ProviderResponse(content_text(answer.content), output_messages=(answer,))


def _answer(case: EvalCase, target: ResolvedTarget, response: ProviderResponse, clock: Clock) -> Answer:
    now = clock()
    return Answer(
        slot=ResultKey("", case.id, target.name),
        answer_key="",
        text=response.text,
        started_at=now,
        ended_at=now,
        duration_ms=0.0,
        output_messages=response.output_messages,
        trace=response.trace,
        usage=response.usage,
        cost_usd=response.cost_usd,
    )


def _aggregated(results: tuple[EvaluatorResult, ...]) -> EvaluationScore:
    """Return the score of a whole case. If there is one evaluator, the score includes its request."""
    score, fields, broken = evaluators_score(results), case_fields(results), first_failed(results)
    return EvaluationScore(
        score=score,
        hits=fields.hits,
        misses=fields.misses,
        expected_aspect_count=fields.expected_aspect_count,
        reasoning=fields.reasoning,
        raw_aspects=fields.raw_aspects,
        evaluator_raw_request=results[0].evaluator_provider_request if len(results) == 1 else None,
        verdict=None if broken else case_verdict(score, results),
        status="error" if broken else "scored",
        error=broken.error if broken else None,
        clamped=any(result.clamped for result in results),
    )
