"""`pairwise`: compare the candidate with another answer, in both orders. Its class is PairwiseEvaluator."""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.evaluators.judges.judging import (
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
    TEXT,
    CustomPrompt,
    JudgedText,
    criterion_section,
    custom_prompts,
    fence,
    reply_contract,
    strict_object,
    usable_prompt,
    user_template,
)
from agentv.evaluators.judges.settings import PromptSettings
from agentv.evaluators.named_files import is_file, real_path
from agentv.evaluators.rules.base import judged_text
from agentv.scoring.judge_replies.replies import (
    TIE,
    PairReply,
    ReplyRules,
    candidate_value,
    parse_pair,
)
from agentv.scoring.results.criteria import criterion_named, result_of
from agentv.scoring.results.folding import Vote, combine, spread
from agentv.scoring.results.sources import parse_source
from agentv.templating.variables import canonical_name, template_problems, variable_names
from agentv.types.cases import EvaluatorConfig
from agentv.types.evaluation import EvaluationContext, EvaluationResult, EvaluationScore, JudgeRole
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.protocols import EvaluatorTools
from agentv.types.provider import Provider
from agentv.types.scales import EvaluationCriteria

PAIR_ANSWERS = ("answer_a", "answer_b")
PAIR_VARIABLES = (
    "question",
    "system_prompt",
    "expected_outcome",
    *PAIR_ANSWERS,
    "input_messages",
    "guidelines",
    "criterion_name",
    "criterion_description",
    "criterion_scale",
)
"""The variables of a pairwise prompt, besides `context.PATH`; none reveals which answer is the candidate."""

SCHEMA = strict_object({"nonce": TEXT, "reasoning": TEXT, "better": {"type": "string", "enum": ["A", "B", "tie"]}})


def pair_problems(
    template: str, *, allow_unknown: bool = False, variables: Mapping[str, JsonValue] | None = None
) -> tuple[str, ...]:
    """Return the problems of a custom prompt, which must show both answers."""
    problems = template_problems(
        template, known=PAIR_VARIABLES, needed=PAIR_ANSWERS, allow_unknown=allow_unknown, variables=variables
    )
    missing = set(PAIR_ANSWERS).difference(variable_names(template))
    if len(missing) == 1:  # `template_problems` reports a prompt that shows neither answer
        return (*problems, f"the prompt does not show {{{{ {missing.pop()} }}}}; it must show both answers")
    return problems


class PairText(Struct, frozen=True):
    """Two answers in the order in which a judge sees them, with the context of the candidate."""

    judged: JudgedText
    answer_a: str
    answer_b: str

    @property
    def context(self) -> EvaluationContext:
        """The candidate's context."""
        return self.judged.context

    def quotable_texts(self) -> Iterator[str]:
        """Yield the texts that a reply may quote; a JSON object in them is not the judge's verdict."""
        yield self.answer_a
        yield self.answer_b
        yield from self.judged.quotable_texts()

    def fenced(self, nonce: str, template: str) -> Callable[[str], str | None]:
        """Return a function from the name of a variable of `template` to its value; None for an unknown name.

        Variables that could reveal which answer is the candidate are unknown here.
        """
        fenced_value = self.judged.fenced(nonce, template)
        answers = {"answer_a": self.answer_a, "answer_b": self.answer_b}

        def value_of(name: str) -> str | None:
            if name in answers:
                return fence(answers[name], name=name, nonce=nonce)
            is_allowed = canonical_name(name) in PAIR_VARIABLES or name.startswith("context.")
            return fenced_value(name) if is_allowed else None

        return value_of


class PairMode(Struct, frozen=True):
    """A comparison of two answers. `goal` says what makes an answer better. With `swapped`, the candidate is B."""

    goal: str
    swapped: bool = False

    @property
    def instructions(self) -> str:
        """The opening of the system prompt."""
        return (
            "You compare two answers to the same question, A and B. "
            f"{self.goal} Neither the order in which they stand nor their length says anything about them."
        )

    @property
    def section(self) -> str:
        """Empty: nothing is appended to the user prompt."""
        return ""

    @property
    def schema(self) -> JsonObject:
        """The format of the reply as a JSON Schema."""
        return SCHEMA

    @property
    def allowed_scores(self) -> str:
        """Empty: a preference has no score."""
        return ""

    @property
    def contract(self) -> str:
        """The format of the reply in words."""
        return reply_contract("""\
- "reasoning": one or two sentences that compare the answers
- "better": "A", "B", or "tie" when neither is better""")

    def parse(self, reply: str, rules: ReplyRules) -> PairReply:
        """Return the preference in a reply."""
        return parse_pair(reply, rules)

    def scored(self, opinions: tuple[PairReply, ...]) -> EvaluationScore:
        """Return the candidate's score for a single preference; `comparison_score` combines several."""
        return EvaluationScore(score=candidate_value(opinions[0].better, swapped=self.swapped))

    def unscored(self, message: str) -> tuple[EvaluationResult, ...]:  # noqa: ARG002 - there is one criterion only
        """Return no results: the failure is reported for the evaluator itself."""
        return ()


KIND = "pairwise"
DEFAULT_AGAINST = "ground_truth"
_ANSWERS_FILE = "answers.jsonl"

FindAnswer = Callable[[EvaluationContext], Awaitable[str]]
"""A function that returns the answer to compare with, for the case of a context."""


class PairwiseSettings(PromptSettings, frozen=True, kw_only=True):
    """Settings of `pairwise`."""

    against: Annotated[
        str,
        Meta(
            description="the path of the text to compare with, as in `source`",
            extra={"aliases": ("reference", "referenceField")},
        ),
    ] = DEFAULT_AGAINST
    against_run: Annotated[
        str | None,
        Meta(description="compare with the answer in a stored run, given by its id, name, path or as `latest`"),
    ] = None
    prefer: Annotated[
        str | None, Meta(description="what makes an answer better; default: the criterion or the expected outcome")
    ] = None

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid setting, or for settings that cannot be combined."""
        PromptSettings.__post_init__(self)
        try:
            parse_source(self.against)
        except ValueError as error:
            raise ValueError(f"`against`: {error}") from None
        if self.against_run is not None and self.against != DEFAULT_AGAINST:
            raise ValueError("`against_run` cannot be combined with `against`")
        if self.prefer is not None and self.prompt is not None:
            raise ValueError("`prefer` cannot be combined with `prompt`; describe in the prompt what is better")

    def template_problems(self, template: str) -> tuple[str, ...]:
        """Return the problems of a custom prompt's text."""
        return pair_problems(template, allow_unknown=self.allow_unknown, variables=self.vars)

    def prompts(self, base_dir: str) -> tuple[CustomPrompt, ...]:
        """Return the custom prompt as a tuple; () if there is none or its file cannot be read."""
        return custom_prompts((), self.prompt, base_dir, PAIR_VARIABLES)

    def files(self, base_dir: str) -> tuple[str, ...]:
        """Return the files to read: the prompt's, which must exist, and the answers of a run given by its folder."""
        return (*PromptSettings.files(self, base_dir), *_answers_file(self.against_run, base_dir))

    @property
    def runs(self) -> tuple[str, ...]:
        """The stored run from which answers are read, as a tuple; () without `against_run`."""
        return () if self.against_run is None else (self.against_run,)


def _answers_file(run: str | None, base_dir: str) -> tuple[str, ...]:
    """Return the answers.jsonl of a run given by its folder, as a tuple; () for an id, a name or a missing file."""
    if run is None:
        return ()
    folders = [Path(base_dir, run)]
    if "/" in run or run == "..":  # `find_run` reads these as paths from the working directory
        folders.append(Path(run))
    files = [folder / _ANSWERS_FILE for folder in folders]
    return tuple(real_path(file) for file in files if is_file(file))[:1]


class PairwiseEvaluator:
    """An evaluator that compares two answers in both orders.

    In each comparison the candidate gets 1.0 if it wins in both orders, 0.0 if it loses in both, else 0.5; several
    comparisons are combined by `settings.vote`. `find_other` returns the other answer; None takes the text at the path
    `settings.against`. `against` is the other answer's name in results. Without `judges`, the context's own judge is
    called. `nonce` and `timer` are the sources of randomness and time, replaceable in tests.

    >>> PairwiseEvaluator(find_other=None).kind
    'pairwise'
    """

    kind = KIND
    reads_workspace = False

    def __init__(
        self,
        *,
        find_other: FindAnswer | None,
        against: str = "the reference",
        settings: PairwiseSettings | None = None,
        judges: Sequence[Provider] = (),
        config: EvaluatorConfig | None = None,
        nonce: Callable[[], str] = make_nonce,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._config = config or EvaluatorConfig(KIND, KIND)
        self._settings = given = settings or PairwiseSettings()
        self._find_other = find_other or self._text_at_path
        self._against = against
        self._judges = tuple(judges)
        is_custom = given.prompt is not None and bool(given.prompt.strip())
        template = ""
        if given.prompt is not None and is_custom:
            template = usable_prompt(given.prompt, self._config.base_dir, given.template_problems)
        self._call_options = JudgeOptions(
            template=template,
            is_custom=is_custom,
            nonce=nonce,
            timer=timer,
            model=given.model,
            temperature=given.temperature,
            max_output_tokens=given.max_output_tokens,
            unsigned=given.unsigned,
            variables=given.vars if is_custom else {},
            system_prompt=given.system_prompt,
        )

    async def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Compare the answers. A judge that fails or gives no usable reply is a `judge_error`, never a loss.

        Raises EvaluatorError if there is no judge, no text or no answer to compare with.
        """
        providers = self._judges or (require_judge(context.judge_provider, context),)
        source = self._config.source
        judged = JudgedText(context, judged_text(context, source), source)
        outcomes = await self._call_judges(providers, judged, await self._find_other(context))
        score = self._score_of(outcomes, context)
        request: dict[str, JsonValue] = {
            **outcomes[0].prompts.to_json(),
            "swapped": outcomes[1].prompts.to_json(),
            "judges": [judge_name(provider) for provider in providers],
        }
        calls = tuple(call for each in outcomes for call in each.calls)
        return replace(score, evaluator_raw_request=request, judge_calls=calls)

    async def _text_at_path(self, context: EvaluationContext) -> str:
        return judged_text(context, self._settings.against)

    async def _call_judges(
        self, providers: Sequence[Provider], judged: JudgedText, other: str
    ) -> list[JudgeOutcome[PairReply]]:
        """Call every judge `samples` times in both orders, concurrently. The two outcomes of a pair are adjacent."""
        options, goal = self._options_for(judged), self._goal(judged)
        role: JudgeRole = "member" if len(providers) > 1 else "sample"
        candidate_first = PairText(judged, judged.candidate, other)
        other_first = PairText(judged, other, judged.candidate)
        calls = []
        for provider in providers:
            for _ in range(self._settings.samples):
                calls.append(call_judge(provider, PairMode(goal), candidate_first, options, role=role))
                calls.append(call_judge(provider, PairMode(goal, swapped=True), other_first, options, role="swap"))
        return await run_concurrently(calls)

    def _options_for(self, judged: JudgedText) -> JudgeOptions:
        if self._call_options.is_custom:
            return self._call_options
        criterion = judged.basis.criterion
        opening = "" if criterion is None else criterion_section(criterion)
        sections = [name for name in ("expected_outcome", "system_prompt", "question") if judged.value(name)]
        return replace(self._call_options, template=opening + user_template((*sections, *PAIR_ANSWERS)))

    def _goal(self, judged: JudgedText) -> str:
        if self._settings.prefer is not None:
            return f"What makes one the better one: {self._settings.prefer.strip()}"
        if judged.basis.criterion is not None:
            return "What counts is the criterion alone, whatever else is good or bad in them."
        if judged.basis.has_expected_outcome:
            return "What counts is which of them comes closer to the expected outcome; be strict about facts."
        return "What counts is which of them does better what was asked for; be strict about facts."

    def _score_of(self, outcomes: Sequence[JudgeOutcome[PairReply]], context: EvaluationContext) -> EvaluationScore:
        for each in outcomes:
            if each.failure is not None:
                return failed_judgement(each.failure, each.unread)
        replies = [each.opinion for each in outcomes if each.opinion is not None]
        comparisons = [BothOrders(*pair) for pair in zip(replies[::2], replies[1::2], strict=True)]
        name = self._config.criterion or self._config.name
        criterion = criterion_named(name, context.criteria, scale="numeric")
        return comparison_score(comparisons, criterion, against=self._against, vote=self._settings.vote)


class BothOrders(Struct, frozen=True):
    """One judge's preferences for the same two answers: in the given order, and swapped."""

    first: PairReply
    swapped: PairReply

    @property
    def values(self) -> tuple[float, float]:
        """The candidate's value in each order."""
        first = candidate_value(self.first.better, swapped=False)
        return first, candidate_value(self.swapped.better, swapped=True)

    @property
    def is_biased(self) -> bool:
        """True if the preference changed with the order."""
        return self.values[0] != self.values[1]

    @property
    def value(self) -> float:
        """1.0 for a win of the candidate, 0.5 for a tie or a verdict that depends on the order, 0.0 for a loss."""
        return TIE if self.is_biased else self.values[0]


def comparison_score(
    comparisons: Sequence[BothOrders], criterion: EvaluationCriteria, *, against: str, vote: Vote = "mean"
) -> EvaluationScore:
    """Return the score of the candidate, combined by `vote`, with all verdicts as metadata of one result.

    `against` is the other answer's name.
    """
    value = combine([each.value for each in comparisons], vote)
    nearest = min(comparisons, key=lambda each: abs(each.value - value))
    stated = nearest.first.reasoning  # of the call in which the candidate is A
    reasoning = None if stated is None else f"{stated} (A is the candidate)"
    line = f"{_outcome_words(value)} {against}" + (f": {reasoning}" if reasoning else "")
    hits, misses = ([line], []) if value > TIE else ([], [line])
    biased_count = sum(each.is_biased for each in comparisons)
    if biased_count:
        changed = f"{biased_count} of {len(comparisons)} verdicts changed with the order of the answers"
        misses.append(f"position-biased: {changed}")
    is_unverified = any(each.first.unverified or each.swapped.unverified for each in comparisons)
    metadata: dict[str, JsonValue] = {
        "against": against,
        "verdicts": [[each.first.better, each.swapped.better] for each in comparisons],
        "position_biased": biased_count > 0,
    }
    if len(comparisons) > 1:
        metadata["spread"] = spread([each.value for each in comparisons])
    return EvaluationScore(
        score=value,
        hits=tuple(hits),
        misses=tuple(misses),
        reasoning=reasoning,
        status="unverified" if is_unverified else "scored",
        results=(result_of(value, criterion, kind=KIND, reasoning=reasoning, metadata=metadata),),
    )


def _outcome_words(value: float) -> str:
    if value == TIE:
        return "no better than"
    return "better than" if value > TIE else "worse than"


def make_pairwise(config: EvaluatorConfig, settings: PairwiseSettings, tools: EvaluatorTools) -> PairwiseEvaluator:
    """Return a `pairwise` evaluator."""
    run = settings.against_run
    return PairwiseEvaluator(
        find_other=None if run is None else partial(tools.recorded_answer, run, base_dir=config.base_dir),
        against=settings.against if run is None else f"run {run}",
        settings=settings,
        judges=tuple(map(tools.judge, settings.judge_targets)),
        config=config,
    )
