"""`composite`: combine the scores of several evaluators, which may be composites too, into one."""

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeAlias, cast, get_args

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from agentv.evaluators.isolation import PreparedEvaluator, config_of, isolated_score
from agentv.evaluators.judges.code_judge import run_script, working_folder
from agentv.evaluators.judges.contracts import CONTRACT_HELP, Contract, allows_assertions, read_answer
from agentv.evaluators.judges.llm_judge import LlmJudgeEvaluator
from agentv.evaluators.judges.prompts import (
    CustomPrompt,
    OutcomeNeed,
    compares_outcome,
    custom_prompts,
    prompt_files,
    prompt_problems,
)
from agentv.evaluators.named_files import real_path, script_files
from agentv.evaluators.registry import adapted
from agentv.scoring.judge_replies.replies import parse_code_reply
from agentv.scoring.results.aggregation import evaluators_score, reaches, to_result
from agentv.scoring.results.aggregators import (
    arithmetic_score,
    composed,
    highest_score,
    lowest_score,
    not_skipped,
    passing_count,
    results_to_json,
    weigh,
)
from agentv.scoring.results.completion import score_of_failure
from agentv.templating.variables import ANSWER_NAMES, template_problems
from agentv.types.cases import EvaluatorConfig, EvaluatorLike
from agentv.types.errors import ConfigError, EvaluatorError, UnknownNameError
from agentv.types.evaluation import EvaluationContext, EvaluationScore, EvaluatorResult
from agentv.types.json_value import JsonValue
from agentv.types.protocols import EvaluatorTools
from agentv.types.provider import Provider
from agentv.types.structs import make_options, struct_fields


class ScoreMembers(Protocol):
    """A function that scores one context with several evaluators, such as `EvaluatorTools.score`."""

    async def __call__(
        self, context: EvaluationContext, evaluators: tuple[EvaluatorLike, ...]
    ) -> tuple[EvaluatorResult, ...]:
        """Return one result per evaluator, in order."""


def member_name(member: EvaluatorLike) -> str:
    """Return a member's name, else its type. A member is a mapping while its file is being read."""
    if isinstance(member, Mapping):
        return str(member.get("name", member.get("type")))
    return config_of(member).name


async def score_objects(context: EvaluationContext, evaluators: Sequence[EvaluatorLike]) -> tuple[EvaluatorResult, ...]:
    """Return one result per evaluator object. The result of an EvaluatorConfig is an error: only a run can use it."""
    return tuple([await _score_one(context, evaluator) for evaluator in evaluators])


async def _score_one(context: EvaluationContext, evaluator: EvaluatorLike) -> EvaluatorResult:
    config = config_of(evaluator)

    def make() -> object:
        if isinstance(evaluator, EvaluatorConfig):
            raise EvaluatorError(
                f"{config.name!r} is an EvaluatorConfig, which only a run can use; give an evaluator object"
            )
        return evaluator

    score = await isolated_score(PreparedEvaluator(config, make), context)
    return to_result(score, config)


class WeightedAverage(Struct, frozen=True):
    """The weighted mean of the members' scores. Members that `weights` does not name have their own weight."""

    type: Literal["weighted_average"] = "weighted_average"
    weights: Annotated[
        Mapping[str, float], Meta(description="{member: weight}; a member that is not named has its own weight")
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError for weights that are negative or not finite."""
        if not all(math.isfinite(weight) and weight >= 0 for weight in self.weights.values()):
            raise ValueError("`weights` must be finite numbers of at least 0")


class Minimum(Struct, frozen=True):
    """The lowest score of the members."""

    type: Literal["min"] = "min"


class Maximum(Struct, frozen=True):
    """The highest score of the members."""

    type: Literal["max"] = "max"


class AllPass(Struct, frozen=True):
    """1.0 when every member that was not skipped passes, else 0.0."""

    type: Literal["all"] = "all"


class Threshold(Struct, frozen=True):
    """1.0 when enough members pass, else 0.0."""

    at_least: Annotated[int, Meta(description="how many members must pass")]
    type: Literal["threshold"] = "threshold"

    def __post_init__(self) -> None:
        """Raise ValueError if `at_least` is below 1, because every answer would reach it."""
        if self.at_least < 1:
            raise ValueError("`at_least` must be at least 1")


class PassShare(Struct, frozen=True):
    """The share of the unskipped members that pass; the verdict is `pass` from `threshold` on, else `fail`."""

    threshold: Annotated[float, Meta(description="the share of the members that must pass, 0..1")]
    type: Literal["pass_share"] = "pass_share"

    def __post_init__(self) -> None:
        """Raise ValueError for a threshold outside 0..1."""
        if not 0 <= self.threshold <= 1:
            raise ValueError("`threshold` must be a number from 0 to 1")


class CodeAggregator(Struct, frozen=True):
    """A script that reads `{"results": {name: result}}` and prints the same JSON as a code judge."""

    type: Literal["code_judge"] = "code_judge"
    script: Annotated[
        str | tuple[str, ...] | None, Meta(description="a command for the shell, or a list of arguments")
    ] = None
    path: Annotated[str | None, Meta(description="the path of a script, instead of `script`")] = None
    cwd: Annotated[str | None, Meta(description="the working directory; default: the eval file's folder")] = None
    timeout_seconds: Annotated[float | None, Meta(description="time limit in seconds")] = None
    contract: Annotated[Contract, Meta(description=CONTRACT_HELP)] = "agentv"

    def __post_init__(self) -> None:
        """Raise ValueError for a wrong time limit, and unless exactly one of `script` and `path` is given."""
        if bool(self.script) == bool(self.path):
            raise ValueError("the aggregator code_judge needs either `script` or `path`")
        if self.timeout_seconds is not None and not self.timeout_seconds > 0:
            raise ValueError("`timeout_seconds` must be more than 0")

    def code_files(self, base_dir: str) -> tuple[str, ...]:
        """Return the script at `path`, or the scripts that the command `script` names."""
        if self.path:
            return (real_path(Path(base_dir, self.path)),)
        return script_files(self.script or (), working_folder(self.cwd, base_dir))


class JudgeAggregator(Struct, frozen=True):
    """A model that reads the members' results and gives the score."""

    type: Literal["llm_judge"] = "llm_judge"
    prompt: Annotated[
        str | None, Meta(description="the user prompt, or the path of its file, with {{ evaluator_results }}")
    ] = None
    judge: Annotated[
        str | None,
        Meta(
            description="the target that judges; default: the `judge` of the tested target",
            extra={"aliases": ("target",)},
        ),
    ] = None
    model: Annotated[str | None, Meta(description="a different model of the judge's provider")] = None
    temperature: Annotated[
        float | None, Meta(description="the sampling temperature; 0 gives the most repeatable scores")
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
        """Return the problems of a custom prompt's text; it must show the answer or the members' results."""
        needed = (*ANSWER_NAMES, "evaluator_results")
        return template_problems(template, needed=needed, allow_unknown=self.allow_unknown, variables=self.vars)


Aggregator: TypeAlias = (
    WeightedAverage | Minimum | Maximum | AllPass | Threshold | PassShare | CodeAggregator | JudgeAggregator
)


class CompositeSettings(Struct, frozen=True, kw_only=True):
    """Settings of `composite`."""

    evaluators: Annotated[
        tuple[EvaluatorLike, ...],
        Meta(description="the members: evaluators of any type, composites too", extra={"evaluators": True}),
    ]
    aggregator: Annotated[Aggregator, Meta(description="how the members' scores are combined: {type: …}")] = field(
        default_factory=WeightedAverage
    )

    def __post_init__(self) -> None:
        """Raise ValueError if there are no members, or if the aggregator does not fit them."""
        check_members(self.evaluators, self.aggregator)

    @property
    def judge_targets(self) -> tuple[str, ...]:
        """The target that the aggregator names as judge, if any; judges of the members are not included."""
        target = self.aggregator.judge if isinstance(self.aggregator, JudgeAggregator) else None
        return () if target is None else (target,)

    @property
    def needs_judge(self) -> bool:
        """True if the aggregator uses the judge of the target under test."""
        return isinstance(self.aggregator, JudgeAggregator) and self.aggregator.judge is None

    def files(self, base_dir: str) -> tuple[str, ...]:
        """Return the files that the aggregator reads; those of the members are not included."""
        return self.aggregator.files(base_dir) if isinstance(self.aggregator, JudgeAggregator) else ()

    def prompts(self, base_dir: str) -> tuple[CustomPrompt, ...]:
        """Return the aggregator's custom prompt as a tuple; () if there is none or its file cannot be read."""
        if not isinstance(self.aggregator, JudgeAggregator):
            return ()
        return custom_prompts(("aggregator",), self.aggregator.prompt, base_dir)

    def compares_outcome(self, base_dir: str) -> OutcomeNeed:
        """Return which cases need an expected outcome for the aggregator's prompt, regardless of the members."""
        return compares_outcome(self.prompts(base_dir), otherwise="never")

    def code_files(self, base_dir: str) -> tuple[str, ...]:
        """Return the files that the aggregator runs."""
        return self.aggregator.code_files(base_dir) if isinstance(self.aggregator, CodeAggregator) else ()

    def wrong_settings(self, base_dir: str) -> tuple[tuple[tuple[str, ...], str], ...]:
        """Return the problems of the aggregator's prompt, each as (path of the setting, problem)."""
        if not isinstance(self.aggregator, JudgeAggregator):
            return ()
        found = prompt_problems(self.aggregator.prompt, base_dir, self.aggregator.template_problems)
        return tuple((("aggregator", "prompt"), problem) for problem in found)


def check_members(members: Sequence[EvaluatorLike], aggregator: Aggregator) -> None:
    """Raise ValueError if there are no members, or if the aggregator names or requires members that do not exist."""
    if not members:
        raise ValueError("`evaluators` must list at least one member")
    names = [member_name(member) for member in members]
    if isinstance(aggregator, WeightedAverage):
        unknown = [name for name in aggregator.weights if name not in names]
        if unknown:
            raise ValueError(f"`weights` names {unknown[0]!r}, which is not a member; members: {', '.join(names)}")
    if isinstance(aggregator, Threshold) and aggregator.at_least > len(members):
        raise ValueError(f"`at_least` {aggregator.at_least} cannot be reached by {len(members)} members")


def aggregator_of(given: Aggregator | Mapping[str, Any] | str | None) -> Aggregator:
    """Return an aggregator, given its type name, or a dict with its `type` and settings as in an eval file.

    An Aggregator is returned unchanged; None means the weighted average. Raises UnknownNameError for an unknown type,
    ConfigError for wrong settings or any other value.
    """
    if given is None:
        return WeightedAverage()
    if isinstance(given, str):
        given = {"type": given}
    if isinstance(given, get_args(Aggregator)):
        return cast(Aggregator, given)
    if not isinstance(given, Mapping):
        raise ConfigError(f"an aggregator must be a type name, a dict or an object, not a {type(given).__name__}")
    classes = {_type_name(each): each for each in get_args(Aggregator)}
    if "type" not in given:
        keys = ", ".join(map(repr, given)) or "none"
        raise ConfigError(f"an aggregator needs a `type`, one of {', '.join(sorted(classes))}; its keys: {keys}")
    name = given["type"]
    if not isinstance(name, str):
        raise ConfigError(f"the type of an aggregator must be a string, not {name!r}")
    if name not in classes:
        raise UnknownNameError("aggregator", name, known=classes)
    settings = {key: value for key, value in given.items() if key != "type"}
    try:
        return cast(Aggregator, make_options(classes[name], settings, {}))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"aggregator {name!r}: {error}") from error


def _type_name(aggregator_class: type[Aggregator]) -> str:
    return next(str(each.default) for each in struct_fields(aggregator_class) if each.name == "type")


class CompositeEvaluator:
    """An evaluator that combines the scores of several others, its members. All judge the same answer.

    `evaluators` are evaluator objects; EvaluatorConfigs are allowed if `score` is `EvaluatorTools.score`. `judge` is
    the model of a JudgeAggregator; default: the context's own judge. The aggregator may be given by its type (`"min"`),
    or as a dict with the same keys as in an eval file. Relative paths start from `base_dir`. Raises ValueError without
    members, or for an aggregator that is invalid or does not fit them.

    >>> from agentv.evaluators.tools.tool_trajectory import ToolTrajectoryEvaluator
    >>> CompositeEvaluator([ToolTrajectoryEvaluator(forbidden=("delete",))], Minimum()).kind
    'composite'
    """

    kind = "composite"
    reads_workspace = False
    timeout_per_member = True

    def __init__(
        self,
        evaluators: Sequence[EvaluatorLike],
        aggregator: Aggregator | Mapping[str, Any] | str | None = None,
        *,
        score: ScoreMembers = score_objects,
        judge: Provider | None = None,
        base_dir: str = ".",
    ) -> None:
        self.evaluators = tuple(evaluators)
        self.aggregator = aggregator_of(aggregator)
        check_members(self.evaluators, self.aggregator)
        self._score = score
        self._base_dir = base_dir
        self._judge = _judge_of(self.aggregator, judge, base_dir)

    async def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Score an answer with every member, also after one of them failed, and aggregate the scores.

        A failed member counts as 0.0. The composite's own score is an error if its aggregator fails, or a member that
        has weight or is required.
        """
        results = await self._score(context, self.evaluators)
        if isinstance(self.aggregator, WeightedAverage):
            results = weigh(results, self.aggregator.weights)
        try:
            return composed(await self._aggregate(context, results), results)
        except EvaluatorError as error:
            return composed(score_of_failure(error.failure), results)

    async def _aggregate(self, context: EvaluationContext, results: tuple[EvaluatorResult, ...]) -> EvaluationScore:
        match self.aggregator:
            case WeightedAverage():
                return arithmetic_score(evaluators_score(results), results, method="weighted average of")
            case Minimum():
                return arithmetic_score(lowest_score(results), results, method="lowest of")
            case Maximum():
                return arithmetic_score(highest_score(results), results, method="highest of")
            case AllPass():
                counted = len(not_skipped(results))
                passed = counted > 0 and passing_count(results) == counted
                return arithmetic_score(float(passed), results, method="all must pass:")
            case Threshold(at_least=least):
                passed = passing_count(results) >= least
                return arithmetic_score(float(passed), results, method=f"{least} must pass:")
            case PassShare(threshold=least):
                share = passing_count(results) / (len(not_skipped(results)) or 1)
                score = arithmetic_score(share, results, method=f"share that passes, at least {least:g}:")
                return replace(score, verdict="pass" if reaches(share, least) else "fail")
            case CodeAggregator():
                return await self._run_script(self.aggregator, context, results)
            case JudgeAggregator():
                return await self._judge.judge(context, evaluator_results=results_to_json(results))

    async def _run_script(
        self, aggregator: CodeAggregator, context: EvaluationContext, results: tuple[EvaluatorResult, ...]
    ) -> EvaluationScore:
        answer = await run_script(
            aggregator.script or _command_of(self._base_dir, aggregator.path or ""),
            {"results": results_to_json(results, with_assertions=allows_assertions(aggregator.contract))},
            cwd=str(working_folder(aggregator.cwd, self._base_dir)),
            timeout_s=aggregator.timeout_seconds,
        )
        if allows_assertions(aggregator.contract):
            return read_answer(answer)
        return parse_code_reply(answer, context.criteria)


def _command_of(base_dir: str, path: str) -> tuple[str, ...]:
    """Return the command that runs the script at `path`: a Python script with this interpreter."""
    file = real_path(Path(base_dir, path))
    return (sys.executable, file) if file.endswith(".py") else (file,)


def _judge_of(aggregator: Aggregator, judge: Provider | None, base_dir: str) -> LlmJudgeEvaluator:
    """Return the judge of a JudgeAggregator; for any other aggregator, a judge that is never called."""
    given = aggregator if isinstance(aggregator, JudgeAggregator) else JudgeAggregator()
    return LlmJudgeEvaluator(
        prompt=given.prompt,
        model=given.model,
        temperature=given.temperature,
        judges=() if judge is None else (judge,),
        allow_unknown=given.allow_unknown,
        vars=given.vars,
        is_aggregator=True,
        base_dir=base_dir,
    )


def make_composite(config: EvaluatorConfig, settings: CompositeSettings, tools: EvaluatorTools) -> CompositeEvaluator:
    """Return a `composite` evaluator whose members the run scores, each isolated like any other evaluator.

    Raises ConfigError for a member that is neither an EvaluatorConfig nor an evaluator object.
    """
    members = tuple(cast(EvaluatorLike, adapted(member)) for member in settings.evaluators)
    if not all(isinstance(member, EvaluatorConfig) or hasattr(member, "kind") for member in members):
        raise ConfigError(f"the members of {config.name!r} must be EvaluatorConfigs or evaluator objects")
    target = next(iter(settings.judge_targets), None)
    return CompositeEvaluator(
        members,
        settings.aggregator,
        score=tools.score,
        judge=None if target is None else tools.judge(target),
        base_dir=config.base_dir,
    )
