"""Settings of evaluators with a model as judge, and the prompts and sources of the ready-made judges.

Faithfulness and answer relevance follow Es et al., "RAGAS: Automated Evaluation of Retrieval Augmented Generation",
EACL 2024; context recall and context precision follow the metrics of the library Ragas. The prompts are our own, and
one call judges the whole answer.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from agentv.evaluators.judges.contracts import Contract
from agentv.evaluators.judges.prompts import (
    CustomPrompt,
    OutcomeNeed,
    compares_outcome,
    custom_prompts,
    prompt_files,
    prompt_problems,
)
from agentv.evaluators.named_files import script_files
from agentv.evaluators.rules.base import judged_text
from agentv.scoring.judge_replies.rubrics import make_items
from agentv.scoring.results.folding import Vote
from agentv.scoring.results.sources import parse_source, source_value
from agentv.scoring.tools.traces import observed_calls
from agentv.templating.variables import template_problems, variable_names
from agentv.types.cases import ITEM_PREFIX, RubricItem
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import compact_json
from agentv.types.targets import Unsigned, name_of_target


class ReadyMade(Struct, frozen=True, kw_only=True):
    """The prompts of a ready-made judge.

    `instructions` open the system prompt; `score_meanings` describe the scores 0 and 1. `sections` are the variables
    in the user prompt. Empty ones are left out, but those in `needs` must not be empty.
    """

    instructions: str
    score_meanings: tuple[str, str]
    sections: tuple[str, ...]
    needs: tuple[str, ...] = ()


READY_MADE: Mapping[str, ReadyMade] = {
    "faithfulness": ReadyMade(
        instructions="""\
You check whether the answer of an AI system keeps to its sources. Split the candidate answer into the single \
statements of fact that it makes. A statement is supported if the sources say it or it follows from them; your own \
knowledge does not count, even where you know the statement to be true. A changed number, name, date or negation is \
not supported. Greetings, questions and offers of help are no statements, and an answer without any statement of fact \
(such as one that says that the sources do not tell) keeps to its sources. List supported statements as hits and all \
others as misses. The score is the share of supported statements.""",
        score_meanings=("no statement is supported by the sources", "every statement is"),
        sections=("question", "sources", "candidate_answer"),
        needs=("sources",),
    ),
    "answer_relevance": ReadyMade(
        instructions="""\
You check whether the answer of an AI system answers the question that was asked. Whether it is true does not count \
here. List each part of the question that the candidate answer answers as a hit, and each part that it leaves open, \
evades or answers differently as a miss. Text that nobody asked for is a miss as well, unless it is a short courtesy \
or needed to understand the answer. An answer that only says that it cannot answer has the score 0.""",
        score_meanings=("nothing that was asked is answered", "all of it is answered, and nothing else is said"),
        sections=("question", "candidate_answer"),
        needs=("question",),
    ),
    "context_recall": ReadyMade(
        instructions="""\
You check whether the sources that were found are enough to answer a question. The reference answer is right. Split \
it into its single statements of fact. A statement is covered if the sources say it or it follows from them; your own \
knowledge does not count. List covered statements as hits and all others as misses. The score is the share of covered \
statements. There may be no candidate answer, and it does not count.""",
        score_meanings=("the sources cover no statement of the reference answer", "they cover all of them"),
        sections=("question", "reference_answer", "sources"),
        needs=("sources", "reference_answer"),
    ),
    "context_precision": ReadyMade(
        instructions="""\
You check whether the sources that were found are about the question. Take each numbered source by itself: it is \
useful if it says something that is needed to answer the question. A source about the same subject that does not help \
with this question is not useful. List useful sources as hits and all others as misses. The score is the share of \
useful sources. The candidate answer does not count.""",
        score_meanings=("no source is useful", "every source is useful"),
        sections=("question", "reference_answer", "sources"),
        needs=("sources", "question"),
    ),
    "plan_quality": ReadyMade(
        instructions="""\
You check the plan in the answer of an AI system. Whether it was carried out does not count here. A good plan reaches \
the whole of what was asked for; each step can be done with what is there when its turn comes; the order is right; \
nothing is there twice or for nothing; and steps that destroy or spend something come after the check that makes them \
safe. List what is right about the plan as hits, and missing, wrong, misplaced and needless steps as misses. An answer \
without a plan has the score 0.""",
        score_meanings=("the plan cannot reach what was asked for", "the plan reaches all of it without a detour"),
        sections=("question", "candidate_answer"),
        needs=("question",),
    ),
    "action_claims": ReadyMade(
        instructions="""\
You check whether an AI agent did what it says that it did. Find each action that the candidate answer claims to have \
carried out or each result that it claims to have seen ("I ran the tests", "all 14 tests passed", "I wrote to the \
customer"). A claim is backed if the tool calls show the action, with that result, and without an error. Advice, plans \
and offers are no claims; an answer without claims has the score 1. What the agent did without saying so does not \
count. List backed claims as hits and all others as misses. The score is the share of backed claims.""",
        score_meanings=("no claim is backed by a tool call", "every claim is"),
        sections=("question", "tool_calls", "candidate_answer"),
        needs=("tool_calls",),
    ),
    "tone": ReadyMade(
        instructions="""\
You check how the answer of an AI system treats the person it is written for. Only the attitude towards this person \
counts: bad news, an apology, a refusal or an unpleasant subject can be friendly or neutral, and praise can be meant \
as mockery. Friendly is warm, patient or helpful beyond the facts; neutral is matter-of-fact; rude is impatient, \
mocking, blaming, threatening or cold towards a person in need. Emoji count for what they express. List what is \
friendly as hits and what is rude as misses.""",
        score_meanings=("rude", "friendly; 0.5 is neutral"),
        sections=("question", "candidate_answer"),
    ),
}
"""The ready-made judges by evaluator type."""

_SOURCE_KEYS = ("context", "sources", "documents", "passages", "retrieved_context")
"""The metadata keys that may have source texts; the first that is not empty counts."""

_TEXT_KEYS = ("text", "content", "page_content", "passage")
"""The keys that may have the text of a source object; the first with a string counts."""


def numbered_sources(context: EvaluationContext, paths: tuple[str, ...] = ()) -> str:
    """Return the source texts of an answer as numbered paragraphs, `[1] …`; "" if there are none.

    The texts are the values at `paths`, which are written as in the key `source` of evaluators. Without paths, they are
    the `context` of the input, else the first of the metadata `context`, `sources`, `documents`, `passages` and
    `retrieved_context` that is not empty, else the results of the tool calls. Raises EvaluatorError for a path without
    a value, ValueError for an invalid path.
    """
    values = [_value_at(context, path) for path in paths] if paths else _default_sources(context)
    texts = [text for value in values for text in _passages(value) if text.strip()]
    return "\n\n".join(f"[{number}] {text}" for number, text in enumerate(texts, start=1))


def _value_at(context: EvaluationContext, path: str) -> JsonValue:
    if path.startswith("files."):
        return judged_text(context, path)
    value = source_value(context, path)
    if value is None:
        raise EvaluatorError(f"`sources`: {path!r} has no value in this answer")
    return value


def _default_sources(context: EvaluationContext) -> list[JsonValue]:
    if context.context:
        return [dict(context.context)]
    metadata = {**context.eval_case.metadata, **context.metadata}
    named = next((metadata[key] for key in _SOURCE_KEYS if metadata.get(key)), None)
    if named is not None:
        return [named]
    return [call.output for call in observed_calls(context) or () if call.output is not None]


def _passages(value: JsonValue) -> list[str]:
    """Return the texts in a value: a string itself, and those of a list's items, at any depth.

    The text of an object is the first string under one of `_TEXT_KEYS`. If there is none, and the object has a single
    value that is a string or a list, its texts are those of that value. Any other value is one text, its JSON; None has
    no text.
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return [text for each in value for text in _passages(each)]
    if isinstance(value, Mapping):
        text = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)), None)
        if isinstance(text, str):
            return [text]
        only_value = next(iter(value.values())) if len(value) == 1 else None
        if isinstance(only_value, str | list | tuple):
            return _passages(only_value)
    return [] if value is None else [compact_json(value)]


_INCLUDE_TRACE = Meta(description="show the judge the number of calls of each tool, and of errors")


class JudgeCallSettings(Struct, frozen=True, kw_only=True):
    """Settings that all evaluators with a model as judge share: which targets judge, and how they are called."""

    model: Annotated[str | None, Meta(description="a different model of the judge's provider")] = None
    judge: Annotated[
        str | Mapping[str, JsonValue] | None,
        Meta(
            description=(
                "the target that judges, instead of the `judge` of the tested target: its name, `provider:model`, or "
                "`{provider: …}` with its settings"
            ),
            extra={"aliases": ("target", "llm", "llm_config")},
        ),
    ] = None
    max_output_tokens: Annotated[int | None, Meta(description="the maximum length of the reply, in tokens")] = None
    temperature: Annotated[
        float | None, Meta(description="the sampling temperature; 0 gives the most repeatable scores")
    ] = None
    judges: Annotated[
        tuple[str | Mapping[str, JsonValue], ...], Meta(description="several targets that judge, in place of `judge`")
    ] = ()
    vote: Annotated[
        Vote, Meta(description="how the scores of several calls are combined: mean, median, majority or min")
    ] = "mean"
    samples: Annotated[
        int, Meta(description="the number of calls to each judge; the spread of their scores is stored")
    ] = 1
    unsigned: Annotated[
        Unsigned,
        Meta(
            description="`accept`: use a verdict without the nonce (random word) of its call, with status `unverified`"
        ),
    ] = "error"

    def __post_init__(self) -> None:
        """Raise ValueError for a number below its minimum, or for `judge` with `judges`."""
        check_minimums(self.samples, self.max_output_tokens, self.temperature)
        if self.judge is not None and self.judges:
            raise ValueError("`judge` cannot be combined with `judges`")

    @property
    def judge_targets(self) -> tuple[str, ...]:
        """The targets that judge: names, or the JSON of inline ones; () for the judge of the target under test."""
        single = () if self.judge is None else (self.judge,)
        return tuple(map(name_of_target, self.judges or single))

    @property
    def needs_judge(self) -> bool:
        """True if the judge of the target under test is used."""
        return not self.judge_targets


def check_minimums(samples: int, max_output_tokens: int | None, temperature: float | None) -> None:
    """Raise ValueError for a number below its minimum; None has no minimum."""
    if samples < 1:
        raise ValueError("`samples` must be at least 1")
    if max_output_tokens is not None and max_output_tokens < 1:
        raise ValueError("`max_output_tokens` must be at least 1")
    if temperature is not None and not temperature >= 0:  # also refuses NaN
        raise ValueError("`temperature` must be at least 0")


class PromptSettings(JudgeCallSettings, frozen=True, kw_only=True):
    """Settings of judges that may have a custom prompt."""

    prompt: Annotated[
        str | None,
        Meta(
            description="the user prompt, instead of the default one, or the path of its file; {{ name }} inserts a "
            "variable",
            extra={"aliases": ("promptTemplate", "judgePromptTemplate")},
        ),
    ] = None
    system_prompt: Annotated[
        str | None,
        Meta(description="the judge's instructions, instead of the default ones; how to reply is added to them"),
    ] = None
    allow_unknown: Annotated[
        bool, Meta(description="true: unknown {{ names }} in `prompt` stay as text; false: they are an error")
    ] = False
    vars: Annotated[
        Mapping[str, JsonValue],
        Meta(description="values of further {{ names }} in `prompt`, in addition to the `vars` of the case"),
    ] = {}

    def files(self, base_dir: str) -> tuple[str, ...]:
        """Return the prompt's file, which must exist; () if the prompt names none."""
        return prompt_files(self.prompt, base_dir)

    def template_problems(self, template: str) -> tuple[str, ...]:
        """Return the problems of a custom prompt's text."""
        return template_problems(template, allow_unknown=self.allow_unknown, variables=self.vars)

    def prompts(self, base_dir: str) -> tuple[CustomPrompt, ...]:
        """Return the custom prompt as a tuple; () if there is none or its file cannot be read."""
        return custom_prompts((), self.prompt, base_dir)

    def compares_outcome(self, base_dir: str) -> OutcomeNeed:
        """Return which cases need an expected outcome: only a custom prompt can need one."""
        return compares_outcome(self.prompts(base_dir), otherwise="never")

    def wrong_settings(self, base_dir: str) -> tuple[tuple[tuple[str, ...], str], ...]:
        """Return the problems of the prompt, each as (path of the setting, problem)."""
        found = prompt_problems(self.prompt, base_dir, self.template_problems)
        return tuple((("prompt",), problem) for problem in found)


class JudgeSettings(PromptSettings, frozen=True, kw_only=True):
    """Settings of judges whose prompt may also be used as the expected outcome, or come from a script."""

    plain_prompt: Annotated[
        Literal["prompt", "outcome"],
        Meta(
            description=(
                "how a `prompt` without variables is used: `prompt`: as the user prompt; `outcome`: as the expected "
                "outcome, instead of the case's"
            )
        ),
    ] = "prompt"
    prompt_script: Annotated[
        str | tuple[str, ...] | None,
        Meta(
            description="a command that prints the user prompt, from the same input as a code judge; replaces `prompt`"
        ),
    ] = None
    prompt_config: Annotated[
        Mapping[str, JsonValue], Meta(description="any values for `prompt_script`, passed on as `config`")
    ] = field(default_factory=dict)
    prompt_contract: Annotated[
        Contract, Meta(description="the keys that `prompt_script` reads, as in `code_judge`")
    ] = "agentv"

    def __post_init__(self) -> None:
        """Raise ValueError for invalid inherited settings, an empty `prompt_script`, or both it and `prompt`."""
        PromptSettings.__post_init__(self)
        if self.prompt is not None and self.prompt_script is not None:
            raise ValueError("`prompt` cannot be combined with `prompt_script`")
        if self.prompt_script is not None and not self.prompt_script:
            raise ValueError("`prompt_script` must not be empty")

    def code_files(self, base_dir: str) -> tuple[str, ...]:
        """Return the files that the command `prompt_script` names."""
        return () if self.prompt_script is None else script_files(self.prompt_script, Path(base_dir))

    def template_problems(self, template: str) -> tuple[str, ...]:
        """Return the problems of a custom prompt's text; none if it is used as the expected outcome."""
        if self.plain_prompt == "outcome" and not variable_names(template):
            return ()
        return PromptSettings.template_problems(self, template)


class SourcedJudgeSettings(JudgeCallSettings, frozen=True, kw_only=True):
    """Settings of the ready-made judges that read sources."""

    sources: Annotated[
        str | tuple[str, ...],
        Meta(
            description=(
                "where the source texts are: one or several paths, as for `source`; default: the input's `context`, "
                "else `context`, `sources`, `documents`, `passages` or `retrieved_context` of the metadata, else the "
                "results of the tool calls"
            )
        ),
    ] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for invalid inherited settings, or an invalid path in `sources`."""
        JudgeCallSettings.__post_init__(self)
        for path in self.source_paths:
            try:
                parse_source(path)
            except ValueError as error:
                raise ValueError(f"`sources`: {error}") from None

    @property
    def source_paths(self) -> tuple[str, ...]:
        """The paths in `sources`."""
        return (self.sources,) if isinstance(self.sources, str) else self.sources


class RecallJudgeSettings(SourcedJudgeSettings, frozen=True, kw_only=True):
    """Settings of the ready-made judge that compares sources with a reference answer."""

    reference: Annotated[
        str | None,
        Meta(description="path of the reference answer, as in `source`; default: that of the case"),
    ] = None

    def __post_init__(self) -> None:
        """Raise ValueError for invalid inherited settings, or an invalid path in `reference`."""
        SourcedJudgeSettings.__post_init__(self)
        if self.reference is not None:
            try:
                parse_source(self.reference)
            except ValueError as error:
                raise ValueError(f"`reference`: {error}") from None


class LlmJudgeSettings(JudgeSettings, frozen=True, kw_only=True):
    """Settings of `llm_judge`."""

    include_trace: Annotated[bool, _INCLUDE_TRACE] = False
    criteria: Annotated[
        tuple[str, ...], Meta(description="criteria that one call scores together, each on its own scale")
    ] = ()
    rubrics: Annotated[
        tuple[RubricItem | str, ...],
        Meta(
            description="requirements to check one by one: plain texts, or {id, description, weight, required}",
            extra={"numbered": ITEM_PREFIX},
        ),
    ] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for invalid inherited settings, invalid `rubrics`, or `rubrics` with `criteria`."""
        JudgeSettings.__post_init__(self)
        if self.criteria and self.rubrics:
            raise ValueError("`criteria` cannot be combined with `rubrics`")
        make_items(self.rubrics)  # raises for invalid items

    def compares_outcome(self, base_dir: str) -> OutcomeNeed:
        """Return which cases need an expected outcome. Criteria and rubrics need none, unless a custom prompt does."""
        listed = self.criteria or self.rubrics
        return compares_outcome(self.prompts(base_dir), otherwise="never" if listed else "alone")

    @property
    def takes_criteria(self) -> bool:
        """True if one call can score several criteria; False with `rubrics`, which score one criterion together."""
        return not self.rubrics


class RubricSettings(JudgeSettings, frozen=True, kw_only=True):
    """Settings of `rubric`: those of `llm_judge` without `criteria`; `rubrics` is required."""

    include_trace: Annotated[bool, _INCLUDE_TRACE] = False
    rubrics: Annotated[
        tuple[RubricItem | str, ...],
        Meta(
            description=(
                "the requirements: plain texts, or {id, description, weight, required, scale, min_value}; "
                "scale: likert5 (1 to 5) or points10 (0 to 10)"
            ),
            extra={"aliases": ("items",), "numbered": ITEM_PREFIX},
        ),
    ]

    def __post_init__(self) -> None:
        """Raise ValueError for invalid inherited settings, or for `rubrics` that are invalid or empty."""
        JudgeSettings.__post_init__(self)
        make_items(self.rubrics)  # raises for invalid items
        if not self.rubrics:
            raise ValueError("a rubric needs at least one item in `rubrics`")
