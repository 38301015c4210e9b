"""Settings of evaluators that ask a model: what all have in common, and those of `llm_judge` and `rubric`."""

from typing import Annotated

from msgspec import Meta, Struct

from agentv.evaluators.judges.prompts import prompt_files
from agentv.scoring.judge_replies.rubrics import make_items
from agentv.scoring.results.folding import Vote
from agentv.types.cases import RubricItem

_INCLUDE_TRACE = Meta(description="show the judge which tools were called")


class JudgeSettings(Struct, frozen=True, kw_only=True):
    """Who judges, and how."""

    prompt: Annotated[
        str | None,
        Meta(
            description="the whole user prompt, or its file; {{ names }} are filled",
            extra={"aliases": ("promptTemplate",)},
        ),
    ] = None
    model: Annotated[str | None, Meta(description="a model of the judge's provider, in place of its own")] = None
    target: Annotated[
        str | None,
        Meta(
            description="the target that judges, in place of the judged target's `judge_target`",
            extra={"aliases": ("judge", "llm")},
        ),
    ] = None
    max_output_tokens: Annotated[int | None, Meta(description="the longest reply, in tokens")] = None
    temperature: Annotated[float | None, Meta(description="0 for the most repeatable judge")] = None
    judges: Annotated[tuple[str, ...], Meta(description="several targets that judge together")] = ()
    vote: Annotated[Vote, Meta(description="how several opinions become one: mean, median, majority or min")] = "mean"
    samples: Annotated[int, Meta(description="how often each judge is asked; the spread is kept")] = 1

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


class LlmJudgeSettings(JudgeSettings, frozen=True, kw_only=True):
    """Settings of `llm_judge`."""

    include_trace: Annotated[bool, _INCLUDE_TRACE] = False
    criteria: Annotated[
        tuple[str, ...], Meta(description="names of criteria that one call scores together, each on its own scale")
    ] = ()
    rubrics: Annotated[
        tuple[RubricItem | str, ...],
        Meta(description="requirements to check one by one; plain texts, or {id, description, weight, required}"),
    ] = ()

    def __post_init__(self) -> None:
        """Refuse what could not be asked."""
        JudgeSettings.__post_init__(self)
        if self.criteria and self.rubrics:
            raise ValueError("`criteria` and `rubrics` exclude each other")
        make_items(self.rubrics)

    @property
    def takes_criteria(self) -> bool:
        """Whether it can score several criteria in one call; a list of requirements is one criterion."""
        return not self.rubrics


class RubricSettings(JudgeSettings, frozen=True, kw_only=True):
    """Settings of `rubric`: those of `llm_judge`, with requirements."""

    include_trace: Annotated[bool, _INCLUDE_TRACE] = False
    rubrics: Annotated[
        tuple[RubricItem | str, ...],
        Meta(
            description="the requirements; plain texts, or {id, description, weight, required, scale: likert5}",
            extra={"aliases": ("items",)},
        ),
    ]

    def __post_init__(self) -> None:
        """Refuse a rubric without requirements."""
        JudgeSettings.__post_init__(self)
        make_items(self.rubrics)
        if not self.rubrics:
            raise ValueError("a rubric needs at least one item in `rubrics`")
