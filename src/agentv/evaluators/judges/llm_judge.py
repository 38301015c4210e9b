"""A model as judge: `llm_judge` scores freely or by criteria, `rubric` checks requirements. Both share one class.

The classes whose names end in `Mode` are the kinds of judgement: which reply is requested from the judge, and how its
verdicts become a score.
"""

import inspect
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, Unpack

from msgspec import Struct, field, structs
from msgspec.structs import replace

from agentv.evaluators.judges.code_judge import judge_payload, text_of_script
from agentv.evaluators.judges.contracts import Contract, payload_for
from agentv.evaluators.judges.judging import (
    JudgeMode,
    JudgeOptions,
    JudgeOutcome,
    call_judge,
    failed_judgement,
    judge_name,
    make_nonce,
    require_judge,
    run_concurrently,
)
from agentv.evaluators.judges.prompts import (
    COMPARED,
    DEFAULT_BASIS,
    RUBRIC_INSTRUCTIONS,
    TEXT,
    USER_TEMPLATE,
    JudgedText,
    Task,
    criterion_section,
    freeform_contract,
    freeform_schema,
    graded_scores,
    load_prompt,
    reply_contract,
    rubric_contract,
    rubric_schema,
    rubric_section,
    strict_object,
    unit_score_text,
    usable_prompt,
    user_template,
)
from agentv.evaluators.judges.settings import (
    READY_MADE,
    JudgeCallSettings,
    LlmJudgeSettings,
    ReadyMade,
    RecallJudgeSettings,
    RubricSettings,
    SourcedJudgeSettings,
    check_minimums,
    numbered_sources,
)
from agentv.evaluators.rules.base import judged_text
from agentv.scoring.judge_replies.replies import (
    CriteriaReply,
    FreeformReply,
    JudgeReply,
    ReplyRules,
    RubricReply,
    ScaledReply,
    criteria_score,
    opinions_metadata,
    parse_criteria,
    parse_freeform,
    parse_on_scale,
    parse_rubric,
    parse_text,
    unscored_criteria,
    voted_value,
    with_criteria_off_scale,
)
from agentv.scoring.judge_replies.rubrics import make_items, rubric_score, with_marks_off_scale
from agentv.scoring.results.criteria import result_of
from agentv.scoring.results.folding import Vote, combine, spread
from agentv.scoring.results.sources import source_text
from agentv.templating.variables import ANSWER_NAMES, template_problems, variable_names
from agentv.types.cases import EvaluatorConfig, RubricItem
from agentv.types.errors import ConfigError, EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationResult, EvaluationScore, JudgeRole
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.protocols import EvaluatorTools
from agentv.types.provider import Provider
from agentv.types.readers import read_list
from agentv.types.scales import NAMED_SCALES, EvaluationCriteria
from agentv.types.structs import make_options
from agentv.types.targets import Unsigned

Criterion = TypeVar("Criterion", str, EvaluationCriteria)


class OneScoreMode(Struct, Generic[Criterion], frozen=True):
    """One score with hits, misses and a reason, of a criterion or under the name of one."""

    criterion: Criterion
    vote: Vote = "mean"
    task: Task = DEFAULT_BASIS

    @property
    def instructions(self) -> str:
        """The opening of the system prompt."""
        return self.task.instructions

    @property
    def section(self) -> str:
        """Empty: nothing is appended to the user prompt."""
        return ""

    @property
    def contract(self) -> str:
        """The reply's format in words."""
        return freeform_contract(self.allowed_scores)

    @property
    def allowed_scores(self) -> str:
        """The scores that the reply may give."""
        raise NotImplementedError


class FreeformMode(OneScoreMode[str], frozen=True):
    """One score from 0 to 1; `criterion` is the name of the result."""

    @property
    def schema(self) -> JsonObject:
        """The reply as a JSON Schema."""
        return freeform_schema("number")

    @property
    def allowed_scores(self) -> str:
        """The scores that the reply may give."""
        return unit_score_text(self.task)

    def parse(self, reply: str, rules: ReplyRules) -> FreeformReply:
        """Return the verdict in a reply."""
        return parse_freeform(reply, rules)

    def scored(self, opinions: tuple[FreeformReply, ...]) -> EvaluationScore:
        """Return the scores combined by `vote`, with hits, misses and reason of the opinion nearest to the result."""
        scores = [opinion.score for opinion in opinions]
        score = combine(scores, self.vote)
        nearest = min(opinions, key=lambda opinion: abs(opinion.score - score))
        results = self._results(score, scores, nearest.reasoning) if len(opinions) > 1 else ()
        return _freeform_score(score, nearest, opinions, results)

    def unscored(self, message: str) -> tuple[EvaluationResult, ...]:  # noqa: ARG002 - there is no result to put it in
        """Return no results: the failure is reported for the evaluator itself."""
        return ()

    def _results(self, score: float, scores: list[float], reasoning: str | None) -> tuple[EvaluationResult, ...]:
        """Return a result with the combined score, and the spread of the opinions' scores."""
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


class CriterionMode(OneScoreMode[EvaluationCriteria], frozen=True):
    """One score of one criterion."""

    @property
    def schema(self) -> JsonObject:
        """The reply as a JSON Schema."""
        return freeform_schema(_json_type(self.criterion))

    @property
    def allowed_scores(self) -> str:
        """The scores that the reply may give."""
        return _allowed_scores(self.criterion)

    def unscored(self, message: str) -> tuple[EvaluationResult, ...]:
        """Return an error for the criterion."""
        return unscored_criteria((self.criterion,), message)


class ScaledMode(CriterionMode, frozen=True):
    """One score of one criterion on its scale."""

    def parse(self, reply: str, rules: ReplyRules) -> ScaledReply:
        """Return the verdict in a reply."""
        return parse_on_scale(reply, rules, criterion=self.criterion)

    def scored(self, opinions: tuple[ScaledReply, ...]) -> EvaluationScore:
        """Return the scores combined by `vote`, with hits, misses and reason of the opinion nearest to the result."""
        off_scale = next((opinion.off_scale for opinion in opinions if opinion.off_scale is not None), None)
        if off_scale is not None:
            failed = unscored_criteria((self.criterion,), off_scale)
            return replace(_freeform_score(0.0, opinions[0], opinions, ()), results=failed)
        values = [opinion.value for opinion in opinions]
        value = voted_value(values, self.criterion, self.vote)
        nearest = min(opinions, key=lambda opinion: abs(opinion.value - value))
        metadata = opinions_metadata(values, self.criterion) if len(values) > 1 else None
        result = result_of(value, self.criterion, kind="llm_judge", reasoning=nearest.reasoning, metadata=metadata)
        return _freeform_score(value, nearest, opinions, (result,))


class TextMode(CriterionMode, frozen=True):
    """One text of a criterion on a scale of one's own, which has no value.

    If the judge gives a number from 0 to 1 instead, this is the score, but not on the scale `string`.
    """

    def parse(self, reply: str, rules: ReplyRules) -> ScaledReply:
        """Return the verdict in a reply."""
        return parse_text(reply, rules)

    def scored(self, opinions: tuple[ScaledReply, ...]) -> EvaluationScore:
        """Return the text that most opinions give, the first of those that tie; nothing is scored."""
        numbers = [number for opinion in opinions if (number := _unit_number(opinion.given)) is not None]
        if len(numbers) == len(opinions) and self.criterion.scale != "string":
            return self._scored_numbers(numbers, opinions)
        texts = [_plain_text(opinion.given) for opinion in opinions]
        text = max(texts, key=texts.count)
        nearest = opinions[texts.index(text)]
        result = EvaluationResult(
            criterion_name=self.criterion.name,
            score=text,
            scale=self.criterion.scale,
            reasoning=nearest.reasoning,
            evaluator_type="llm_judge",
            metadata={"agreement": texts.count(text) / len(texts)} if len(texts) > 1 else None,
        )
        score = _freeform_score(0.0, nearest, opinions, (result,))
        return replace(score, verdict=None, status="unverified" if score.status == "unverified" else "skipped")

    def _scored_numbers(self, numbers: list[float], opinions: tuple[ScaledReply, ...]) -> EvaluationScore:
        score = combine(numbers, self.vote)
        nearest = opinions[min(range(len(numbers)), key=lambda index: abs(numbers[index] - score))]
        result = EvaluationResult(
            criterion_name=self.criterion.name,
            score=score,
            value=score,
            scale=self.criterion.scale,
            reasoning=nearest.reasoning,
            evaluator_type="llm_judge",
            metadata={"spread": spread(numbers)} if len(numbers) > 1 else None,
        )
        return _freeform_score(score, nearest, opinions, (result,))


def _unit_number(given: JsonValue) -> float | None:
    """Return a JSON number from 0 to 1; None for any other value."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return float(given) if 0 <= given <= 1 else None


def _plain_text(given: JsonValue) -> str:
    """Return a score as a text: 3 for the number 3.0."""
    if isinstance(given, str):
        return given
    return f"{given:g}" if isinstance(given, float) else json.dumps(given)


def _freeform_score(
    score: float,
    nearest: FreeformReply | ScaledReply,
    opinions: Sequence[JudgeReply],
    results: tuple[EvaluationResult, ...],
) -> EvaluationScore:
    return EvaluationScore(
        score=score,
        hits=nearest.hits,
        misses=nearest.misses,
        expected_aspect_count=max(1, len(nearest.hits) + len(nearest.misses)),
        reasoning=nearest.reasoning,
        status="unverified" if any(opinion.unverified for opinion in opinions) else "scored",
        results=results,
        clamped=any(isinstance(opinion, FreeformReply) and opinion.clamped for opinion in opinions),
    )


def _with_evidence(judged: JudgedText, ready: ReadyMade, paths: tuple[str, ...], reference: str | None) -> JudgedText:
    """Return `judged` with the source texts at `paths`, and the reference answer at the path `reference` if given.

    Raises EvaluatorError if a variable in `ready.needs` is empty.
    """
    if reference is not None:
        answer = source_text(judged.context, reference)
        judged = replace(judged, context=replace(judged.context, ground_truth=answer))
    if "sources" in ready.sections:
        judged = replace(judged, sources=numbered_sources(judged.context, paths))
    for name in ready.needs:
        if not judged.value(name):
            raise EvaluatorError(_MISSING_EVIDENCE[name])
    return judged


_MISSING_EVIDENCE = {
    "question": "there is no question to compare the answer with",
    "reference_answer": "there is no reference answer; give `expected_messages` or a ground truth",
    "sources": "there are no sources; give their path in `sources`, such as `sources: metadata.passages`",
    "tool_calls": "the target records no tool calls, so the claims of the answer cannot be checked",
}
"""The errors of ready-made judges, by the needed variable that is empty."""


def _has_scale(criterion: EvaluationCriteria) -> bool:
    """Return True if scores of a criterion can be placed on 0..1; those on a custom scale cannot."""
    return bool(criterion.labels) or criterion.scale in NAMED_SCALES


class RubricMode(Struct, frozen=True):
    """One check for each of `items`."""

    items: tuple[RubricItem, ...]
    vote: Vote = "mean"

    @property
    def instructions(self) -> str:
        """The opening of the system prompt."""
        return RUBRIC_INSTRUCTIONS

    @property
    def section(self) -> str:
        """The requirements, appended to the user prompt."""
        return rubric_section(self.items)

    @property
    def schema(self) -> JsonObject:
        """The reply as a JSON Schema."""
        return rubric_schema(len(self.items))

    @property
    def allowed_scores(self) -> str:
        """The scores of the graded requirements; empty if none is graded."""
        return graded_scores(self.items)

    @property
    def contract(self) -> str:
        """The reply's format in words."""
        return rubric_contract([item.scale for item in self.items if item.scale is not None])

    def parse(self, reply: str, rules: ReplyRules) -> RubricReply:
        """Return the checks in a reply."""
        found = parse_rubric(reply, rules, item_ids=[item.id for item in self.items])
        return with_marks_off_scale(found, self.items)

    def scored(self, opinions: tuple[RubricReply, ...]) -> EvaluationScore:
        """Return the score of the checks."""
        return rubric_score(self.items, opinions, vote=self.vote)

    def unscored(self, message: str) -> tuple[EvaluationResult, ...]:  # noqa: ARG002 - an item that was not checked has no result
        """Return no results: the failure is reported for the evaluator itself."""
        return ()


CRITERIA_INSTRUCTIONS = """\
You judge the answer of an AI system by several criteria. Take each criterion by itself and score it on its own scale: \
a weakness in one is no weakness in another. Be strict about facts and about what is missing."""


class CriteriaMode(Struct, frozen=True):
    """One score for each of `criteria`."""

    criteria: tuple[EvaluationCriteria, ...]
    vote: Vote = "mean"

    @property
    def instructions(self) -> str:
        """The opening of the system prompt."""
        return CRITERIA_INSTRUCTIONS

    @property
    def section(self) -> str:
        """The criteria with the scores they allow, appended to the user prompt."""
        return "\n\n[[ ## criteria ## ]]\n" + "\n".join(map(_criterion_line, self.criteria))

    @property
    def schema(self) -> JsonObject:
        """The reply as a JSON Schema that names the criteria and the types of their scores."""
        names: list[JsonValue] = [criterion.name for criterion in self.criteria]
        types: list[JsonValue] = list(dict.fromkeys(_json_type(criterion) for criterion in self.criteria))
        score: JsonObject = {"type": types if len(types) > 1 else types[0]}
        entry = strict_object({"name": {"type": "string", "enum": names}, "reasoning": TEXT, "score": score})
        entries: JsonObject = {"type": "array", "items": entry, "maxItems": len(names)}
        return strict_object({"nonce": TEXT, "criteria": entries, "overall_reasoning": TEXT})

    @property
    def allowed_scores(self) -> str:
        """The scores that each criterion allows."""
        allowed = (f"{json.dumps(each.name, ensure_ascii=False)}: {_allowed_scores(each)}" for each in self.criteria)
        return "; ".join(allowed)

    @property
    def contract(self) -> str:
        """The reply's format in words."""
        return reply_contract("""\
- "criteria": a list with one object for every criterion, each with "name" (as given), "reasoning" (one sentence) \
and "score" (one of the scores that the criterion allows)
- "overall_reasoning": one or two sentences that sum up""")

    def parse(self, reply: str, rules: ReplyRules) -> CriteriaReply:
        """Return the scores in a reply."""
        found = parse_criteria(reply, rules, names=[each.name for each in self.criteria])
        return with_criteria_off_scale(found, self.criteria)

    def scored(self, opinions: tuple[CriteriaReply, ...]) -> EvaluationScore:
        """Return the criteria's results and their weighted mean."""
        return criteria_score(self.criteria, opinions, vote=self.vote)

    def unscored(self, message: str) -> tuple[EvaluationResult, ...]:
        """Return an error for every criterion."""
        return unscored_criteria(self.criteria, message)


def named_criteria(context: EvaluationContext, names: Iterable[str]) -> tuple[EvaluationCriteria, ...]:
    """Return the criteria with these names, in this order. Raises EvaluatorError for an unknown name."""
    known = {criterion.name: criterion for criterion in context.criteria}
    requested = tuple(dict.fromkeys(names))
    unknown = [name for name in requested if name not in known]
    if unknown:
        defined = ", ".join(known) or "none"
        raise EvaluatorError(f"no criterion {', '.join(map(repr, unknown))} in `criteria`; defined: {defined}")
    return tuple(known[name] for name in requested)


def _criterion_line(criterion: EvaluationCriteria) -> str:
    described = f": {criterion.description}" if criterion.description else ""
    return f"- {json.dumps(criterion.name, ensure_ascii=False)}{described} Score: {_allowed_scores(criterion)}"


def _allowed_scores(criterion: EvaluationCriteria) -> str:
    """Return a description of the scores that a criterion allows, for a judge."""
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
Opinion = TypeVar("Opinion", bound=JudgeReply)


class LlmJudgeEvaluatorOptions(Struct, frozen=True, kw_only=True):
    """The options of an LlmJudgeEvaluator that is made in Python (seed REQ-EVAL-002).

    `resolve_judge_provider` returns the judge for a context; without it the context's own judge is called. `prompt` is
    the user prompt, or the path of its file. `criteria` (names of the context's criteria) are scored together, each on
    its own scale; with `rubrics` (items or plain texts) the judge checks requirements. `judges` replace the one judge;
    each is called `samples` times, and `vote` combines the scores. `unsigned="accept"` accepts a verdict without the
    nonce of its call as unverified. `plain_prompt="outcome"` uses a prompt without variables as the expected outcome.
    `prompt_script` is a command that prints the prompt. `allow_unknown` leaves unknown names in a prompt as text;
    `vars` are values of further names in it. `is_aggregator` is True for the judge of a composite, whose prompt may
    show the members' results instead of the answer. `ready_made` replaces prompt, criteria and rubrics; `sources` are
    the paths of its source texts, `reference` is the path of its reference answer. `config` is set only if the judge
    depends on it alone, so that the judge can be reused. `nonce` and `timer` are the sources of randomness and time,
    replaceable in tests.
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
    unsigned: Unsigned = "error"
    allow_unknown: bool = False
    plain_prompt: Literal["prompt", "outcome"] = "prompt"
    prompt_script: str | tuple[str, ...] | None = None
    prompt_config: JsonObject = field(default_factory=dict)
    prompt_contract: Contract = "agentv"
    vars: Mapping[str, JsonValue] = {}
    system_prompt: str | None = None
    ready_made: ReadyMade | None = None
    sources: tuple[str, ...] = ()
    reference: str | None = None
    is_aggregator: bool = False
    source: str = "response"
    base_dir: str = "."
    config: EvaluatorConfig | None = None
    nonce: Callable[[], str] = make_nonce
    timer: Callable[[], float] = time.perf_counter


class LlmJudgeKeywords(TypedDict, total=False):
    """The keywords of LlmJudgeEvaluator: the fields of LlmJudgeEvaluatorOptions."""

    resolve_judge_provider: ResolveJudge | None
    prompt: str | None
    model: str | None
    max_output_tokens: int | None
    temperature: float | None
    criteria: Sequence[str]
    rubrics: Sequence[RubricItem | str | Mapping[str, Any]]
    include_trace: bool
    judges: Sequence[Provider]
    vote: Vote
    samples: int
    unsigned: Unsigned
    allow_unknown: bool
    plain_prompt: Literal["prompt", "outcome"]
    prompt_script: str | Sequence[str] | None
    prompt_config: JsonObject
    prompt_contract: Contract
    vars: Mapping[str, JsonValue]
    system_prompt: str | None
    ready_made: ReadyMade | None
    sources: tuple[str, ...]
    reference: str | None
    is_aggregator: bool
    source: str
    base_dir: str
    config: EvaluatorConfig | None
    nonce: Callable[[], str]
    timer: Callable[[], float]


class LlmJudgeEvaluator:
    """An evaluator that scores an answer with a model.

    Takes an options object or a dict, keywords of the same names, or both. Raises ConfigError for an unknown option, a
    value of the wrong type, a prompt with unknown names, or one that never shows the answer.

    >>> LlmJudgeEvaluator(temperature=0.0).kind
    'llm_judge'
    """

    kind = "llm_judge"
    reads_workspace = False

    def __init__(
        self,
        options: LlmJudgeEvaluatorOptions | Mapping[str, Any] | None = None,
        /,
        **keywords: Unpack[LlmJudgeKeywords],
    ) -> None:
        given = make_options(LlmJudgeEvaluatorOptions, options, keywords)
        try:
            check_minimums(given.samples, given.max_output_tokens, given.temperature)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        if given.criteria and given.rubrics:
            raise ConfigError("give either criteria= or rubrics=, not both: each defines what is judged")
        self.options = given
        has_dicts = any(isinstance(item, Mapping) for item in given.rubrics)
        rubrics = read_list("rubrics", given.rubrics, where=type(self).__name__) if has_dicts else given.rubrics
        self._items = make_items(rubrics)
        self._expected_outcome = _outcome_in_prompt(given)
        is_custom = bool(given.prompt and given.prompt.strip()) and self._expected_outcome is None
        self._call_options = JudgeOptions(
            template=_custom_template(given) if is_custom else USER_TEMPLATE,
            is_custom=is_custom,
            nonce=given.nonce,
            timer=given.timer,
            model=given.model,
            temperature=given.temperature,
            max_output_tokens=given.max_output_tokens,
            unsigned=given.unsigned,
            variables=given.vars if is_custom else {},
            system_prompt=given.system_prompt,
        )

    def configured(
        self, config: EvaluatorConfig, settings: LlmJudgeSettings | RubricSettings, tools: EvaluatorTools
    ) -> "LlmJudgeEvaluator":
        """Return a judge with an evaluator's settings that calls the same models as this judge.

        This judge's `prompt`, `vars`, `system_prompt`, `temperature`, `max_output_tokens`, `allow_unknown` and
        `unsigned` are the defaults; `model`, `samples`, `vote` and the options of what is judged come from the settings
        alone. If the settings name another judge, the options of this judge are not used.
        """
        judge = make_llm_judge(config, settings, tools)
        if settings.judge_targets:
            return judge
        configured, defaults = judge.options, self.options
        return LlmJudgeEvaluator(
            configured,
            config=None,
            resolve_judge_provider=defaults.resolve_judge_provider,
            judges=defaults.judges,
            prompt=configured.prompt or defaults.prompt,
            vars=configured.vars or defaults.vars,
            system_prompt=configured.system_prompt or defaults.system_prompt,
            temperature=defaults.temperature if configured.temperature is None else configured.temperature,
            max_output_tokens=configured.max_output_tokens or defaults.max_output_tokens,
            allow_unknown=configured.allow_unknown or defaults.allow_unknown,
            unsigned="accept" if "accept" in (configured.unsigned, defaults.unsigned) else "error",
            nonce=defaults.nonce,
            timer=defaults.timer,
        )

    @property
    def reusable(self) -> bool:
        """True if the evaluator depends on its config alone, and the model comes from each context."""
        return self.options.config is not None

    async def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Score an answer. A judge that fails or gives no usable reply is a `judge_error`, never a low score."""
        return await self.judge(context)

    async def judge(self, context: EvaluationContext, *, evaluator_results: JsonValue = None) -> EvaluationScore:
        """Score an answer as `evaluate` does. `evaluator_results` are the results of a composite's members."""
        providers = self.options.judges or (await self._own_judge(context),)
        source = self.options.source
        if self._expected_outcome is not None:
            context = replace(context, eval_case=replace(context.eval_case, expected_outcome=self._expected_outcome))
        judged = JudgedText(
            context=context,
            candidate=judged_text(context, source),
            source=source,
            evaluator_results=evaluator_results,
            evaluator=self.options.config,
        )
        vote = self.options.vote
        if self._items:
            return await self._call_judges(providers, RubricMode(self._items, vote), judged)
        if self.options.criteria:
            criteria = named_criteria(context, self.options.criteria)
            return await self._call_judges(providers, CriteriaMode(criteria, vote), judged)
        return await self._judge_one_criterion(providers, judged)

    async def _judge_one_criterion(self, providers: tuple[Provider, ...], judged: JudgedText) -> EvaluationScore:
        config, basis, vote = judged.config, judged.basis, self.options.vote
        criterion, ready_made = basis.criterion, self.options.ready_made
        task: Task = ready_made or basis
        if ready_made is not None:
            judged = _with_evidence(judged, ready_made, self.options.sources, self.options.reference)
        opening = "" if criterion is None or ready_made is not None else criterion_section(criterion)
        if criterion is not None and _has_scale(criterion):
            return await self._call_judges(providers, ScaledMode(criterion, vote, task), judged, opening=opening)
        if criterion is not None:
            return await self._call_judges(providers, TextMode(criterion, vote, task), judged, opening=opening)
        name = self.kind if config is None else config.criterion or config.name
        return await self._call_judges(providers, FreeformMode(name, vote, task), judged, opening=opening)

    async def _own_judge(self, context: EvaluationContext) -> Provider:
        resolve = self.options.resolve_judge_provider
        found = context.judge_provider if resolve is None else resolve(context)
        provider = await found if inspect.isawaitable(found) else found
        return require_judge(provider, context)

    async def _call_judges(
        self, providers: tuple[Provider, ...], mode: JudgeMode[Opinion], judged: JudgedText, *, opening: str = ""
    ) -> EvaluationScore:
        """Call every judge `samples` times, concurrently. If one call fails, the evaluator fails.

        `opening` is the start of the default user prompt.
        """
        role: JudgeRole = "member" if len(providers) > 1 else "sample"
        options = self._options_for(judged, opening)
        if self.options.prompt_script is not None:
            options = replace(
                options, template=await self._scripted_prompt(judged.context), is_custom=True, is_literal=True
            )
        pending = [
            call_judge(provider, mode, judged, options, role=role)
            for provider in providers
            for _ in range(self.options.samples)
        ]
        outcomes = await run_concurrently(pending)
        score = _score_of(outcomes, mode)
        request = {**outcomes[0].prompts.to_json(), **self._request_details(providers, judged.context)}
        calls = tuple(call for each in outcomes for call in each.calls)
        return replace(score, evaluator_raw_request=request, judge_calls=calls)

    async def _scripted_prompt(self, context: EvaluationContext) -> str:
        given = self.options
        payload = judge_payload(context, config=given.prompt_config, source=given.source)
        payload = payload_for(given.prompt_contract, payload, context)
        return await text_of_script(given.prompt_script or (), payload, cwd=given.base_dir)

    def _options_for(self, judged: JudgedText, opening: str) -> JudgeOptions:
        """Return the options for this answer: the default prompt has a section for each value that is not empty."""
        if self._call_options.is_custom:
            return self._call_options
        if self.options.ready_made is not None:
            shown = (name for name in self.options.ready_made.sections if judged.value(name))
            return self._options_with(user_template(tuple(shown)))
        sections = [name for name in COMPARED if judged.value(name)]
        sections += ["conversation", "candidate_answer"] if judged.is_excerpt else ["candidate_answer"]
        if self.options.include_trace and judged.context.candidate_trace_summary is not None:
            sections.append("trace_summary")
        if judged.evaluator_results is not None:
            sections.append("evaluator_results")
        return self._options_with(opening + user_template(tuple(sections)))

    def _options_with(self, template: str) -> JudgeOptions:
        """Return the options with a default prompt. The last options are reused if their prompt is the same."""
        if self._call_options.template != template:
            self._call_options = replace(self._call_options, template=template)
        return self._call_options

    def _request_details(self, providers: tuple[Provider, ...], context: EvaluationContext) -> JsonObject:
        details: dict[str, JsonValue] = {
            "judges": [judge_name(provider) for provider in providers],
            "model": self.options.model or context.judge_model,
            "temperature": self.options.temperature,
            "maxOutputTokens": self.options.max_output_tokens,
            "samples": self.options.samples if self.options.samples > 1 else None,
        }
        return {key: value for key, value in details.items() if value is not None}


PromptEvaluator = LlmJudgeEvaluator
"""Another name of the same class, which the seed requires."""


def _outcome_in_prompt(options: LlmJudgeEvaluatorOptions) -> str | None:
    """Return the text of `prompt` if it is to be used as the expected outcome (`plain_prompt="outcome"`), else None."""
    if options.plain_prompt != "outcome" or not options.prompt or not options.prompt.strip():
        return None
    text = load_prompt(options.prompt, options.base_dir)
    return None if variable_names(text) else text


def _custom_template(options: LlmJudgeEvaluatorOptions) -> str:
    """Return the text of the custom prompt. Raises ConfigError with its problems."""
    needed = (*ANSWER_NAMES, "evaluator_results") if options.is_aggregator else ANSWER_NAMES
    check = partial(template_problems, needed=needed, allow_unknown=options.allow_unknown, variables=options.vars)
    return usable_prompt(options.prompt or "", options.base_dir, check)


def _score_of(outcomes: list[JudgeOutcome[Opinion]], mode: JudgeMode[Opinion]) -> EvaluationScore:
    for each in outcomes:
        if each.failure is not None:
            failed = failed_judgement(each.failure, each.unread, each.score)
            if failed.results:
                return failed
            # The reply is stored with each criterion, because reports with criteria omit the evaluator's reasoning.
            unscored = mode.unscored(each.failure.message)
            return replace(failed, results=tuple([replace(result, reasoning=failed.reasoning) for result in unscored]))
    if len(outcomes) == 1 and outcomes[0].score is not None:
        return outcomes[0].score
    return mode.scored(tuple(each.opinion for each in outcomes if each.opinion is not None))


def make_llm_judge(
    config: EvaluatorConfig, settings: LlmJudgeSettings | RubricSettings, tools: EvaluatorTools
) -> LlmJudgeEvaluator:
    """Make the evaluator of `llm_judge` or `rubric`, which share a class."""
    options = {**structs.asdict(settings), **_common_options(config, settings, tools)}
    del options["judge"]
    return LlmJudgeEvaluator(**options)


def _common_options(config: EvaluatorConfig, settings: JudgeCallSettings, tools: EvaluatorTools) -> dict[str, Any]:
    """Return the options that follow from the config and the judges named in the settings."""
    judges = tuple(map(tools.judge, settings.judge_targets))
    return {
        "resolve_judge_provider": None if settings.judge is None else partial(_fixed_judge, judges[0]),
        "judges": judges if settings.judges else (),
        "source": config.source,
        "base_dir": config.base_dir,
        "config": None if settings.judge_targets else config,
    }


make_rubric = make_llm_judge


def make_ready_made(
    config: EvaluatorConfig, settings: JudgeCallSettings | SourcedJudgeSettings, tools: EvaluatorTools
) -> LlmJudgeEvaluator:
    """Make the ready-made judge of the type in `config`."""
    copied = {name: getattr(settings, name) for name in _COPIED_SETTINGS}
    paths = settings.source_paths if isinstance(settings, SourcedJudgeSettings) else ()
    return LlmJudgeEvaluator(
        **copied,
        ready_made=READY_MADE[config.type],
        sources=paths,
        reference=settings.reference if isinstance(settings, RecallJudgeSettings) else None,
        **_common_options(config, settings, tools),
    )


_COPIED_SETTINGS = ("model", "max_output_tokens", "temperature", "vote", "samples", "unsigned")


def _fixed_judge(provider: Provider, _context: EvaluationContext) -> Provider:
    """Return the judge that the settings name, whatever the context."""
    return provider
