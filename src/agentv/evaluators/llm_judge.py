"""A model as judge: `llm_judge` scores freely, `rubric` checks requirements. Its class is LlmJudgeEvaluator."""

import asyncio
import inspect
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

from agentv.evaluators.judge_modes import FreeformMode, RubricMode
from agentv.evaluators.judge_prompts import RESULTS_SECTION, TRACE_SECTION, USER_TEMPLATE
from agentv.evaluators.judge_values import JudgedText
from agentv.evaluators.judging import Asked, JudgeMode, JudgeOptions, ask, failed_judgement, judge_name
from agentv.evaluators.prompt_text import load_prompt, prompt_files
from agentv.evaluators.rules import judged_text
from agentv.scoring.rubrics import make_items
from agentv.scoring.votes import Vote
from agentv.templating.variables import template_warnings
from agentv.types.cases import EvaluatorConfig, RubricItem
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationScore, JudgeRole
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.protocols import EvaluatorTools
from agentv.types.provider import Provider

ResolveJudge: TypeAlias = Callable[[EvaluationContext], Provider | Awaitable[Provider | None] | None]
Opinion = TypeVar("Opinion")
T = TypeVar("T")


def make_nonce() -> str:
    """Return a text that nobody could have known before this call."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmJudgeEvaluatorOptions:
    """Options of LlmJudgeEvaluator, made in Python (seed REQ-EVAL-002).

    `resolve_judge_provider` finds the judge of a context; without it the context's own judge is asked. `prompt` is the
    user prompt, or the path of its file. `rubrics` (items or plain texts) make it check requirements. `judges` are
    asked in place of the one judge, each `samples` times, and `vote` makes their opinions one. `nonce` and `timer` are
    chance and time.
    """

    resolve_judge_provider: ResolveJudge | None = None
    prompt: str | None = None
    model: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    rubrics: tuple[RubricItem | str, ...] = ()
    include_trace: bool = False
    judges: tuple[Provider, ...] = ()
    vote: Vote = "mean"
    samples: int = 1
    source: str = "response"
    base_dir: str = "."
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
        self, config: EvaluatorConfig, settings: "LlmJudgeSettings", tools: EvaluatorTools
    ) -> "LlmJudgeEvaluator":
        """Return this judge with an evaluator's own settings; who judges stays, unless they name somebody."""
        own = make_llm_judge(config, settings, tools)
        if settings.judge_targets:
            return own
        given = self.options
        return LlmJudgeEvaluator(
            own.options,
            resolve_judge_provider=given.resolve_judge_provider,
            judges=given.judges,
            prompt=own.options.prompt or given.prompt,
            temperature=given.temperature if own.options.temperature is None else own.options.temperature,
            max_output_tokens=own.options.max_output_tokens or given.max_output_tokens,
            nonce=given.nonce,
            timer=given.timer,
        )

    async def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Judge an answer. A judge that fails or cannot be understood is a `judge_error`, never a wrong answer."""
        return await self.judge(context)

    async def judge(self, context: EvaluationContext, *, evaluator_results: JsonValue = None) -> EvaluationScore:
        """As `evaluate`, with the results of a composite's members for the prompt."""
        providers = self.options.judges or (await self._own_judge(context),)
        judged = JudgedText(context, judged_text(context, self.options.source), evaluator_results)
        if self._items:
            return await self._ask_all(providers, RubricMode(self._items, self.options.vote), judged)
        config = context.evaluator
        criterion = self.kind if config is None else config.criterion or config.name
        return await self._ask_all(providers, FreeformMode(criterion, self.options.vote), judged)

    async def _own_judge(self, context: EvaluationContext) -> Provider:
        resolve = self.options.resolve_judge_provider
        found = context.judge_provider if resolve is None else resolve(context)
        provider = await found if inspect.isawaitable(found) else found
        if provider is None:
            raise EvaluatorError(
                f"nobody can judge the answers of target {context.target.name!r}; name a judge with `judge_target:` in "
                "the target, or with `target:` in the evaluator",
                kind="judge_error",
            )
        return provider

    async def _ask_all(
        self, providers: tuple[Provider, ...], mode: JudgeMode[Opinion], judged: JudgedText
    ) -> EvaluationScore:
        """Ask every judge `samples` times at once; one that fails makes the whole a failure, since a panel is whole."""
        role: JudgeRole = "member" if len(providers) > 1 else "sample"
        options = self._calling_for(judged)
        opinions = [
            ask(provider, mode, judged, options, role=role)
            for provider in providers
            for _ in range(self.options.samples)
        ]
        asked = await _all_of(opinions)
        score = _score_of(asked, mode)
        request = {**asked[0].prompts.to_json(), **self._request_facts(providers, judged.context)}
        calls = tuple(call for each in asked for call in each.calls)
        return replace(score, evaluator_raw_request=request, judge_calls=calls)

    def _calling_for(self, judged: JudgedText) -> JudgeOptions:
        """Return how to call judges about this answer: our own prompt shows what there is and was asked for."""
        if self._calling.custom:
            return self._calling
        template = self._calling.template
        if self.options.include_trace and judged.context.candidate_trace_summary is not None:
            template += TRACE_SECTION
        if judged.evaluator_results is not None:
            template += RESULTS_SECTION
        return replace(self._calling, template=template)

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


async def _all_of(waiting: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all at once; a fault in one ends the others and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(each) for each in waiting]
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from faults
    return [task.result() for task in running]


def _score_of(asked: list[Asked[Opinion]], mode: JudgeMode[Opinion]) -> EvaluationScore:
    for each in asked:
        if each.failure is not None:
            return failed_judgement(each.failure, each.unread)
    return mode.scored(tuple(each.opinion for each in asked if each.opinion is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmJudgeSettings:
    """Settings of `llm_judge`."""

    prompt: str | None = field(
        default=None,
        metadata={"help": "the whole user prompt, or its file; {{ names }} are filled", "aliases": ("promptTemplate",)},
    )
    model: str | None = field(default=None, metadata={"help": "a model of the judge's provider, in place of its own"})
    target: str | None = field(
        default=None, metadata={"help": "the target that judges, in place of the judged target's `judge_target`"}
    )
    include_trace: bool = field(default=False, metadata={"help": "show the judge which tools were called"})
    max_output_tokens: int | None = field(default=None, metadata={"help": "the longest reply, in tokens"})
    temperature: float | None = field(default=None, metadata={"help": "0 for the most repeatable judge"})
    judges: tuple[str, ...] = field(default=(), metadata={"help": "several targets that judge together"})
    vote: Vote = field(
        default="mean", metadata={"help": "how several opinions become one: mean, median, majority or min"}
    )
    samples: int = field(default=1, metadata={"help": "how often each judge is asked; the spread is kept"})
    rubrics: tuple[RubricItem | str, ...] = field(
        default=(),
        metadata={"help": "requirements to check one by one; plain texts, or {id, description, weight, required}"},
    )

    def __post_init__(self) -> None:
        """Refuse what could not be asked."""
        if self.samples < 1:
            raise ValueError("`samples` must be at least 1")
        if self.max_output_tokens is not None and self.max_output_tokens < 1:
            raise ValueError("`max_output_tokens` must be at least 1")
        if self.temperature is not None and not self.temperature >= 0:
            raise ValueError("`temperature` must be at least 0")
        if self.target is not None and self.judges:
            raise ValueError("`target` and `judges` exclude each other")
        make_items(self.rubrics)

    @property
    def judge_targets(self) -> tuple[str, ...]:
        """The targets that judge by name."""
        return self.judges or (() if self.target is None else (self.target,))

    @property
    def needs_judge(self) -> bool:
        """Whether the judged target's own judge is asked."""
        return not self.judge_targets

    def files(self, base_dir: str) -> tuple[str, ...]:
        """Return the files that must exist: the prompt's, if it is one."""
        return prompt_files(self.prompt, base_dir)


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricSettings(LlmJudgeSettings):
    """Settings of `rubric`: those of `llm_judge`, with requirements."""

    rubrics: tuple[RubricItem | str, ...] = field(
        metadata={
            "help": "the requirements; plain texts, or {id, description, weight, required, scale: likert5}",
            "aliases": ("items",),
        }
    )

    def __post_init__(self) -> None:
        """Refuse a rubric without requirements."""
        LlmJudgeSettings.__post_init__(self)
        if not self.rubrics:
            raise ValueError("a rubric needs at least one item in `rubrics`")


def make_llm_judge(config: EvaluatorConfig, settings: LlmJudgeSettings, tools: EvaluatorTools) -> LlmJudgeEvaluator:
    """Make an `llm_judge`, or the rubric mode of the same class."""
    own = {item.name: getattr(settings, item.name) for item in fields(settings)}
    target, names = own.pop("target"), own.pop("judges")
    resolve = None if target is None else partial(_named_judge, tools.judge(target))
    return LlmJudgeEvaluator(
        **own,
        resolve_judge_provider=resolve,
        judges=tuple(map(tools.judge, names)),
        source=config.source,
        base_dir=config.base_dir,
    )


make_rubric = make_llm_judge


def _named_judge(provider: Provider, _context: EvaluationContext) -> Provider:
    return provider
