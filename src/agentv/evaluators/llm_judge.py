"""A model as judge: `llm_judge` scores freely or by criteria, `rubric` checks requirements. One class does both."""

import inspect
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct, structs
from msgspec.structs import replace

from agentv.evaluators.judge_basis import COMPARED, USER_TEMPLATE, criterion_section, user_template
from agentv.evaluators.judge_criteria import CriteriaMode, named_criteria
from agentv.evaluators.judge_modes import FreeformMode, RubricMode
from agentv.evaluators.judge_settings import LlmJudgeSettings, RubricSettings
from agentv.evaluators.judge_values import JudgedText
from agentv.evaluators.judging import (
    Asked,
    JudgeMode,
    JudgeOptions,
    all_of,
    ask,
    failed_judgement,
    judge_name,
    make_nonce,
    present_judge,
)
from agentv.evaluators.prompt_text import load_prompt
from agentv.evaluators.rules import judged_text
from agentv.scoring.rubrics import make_items
from agentv.scoring.votes import Vote
from agentv.templating.variables import template_warnings
from agentv.types.cases import EvaluatorConfig, RubricItem
from agentv.types.errors import ConfigError
from agentv.types.evaluation import EvaluationContext, EvaluationScore, JudgeRole
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.protocols import EvaluatorTools
from agentv.types.provider import Provider

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
        judged = JudgedText(context, judged_text(context, source), source, evaluator_results, self.options.config)
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


def _score_of(asked: list[Asked[Opinion]], mode: JudgeMode[Opinion]) -> EvaluationScore:
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
