"""Scoring of one given answer by a case's evaluators (seed REQ-EVAL-007)."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agentv.engine.calling.given_answer import GIVEN_TARGET, GivenAnswer
from agentv.engine.calling.made_context import judge_of
from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.given import as_case
from agentv.engine.planning.given_evaluators import GivenEvaluators
from agentv.engine.planning.prepared_case import build_prompt
from agentv.engine.planning.targets import KnownTargets
from agentv.engine.plugins.loading import load_specs
from agentv.engine.running.clock import make_clock
from agentv.engine.running.context import build_context
from agentv.engine.running.score import SuiteTools
from agentv.loading.files.places import find_home
from agentv.scoring.results.aggregation import case_fields, case_verdict, evaluators_score, first_broken
from agentv.scoring.results.applicable import applicable_evaluators
from agentv.types.cases import EvalCase, EvalSuite, listed
from agentv.types.errors import ConfigError
from agentv.types.evaluation import EvaluationScore, Evaluator, EvaluatorResult
from agentv.types.message_shapes.reading import read_answer
from agentv.types.messages import Message
from agentv.types.messages_json import content_text
from agentv.types.protocols import Clock
from agentv.types.provider import Provider, ProviderResponse
from agentv.types.records.answer import Answer, ResultKey
from agentv.types.targets import ResolvedTarget


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
    if case.turns:
        raise ConfigError(f"case {case.id!r} has turns, which are answered one by one: run it with evaluate()")
    folder = str(Path.cwd())
    suite = EvalSuite(path="", cases=listed([case]), base_dir=folder, repository_root=folder)
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
            case,
            _answer(case, target, response, clock),
            target=target,
            provider=provider or GivenAnswer(),
            prompt=build_prompt(case, quotes_paths_only=False),
            criteria=case.criteria,
            judge=judge_of(judge_provider),
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
    said = read_answer(candidate, "candidate")
    return ProviderResponse(content_text(said.content), output_messages=(said,))


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
    score, fields, broken = evaluators_score(results), case_fields(results), first_broken(results)
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
    )
