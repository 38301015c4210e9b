"""Settings of evaluators that ask a model: what all have in common, and those of `llm_judge` and `rubric`."""

from dataclasses import field

from agentv.evaluators.prompt_text import prompt_files
from agentv.scoring.rubrics import make_items
from agentv.scoring.votes import Vote
from agentv.types.cases import RubricItem
from agentv.types.dataclass import dataclass

_INCLUDE_TRACE = {"help": "show the judge which tools were called"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """Who judges, and how."""

    prompt: str | None = field(
        default=None,
        metadata={"help": "the whole user prompt, or its file; {{ names }} are filled", "aliases": ("promptTemplate",)},
    )
    model: str | None = field(default=None, metadata={"help": "a model of the judge's provider, in place of its own"})
    target: str | None = field(
        default=None,
        metadata={
            "help": "the target that judges, in place of the judged target's `judge_target`",
            "aliases": ("judge", "llm"),
        },
    )
    max_output_tokens: int | None = field(default=None, metadata={"help": "the longest reply, in tokens"})
    temperature: float | None = field(default=None, metadata={"help": "0 for the most repeatable judge"})
    judges: tuple[str, ...] = field(default=(), metadata={"help": "several targets that judge together"})
    vote: Vote = field(
        default="mean", metadata={"help": "how several opinions become one: mean, median, majority or min"}
    )
    samples: int = field(default=1, metadata={"help": "how often each judge is asked; the spread is kept"})

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmJudgeSettings(JudgeSettings):
    """Settings of `llm_judge`."""

    include_trace: bool = field(default=False, metadata=_INCLUDE_TRACE)
    criteria: tuple[str, ...] = field(
        default=(), metadata={"help": "names of criteria that one call scores together, each on its own scale"}
    )
    rubrics: tuple[RubricItem | str, ...] = field(
        default=(),
        metadata={"help": "requirements to check one by one; plain texts, or {id, description, weight, required}"},
    )

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricSettings(JudgeSettings):
    """Settings of `rubric`: those of `llm_judge`, with requirements."""

    include_trace: bool = field(default=False, metadata=_INCLUDE_TRACE)
    rubrics: tuple[RubricItem | str, ...] = field(
        metadata={
            "help": "the requirements; plain texts, or {id, description, weight, required, scale: likert5}",
            "aliases": ("items",),
        }
    )

    def __post_init__(self) -> None:
        """Refuse a rubric without requirements."""
        JudgeSettings.__post_init__(self)
        make_items(self.rubrics)
        if not self.rubrics:
            raise ValueError("a rubric needs at least one item in `rubrics`")
