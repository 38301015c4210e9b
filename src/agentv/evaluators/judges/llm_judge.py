"""A model as judge: `llm_judge` scores freely or by criteria, `rubric` checks requirements. One class does both."""

import inspect
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct, structs
from msgspec.structs import replace

from agentv.evaluators.judges.basis import COMPARED, USER_TEMPLATE, WHOLE, Basis, criterion_section, user_template
from agentv.evaluators.judges.judging import (
    JudgeMode,
    JudgeOptions,
    JudgeOutcome,
    all_of,
    ask,
    failed_judgement,
    judge_name,
    make_nonce,
    present_judge,
)
from agentv.evaluators.judges.prompts import (
    FREEFORM_SCHEMA,
    RUBRIC_INSTRUCTIONS,
    RUBRIC_SCHEMA,
    TEXT,
    fence_rule,
    freeform_contract,
    load_prompt,
    rubric_contract,
    rubric_section,
    strict_object,
)
from agentv.evaluators.judges.settings import LlmJudgeSettings, RubricSettings
from agentv.evaluators.judges.values import JudgedText
from agentv.evaluators.rules.base import judged_text
from agentv.scoring.judge_replies.criteria_replies import (
    CriteriaReply,
    criteria_score,
    parse_criteria,
    unscored_criteria,
)
from agentv.scoring.judge_replies.replies import FreeformReply, RubricReply, parse_freeform, parse_rubric
from agentv.scoring.judge_replies.rubrics import make_items, rubric_score
from agentv.scoring.results.folding import Vote, combine, spread
from agentv.templating.variables import template_warnings
from agentv.types.cases import EvaluatorConfig, RubricItem
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.errors import ConfigError, EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationResult, EvaluationScore, JudgeRole
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.protocols import EvaluatorTools
from agentv.types.provider import Provider


class FreeformMode(Struct, frozen=True):
    """One score with hits, misses and a reason. `criterion` names what the score is about, `basis` what tells it."""

    criterion: str
    vote: Vote = "mean"
    basis: Basis = WHOLE

    @property
    def instructions(self) -> str:
        """The opening of the system prompt."""
        return self.basis.instructions

    @property
    def section(self) -> str:
        """Nothing follows the user prompt."""
        return ""

    @property
    def schema(self) -> JsonObject:
        """The reply as a JSON Schema."""
        return FREEFORM_SCHEMA

    def contract(self, nonce: str) -> str:
        """Return the reply's format in words."""
        return freeform_contract(nonce, self.basis)

    def parse(self, reply: str, *, nonce: str, shown: Iterable[str]) -> FreeformReply | None:
        """Return the verdict in a reply."""
        return parse_freeform(reply, nonce=nonce, shown=shown)

    def scored(self, opinions: tuple[FreeformReply, ...]) -> EvaluationScore:
        """Return the opinions' common score, with the texts of the opinion that comes nearest to it."""
        scores = [opinion.score for opinion in opinions]
        score = combine(scores, self.vote)
        nearest = min(opinions, key=lambda opinion: abs(opinion.score - score))
        return EvaluationScore(
            score=score,
            hits=nearest.hits,
            misses=nearest.misses,
            expected_aspect_count=max(1, len(nearest.hits) + len(nearest.misses)),
            reasoning=nearest.reasoning,
            status="unverified" if any(opinion.unverified for opinion in opinions) else "scored",
            results=self._results(score, scores, nearest.reasoning) if len(opinions) > 1 else (),
        )

    def unscored(self, message: str) -> tuple[EvaluationResult, ...]:  # noqa: ARG002 - the evaluator is the one criterion
        """Return nothing: the evaluator's own failure says it all."""
        return ()

    def _results(self, score: float, scores: list[float], reasoning: str | None) -> tuple[EvaluationResult, ...]:
        """Keep how far the opinions were apart beside what they amount to."""
        result = EvaluationResult(
            criterion_name=self.criterion,
            score=score,
            value=score,
            scale="numeric",
            reasoning=reasoning,
            evaluator_type="llm_judge",
            metadata={"spread": spread(scores)},
        )
        return (result,)


class RubricMode(Struct, frozen=True):
    """A check for each of `items`."""

    items: tuple[RubricItem, ...]
    vote: Vote = "mean"

    @property
    def instructions(self) -> str:
        """The opening of the system prompt."""
        return RUBRIC_INSTRUCTIONS

    @property
    def section(self) -> str:
        """The requirements, after the user prompt."""
        return rubric_section(self.items)

    @property
    def schema(self) -> JsonObject:
        """The reply as a JSON Schema."""
        return RUBRIC_SCHEMA

    def contract(self, nonce: str) -> str:
        """Return the reply's format in words."""
        return rubric_contract(nonce)

    def parse(self, reply: str, *, nonce: str, shown: Iterable[str]) -> RubricReply | None:
        """Return the checks in a reply."""
        return parse_rubric(reply, item_ids=[item.id for item in self.items], nonce=nonce, shown=shown)

    def scored(self, opinions: tuple[RubricReply, ...]) -> EvaluationScore:
        """Return the score of the checks."""
        return rubric_score(self.items, opinions, vote=self.vote)

    def unscored(self, message: str) -> tuple[EvaluationResult, ...]:  # noqa: ARG002 - an item that was not asked is none
        """Return nothing: the evaluator's own failure says it all."""
        return ()


INSTRUCTIONS = """\
You judge the answer of an AI system by several criteria. Take each criterion by itself and score it on its own scale: \
a weakness in one is no weakness in another. Be strict about facts and about what is missing."""


class CriteriaMode(Struct, frozen=True):
    """A score for each of `criteria`."""

    criteria: tuple[EvaluationCriteria, ...]
    vote: Vote = "mean"

    @property
    def instructions(self) -> str:
        """The opening of the system prompt."""
        return INSTRUCTIONS

    @property
    def section(self) -> str:
        """The criteria with what scores they allow, after the user prompt."""
        return "\n\n[[ ## criteria ## ]]\n" + "\n".join(map(_line, self.criteria))

    @property
    def schema(self) -> JsonObject:
        """The reply as a JSON Schema that names the criteria and the types of their scores."""
        names: list[JsonValue] = [criterion.name for criterion in self.criteria]
        types: list[JsonValue] = list(dict.fromkeys(_json_type(criterion) for criterion in self.criteria))
        score: JsonObject = {"type": types if len(types) > 1 else types[0]}
        entry = strict_object({"name": {"type": "string", "enum": names}, "score": score, "reasoning": TEXT})
        return strict_object({"nonce": TEXT, "criteria": {"type": "array", "items": entry}, "overall_reasoning": TEXT})

    def contract(self, nonce: str) -> str:
        """Return the reply's format in words."""
        return f"""\
Reply with a single JSON object and nothing else. Its keys:
- "nonce": the text "{nonce}", copied exactly
- "criteria": a list with one object for every criterion, each with "name" (as given), "score" (one of the scores that \
the criterion allows) and "reasoning" (one sentence)
- "overall_reasoning": one or two sentences that sum up

{fence_rule(nonce)}"""

    def parse(self, reply: str, *, nonce: str, shown: Iterable[str]) -> CriteriaReply | None:
        """Return the scores in a reply."""
        return parse_criteria(reply, names=[each.name for each in self.criteria], nonce=nonce, shown=shown)

    def scored(self, opinions: tuple[CriteriaReply, ...]) -> EvaluationScore:
        """Return the criteria's results and their weighted mean."""
        return criteria_score(self.criteria, opinions, vote=self.vote)

    def unscored(self, message: str) -> tuple[EvaluationResult, ...]:
        """Return an error for every criterion."""
        return unscored_criteria(self.criteria, message)


def named_criteria(context: EvaluationContext, names: Iterable[str]) -> tuple[EvaluationCriteria, ...]:
    """Return the criteria of those names, in that order. Raises EvaluatorError that lists those there are."""
    known = {criterion.name: criterion for criterion in context.criteria}
    wanted = tuple(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        there = ", ".join(known) or "none"
        raise EvaluatorError(f"no criterion {', '.join(map(repr, unknown))} in `criteria`; there: {there}")
    return tuple(known[name] for name in wanted)


def _line(criterion: EvaluationCriteria) -> str:
    described = f": {criterion.description}" if criterion.description else ""
    return f"- {json.dumps(criterion.name, ensure_ascii=False)}{described} Score: {_allowed(criterion)}"


def _allowed(criterion: EvaluationCriteria) -> str:
    """Return which scores a criterion's scale allows, for a judge."""
    if criterion.labels:
        labels = ", ".join(json.dumps(label, ensure_ascii=False) for label in criterion.labels)
        return f"one of {labels} (from worst to best)"
    match criterion.scale:
        case "binary":
            return "true (met) or false (not met)"
        case "pass/fail":
            return '"pass" or "fail"'
        case "likert5":
            return "a number from 1 (worst) to 5 (best)"
        case "percent":
            return "a number from 0 (worst) to 100 (best)"
        case "numeric":
            low = 0.0 if criterion.min is None else criterion.min
            high = 1.0 if criterion.max is None else criterion.max
            return f"a number from {low:.10g} (worst) to {high:.10g} (best)"
        case custom:
            return f"a text on the scale {json.dumps(custom, ensure_ascii=False)}"


def _json_type(criterion: EvaluationCriteria) -> str:
    if criterion.scale == "binary" and not criterion.labels:
        return "boolean"
    is_number = criterion.scale in {"likert5", "percent", "numeric"} and not criterion.labels
    return "number" if is_number else "string"


ResolveJudge: TypeAlias = Callable[[EvaluationContext], Provider | Awaitable[Provider | None] | None]
Opinion = TypeVar("Opinion")


class LlmJudgeEvaluatorOptions(Struct, frozen=True, kw_only=True):
    """Options of LlmJudgeEvaluator, made in Python (seed REQ-EVAL-002).

    `resolve_judge_provider` finds the judge of a context; without it the context's own judge is asked. `prompt` is the
    user prompt, or the path of its file. `criteria` (names of the context's criteria) are scored together, each on its
    own scale; `rubrics` (items or plain texts) make it check requirements. `judges` are asked in place of the one
    judge, each `samples` times, and `vote` makes their opinions one. `config` is what a judge was made from that takes
    nothing else. `nonce` and `timer` are chance and time.
    """

    resolve_judge_provider: ResolveJudge | None = None
    prompt: str | None = None
    model: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    criteria: tuple[str, ...] = ()
    rubrics: tuple[RubricItem | str, ...] = ()
    include_trace: bool = False
    judges: tuple[Provider, ...] = ()
    vote: Vote = "mean"
    samples: int = 1
    source: str = "response"
    base_dir: str = "."
    config: EvaluatorConfig | None = None
    nonce: Callable[[], str] = make_nonce
    timer: Callable[[], float] = time.perf_counter


class LlmJudgeEvaluator:
    """Asks a model what an answer is worth.

    Takes an options object, keywords of the same names, or both. `warnings` says what is odd about a custom prompt.

    >>> LlmJudgeEvaluator(temperature=0.0).kind
    'llm_judge'
    """

    kind = "llm_judge"

    def __init__(self, options: LlmJudgeEvaluatorOptions | None = None, /, **keywords: Any) -> None:
        given = replace(options, **keywords) if options is not None else LlmJudgeEvaluatorOptions(**keywords)
        if given.criteria and given.rubrics:
            raise ConfigError("give either criteria= or rubrics=, not both: each says what is judged")
        self.options = given
        self._items = make_items(given.rubrics)
        custom = given.prompt is not None and bool(given.prompt.strip())
        template = load_prompt(given.prompt, given.base_dir) if given.prompt is not None and custom else USER_TEMPLATE
        self.warnings: tuple[str, ...] = template_warnings(template)
        self._calling = JudgeOptions(
            template=template,
            custom=custom,
            nonce=given.nonce,
            timer=given.timer,
            model=given.model,
            temperature=given.temperature,
            max_output_tokens=given.max_output_tokens,
        )

    def configured(
        self, config: EvaluatorConfig, settings: LlmJudgeSettings | RubricSettings, tools: EvaluatorTools
    ) -> "LlmJudgeEvaluator":
        """Return this judge with an evaluator's own settings; who judges stays, unless they name somebody."""
        own = make_llm_judge(config, settings, tools)
        if settings.judge_targets:
            return own
        given = self.options
        return LlmJudgeEvaluator(
            own.options,
            config=None,
            resolve_judge_provider=given.resolve_judge_provider,
            judges=given.judges,
            prompt=own.options.prompt or given.prompt,
            temperature=given.temperature if own.options.temperature is None else own.options.temperature,
            max_output_tokens=own.options.max_output_tokens or given.max_output_tokens,
            nonce=given.nonce,
            timer=given.timer,
        )

    @property
    def reusable(self) -> bool:
        """Whether it takes nothing but its config: each context tells who judges."""
        return self.options.config is not None

    async def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Judge an answer. A judge that fails or cannot be understood is a `judge_error`, never a wrong answer."""
        return await self.judge(context)

    async def judge(self, context: EvaluationContext, *, evaluator_results: JsonValue = None) -> EvaluationScore:
        """As `evaluate`, with the results of a composite's members for the prompt."""
        providers = self.options.judges or (await self._own_judge(context),)
        source = self.options.source
        judged = JudgedText(
            context=context,
            candidate=judged_text(context, source),
            source=source,
            evaluator_results=evaluator_results,
            evaluator=self.options.config,
        )
        vote, basis = self.options.vote, judged.basis
        if self._items:
            return await self._ask_all(providers, RubricMode(self._items, vote), judged)
        if self.options.criteria:
            criteria = named_criteria(context, self.options.criteria)
            return await self._ask_all(providers, CriteriaMode(criteria, vote), judged)
        config = judged.config
        name = self.kind if config is None else config.criterion or config.name
        opening = "" if basis.criterion is None else criterion_section(basis.criterion)
        return await self._ask_all(providers, FreeformMode(name, vote, basis), judged, opening=opening)

    async def _own_judge(self, context: EvaluationContext) -> Provider:
        resolve = self.options.resolve_judge_provider
        found = context.judge_provider if resolve is None else resolve(context)
        provider = await found if inspect.isawaitable(found) else found
        return present_judge(provider, context)

    async def _ask_all(
        self, providers: tuple[Provider, ...], mode: JudgeMode[Opinion], judged: JudgedText, *, opening: str = ""
    ) -> EvaluationScore:
        """Ask every judge `samples` times at once; one that fails makes the whole a failure, since a panel is whole."""
        role: JudgeRole = "member" if len(providers) > 1 else "sample"
        options = self._calling_for(judged, opening)
        opinions = [
            ask(provider, mode, judged, options, role=role)
            for provider in providers
            for _ in range(self.options.samples)
        ]
        asked = await all_of(opinions)
        score = _score_of(asked, mode)
        request = {**asked[0].prompts.to_json(), **self._request_facts(providers, judged.context)}
        calls = tuple(call for each in asked for call in each.calls)
        return replace(score, evaluator_raw_request=request, judge_calls=calls)

    def _calling_for(self, judged: JudgedText, opening: str) -> JudgeOptions:
        """Return how to call judges about this answer: our own prompt shows what there is and was asked for."""
        if self._calling.custom:
            return self._calling
        sections = [name for name in COMPARED if judged.value(name)]
        sections += ["conversation", "candidate_answer"] if judged.is_excerpt else ["candidate_answer"]
        if self.options.include_trace and judged.context.candidate_trace_summary is not None:
            sections.append("trace_summary")
        if judged.evaluator_results is not None:
            sections.append("evaluator_results")
        return self._calling_with(opening + user_template(tuple(sections)))

    def _calling_with(self, template: str) -> JudgeOptions:
        """Return how to call judges with a prompt of our own; there are few of them, and many answers."""
        if self._calling.template != template:
            self._calling = replace(self._calling, template=template)
        return self._calling

    def _request_facts(self, providers: tuple[Provider, ...], context: EvaluationContext) -> JsonObject:
        facts: dict[str, JsonValue] = {
            "judges": [judge_name(provider) for provider in providers],
            "model": self.options.model or context.judge_model,
            "temperature": self.options.temperature,
            "maxOutputTokens": self.options.max_output_tokens,
            "samples": self.options.samples if self.options.samples > 1 else None,
        }
        return {key: value for key, value in facts.items() if value is not None}


PromptEvaluator = LlmJudgeEvaluator
"""The seed's other name of the same class."""


def _score_of(asked: list[JudgeOutcome[Opinion]], mode: JudgeMode[Opinion]) -> EvaluationScore:
    for each in asked:
        if each.failure is not None:
            failed = failed_judgement(each.failure, each.unread)
            # Each criterion shows what the judge said instead: the evaluator's own reasoning is not seen beside them.
            unscored = (replace(one, reasoning=failed.reasoning) for one in mode.unscored(each.failure.message))
            return replace(failed, results=tuple(unscored))
    if len(asked) == 1 and asked[0].score is not None:
        return asked[0].score
    return mode.scored(tuple(each.opinion for each in asked if each.opinion is not None))


def make_llm_judge(
    config: EvaluatorConfig, settings: LlmJudgeSettings | RubricSettings, tools: EvaluatorTools
) -> LlmJudgeEvaluator:
    """Make an `llm_judge`, or the rubric mode of the same class."""
    own = structs.asdict(settings)
    target, names = own.pop("target"), own.pop("judges")
    resolve = None if target is None else partial(_named_judge, tools.judge(target))
    return LlmJudgeEvaluator(
        **own,
        resolve_judge_provider=resolve,
        judges=tuple(map(tools.judge, names)),
        source=config.source,
        base_dir=config.base_dir,
        config=None if settings.judge_targets else config,
    )


make_rubric = make_llm_judge


def _named_judge(provider: Provider, _context: EvaluationContext) -> Provider:
    return provider
