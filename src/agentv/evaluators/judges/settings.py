"""Settings of evaluators that call a model: the common ones, those of ready-made judges, `llm_judge` and `rubric`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from agentv.evaluators.judges.contracts import Contract
from agentv.evaluators.judges.prompts import (
    Compares,
    WrittenPrompt,
    compares_outcome,
    prompt_files,
    prompt_problems,
    written_prompts,
)
from agentv.evaluators.named_files import script_files
from agentv.scoring.judge_replies.rubrics import make_items
from agentv.scoring.results.folding import Vote
from agentv.scoring.results.sources import parse_source
from agentv.templating.variables import template_problems, variable_names
from agentv.types.cases import RubricItem
from agentv.types.json_value import JsonValue
from agentv.types.targets import Unsigned, name_of_target

_INCLUDE_TRACE = Meta(description="show the judge the tool calls of the answer")


class JudgeCallSettings(Struct, frozen=True, kw_only=True):
    """The judges, and how they are called."""

    model: Annotated[str | None, Meta(description="a different model of the judge's provider")] = None
    target: Annotated[
        str | Mapping[str, JsonValue] | None,
        Meta(
            description=(
                "the target that judges, instead of the tested target's `judge_target`: its name, `provider:model`, "
                "or `{provider: …}` with its settings"
            ),
            extra={"aliases": ("judge", "llm")},
        ),
    ] = None
    max_output_tokens: Annotated[int | None, Meta(description="the maximum length of the reply, in tokens")] = None
    temperature: Annotated[
        float | None, Meta(description="the sampling temperature; 0 gives the most repeatable scores")
    ] = None
    judges: Annotated[
        tuple[str | Mapping[str, JsonValue], ...], Meta(description="several targets that judge together")
    ] = ()
    vote: Annotated[Vote, Meta(description="how several opinions are combined: mean, median, majority or min")] = "mean"
    samples: Annotated[int, Meta(description="the number of calls to each judge; the spread is stored")] = 1
    unsigned: Annotated[
        Unsigned,
        Meta(
            description="`accept`: use a reply without the nonce (random word) of its call; its status is `unverified`"
        ),
    ] = "error"

    def __post_init__(self) -> None:
        """Raise ValueError for settings that cannot be used."""
        check_numbers(self.samples, self.max_output_tokens, self.temperature)
        if self.target is not None and self.judges:
            raise ValueError("`target` and `judges` exclude each other")

    @property
    def judge_targets(self) -> tuple[str, ...]:
        """The names of the targets that judge."""
        given = self.judges or (() if self.target is None else (self.target,))
        return tuple(map(name_of_target, given))

    @property
    def needs_judge(self) -> bool:
        """True if the judge of the target under test is used."""
        return not self.judge_targets


def check_numbers(samples: int, max_output_tokens: int | None, temperature: float | None) -> None:
    """Raise ValueError for numbers of a judge that are too small."""
    if samples < 1:
        raise ValueError("`samples` must be at least 1")
    if max_output_tokens is not None and max_output_tokens < 1:
        raise ValueError("`max_output_tokens` must be at least 1")
    if temperature is not None and not temperature >= 0:
        raise ValueError("`temperature` must be at least 0")


class JudgeSettings(JudgeCallSettings, frozen=True, kw_only=True):
    """The judges with a prompt of the user's."""

    prompt: Annotated[
        str | None,
        Meta(
            description="the whole user prompt, or the path of its file; {{ name }} inserts a variable",
            extra={"aliases": ("promptTemplate",)},
        ),
    ] = None
    plain_prompt: Annotated[
        Literal["prompt", "outcome"],
        Meta(
            description=(
                "what a `prompt` without variables is: the whole prompt, or the expected `outcome` for this judge, "
                "instead of the case's"
            )
        ),
    ] = "prompt"
    prompt_script: Annotated[
        str | tuple[str, ...] | None,
        Meta(
            description="a command that reads what a code judge reads and prints the user prompt, instead of `prompt`"
        ),
    ] = None
    prompt_config: Annotated[
        Mapping[str, JsonValue], Meta(description="any values for `prompt_script`, passed on as `config`")
    ] = field(default_factory=dict)
    prompt_contract: Annotated[Contract, Meta(description="as `contract` of a code judge, for `prompt_script`")] = (
        "agentv"
    )
    allow_unknown: Annotated[
        bool, Meta(description="leave unknown {{ names }} in `prompt` as text, instead of refusing them")
    ] = False

    vars: Annotated[
        Mapping[str, JsonValue], Meta(description="values of further {{ names }} in `prompt`; the case's are added")
    ] = {}

    def __post_init__(self) -> None:
        """Raise ValueError for settings that cannot be used."""
        JudgeCallSettings.__post_init__(self)
        if self.prompt is not None and self.prompt_script is not None:
            raise ValueError("`prompt` and `prompt_script` exclude each other")
        if self.prompt_script is not None and not self.prompt_script:
            raise ValueError("`prompt_script` must not be empty")

    def files(self, base_dir: str) -> tuple[str, ...]:
        """Return the files that must exist: that of the prompt, if it names one."""
        return prompt_files(self.prompt, base_dir)

    def code_files(self, base_dir: str) -> tuple[str, ...]:
        """Return the files that must exist and are run: that of the prompt script."""
        return () if self.prompt_script is None else script_files(self.prompt_script, Path(base_dir))

    def template_problems(self, template: str) -> tuple[str, ...]:
        """Return the problems of a custom prompt's text."""
        if self.plain_prompt == "outcome" and not variable_names(template):
            return ()
        return template_problems(template, allow_unknown=self.allow_unknown, variables=self.vars)

    def prompts(self, base_dir: str) -> tuple[WrittenPrompt, ...]:
        """Return the custom prompt, if there is one that can be read."""
        return written_prompts((), self.prompt, base_dir)

    def compares_outcome(self, base_dir: str) -> Compares:
        """Return when the expected outcome of a case is needed."""
        return compares_outcome(self.prompts(base_dir), otherwise="never")

    def wrong_settings(self, base_dir: str) -> tuple[tuple[tuple[str, ...], str], ...]:
        """Return the problems of single settings, each with the path of its setting: those of the prompt."""
        found = prompt_problems(self.prompt, base_dir, self.template_problems)
        return tuple((("prompt",), problem) for problem in found)


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
        """Raise ValueError for settings that cannot be used."""
        JudgeCallSettings.__post_init__(self)
        for path in self.source_paths:
            try:
                parse_source(path)
            except ValueError as error:
                raise ValueError(f"`sources`: {error}") from None

    @property
    def source_paths(self) -> tuple[str, ...]:
        """The paths as a tuple."""
        return (self.sources,) if isinstance(self.sources, str) else self.sources


class RecallJudgeSettings(SourcedJudgeSettings, frozen=True, kw_only=True):
    """Settings of the ready-made judge that compares sources with a reference answer."""

    reference: Annotated[
        str | None,
        Meta(description="path of the reference answer, as in `source`; default: that of the case"),
    ] = None

    def __post_init__(self) -> None:
        """Raise ValueError for settings that cannot be used."""
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
        Meta(description="requirements to check one by one: plain texts, or {id, description, weight, required}"),
    ] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for settings that cannot be used."""
        JudgeSettings.__post_init__(self)
        if self.criteria and self.rubrics:
            raise ValueError("`criteria` and `rubrics` exclude each other")
        make_items(self.rubrics)

    def compares_outcome(self, base_dir: str) -> Compares:
        """Return when the expected outcome of a case is needed: unless criteria or requirements are given."""
        listed = self.criteria or self.rubrics
        return compares_outcome(self.prompts(base_dir), otherwise="never" if listed else "alone")

    @property
    def takes_criteria(self) -> bool:
        """True if one call can score several criteria; a list of requirements is one criterion."""
        return not self.rubrics


class RubricSettings(JudgeSettings, frozen=True, kw_only=True):
    """Settings of `rubric`: those of `llm_judge`, with requirements."""

    include_trace: Annotated[bool, _INCLUDE_TRACE] = False
    rubrics: Annotated[
        tuple[RubricItem | str, ...],
        Meta(
            description=(
                "the requirements: plain texts, or {id, description, weight, required, scale, min_value}; "
                "scale: likert5 (1 to 5) or points10 (0 to 10)"
            ),
            extra={"aliases": ("items",)},
        ),
    ]

    def __post_init__(self) -> None:
        """Raise ValueError for a rubric without requirements."""
        JudgeSettings.__post_init__(self)
        make_items(self.rubrics)
        if not self.rubrics:
            raise ValueError("a rubric needs at least one item in `rubrics`")
