"""`tool_trajectory`: deterministic requirements on an agent's tool calls."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, Unpack

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr, replace

from agentv.scoring.tools.tool_calls import ExpectedCall
from agentv.scoring.tools.traces import call_counts, observed_calls
from agentv.scoring.tools.trajectory import (
    NO_TRACE,
    Mode,
    Scoring,
    Trajectory,
    TrajectoryScore,
    score_counts,
    score_trajectory,
)
from agentv.types.cases import WITHOUT_MESSAGES_HELP, EvaluatorConfig, WithoutMessages
from agentv.types.errors import ConfigError, EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationScore
from agentv.types.protocols import EvaluatorTools
from agentv.types.structs import blank, make_options

UnknownDuration: TypeAlias = Literal["error", "skip"]


class ToolTrajectorySettings(Struct, frozen=True, kw_only=True):
    """Settings of `tool_trajectory`; also the options of ToolTrajectoryEvaluator."""

    mode: Annotated[
        Mode | None,
        Meta(
            description="in_order, exact, unordered, subset, superset, or any_order (which only counts calls); "
            "default: in_order if `expected` is given, else any_order"
        ),
    ] = None
    minimums: Annotated[Mapping[str, int], Meta(description="{tool: minimum number of calls}")] = field(
        default_factory=dict
    )
    maximums: Annotated[Mapping[str, int], Meta(description="{tool: maximum number of calls}")] = field(
        default_factory=dict
    )
    forbidden: Annotated[tuple[str, ...], Meta(description="tools that must not be called")] = ()
    expected: Annotated[tuple[ExpectedCall, ...], Meta(description="the calls to compare with: [{tool, args}]")] = ()
    score: Annotated[
        Scoring,
        Meta(
            description=(
                "the score of the comparison with `expected`: strict (1 if the calls fit, else 0), partial (the "
                "number of calls in common, divided by the length of the longer list) or matched (the share of the "
                "expected calls that were made; in mode subset, the share of the calls made that were expected)"
            )
        ),
    ] = "strict"
    without_messages: Annotated[WithoutMessages, Meta(description=WITHOUT_MESSAGES_HELP)] = "unknown"
    unknown_duration: Annotated[
        UnknownDuration,
        Meta(
            description="if the duration of a call with `max_duration_ms` is not recorded: `error`, or `skip` the limit"
        ),
    ] = "error"

    def __post_init__(self) -> None:
        """Set the default mode. Raise ValueError for negative limits, or settings that do not fit the mode."""
        if self.mode is None:
            force_setattr(self, "mode", "in_order" if self.expected else "any_order")
        limits = [*self.minimums.values(), *self.maximums.values()]
        if any(limit < 0 for limit in limits):
            raise ValueError("`minimums` and `maximums` must be whole numbers of at least 0")
        if self.mode == "any_order" and self.expected:
            raise ValueError(
                "`expected` needs a mode that compares calls: in_order, exact, unordered, subset or superset; "
                "any_order uses `minimums`, `maximums` and `forbidden`"
            )
        if self.mode == "any_order" and not (limits or self.forbidden):
            raise ValueError("mode any_order needs `minimums`, `maximums` or `forbidden`; other modes use `expected`")
        if self.mode == "any_order" and self.score != "strict":
            raise ValueError(
                f"`score: {self.score}` needs a mode that compares calls; the score in any_order is the share of the "
                "limits that are met"
            )


class ToolTrajectoryKeywords(TypedDict, total=False):
    """The keywords of ToolTrajectoryEvaluator: the fields of ToolTrajectorySettings."""

    mode: Mode | None
    minimums: Mapping[str, int]
    maximums: Mapping[str, int]
    forbidden: Sequence[str]
    expected: Sequence[ExpectedCall | Mapping[str, Any]]
    score: Scoring
    without_messages: WithoutMessages
    unknown_duration: UnknownDuration


class ToolTrajectoryEvaluator:
    """An evaluator that compares an agent's tool calls with the expected ones.

    Takes a settings object or a dict, its fields as keyword arguments, or both; expected calls may be dicts, as in a
    file. Raises ValueError for invalid settings. The agent's calls are read from the output messages, or from the trace
    if there are no messages. Mode `any_order` can also use a trace summary, which only counts calls.

    >>> ToolTrajectoryEvaluator(mode="any_order", minimums={"search": 1}).kind
    'tool_trajectory'
    """

    kind = "tool_trajectory"
    reads_workspace = False
    reusable = True

    def __init__(
        self,
        settings: ToolTrajectorySettings | Mapping[str, Any] | None = None,
        /,
        **keywords: Unpack[ToolTrajectoryKeywords],
    ) -> None:
        given = make_options(ToolTrajectorySettings, settings, keywords)
        self._wanted = Trajectory(
            mode=given.mode or "any_order",  # never None: ToolTrajectorySettings sets the default
            expected=tuple(_expected_call(call, index) for index, call in enumerate(given.expected)),
            minimums=given.minimums,
            maximums=given.maximums,
            forbidden=tuple(given.forbidden),
            scoring=given.score,
        )
        self._without_messages = given.without_messages
        self._unknown_duration = given.unknown_duration

    def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Score the tool calls of an answer.

        If the calls are not recorded in a form that the mode can use, the score is 0.0 with the reason in `misses`. If
        they are not recorded at all, `without_messages: no_calls` scores the answer as one without calls. Raises
        EvaluatorError for a limit on a duration that is not recorded, unless `unknown_duration` is `skip`.
        """
        compared = self._compare(context)
        unchecked = _unchecked_limits(compared.unknown) if compared.unknown else None
        if unchecked is not None and self._unknown_duration == "error":
            raise EvaluatorError(f"{unchecked}; `unknown_duration: skip` ignores such limits")
        return replace(
            _BLANK,
            reasoning=unchecked,
            score=compared.score,
            hits=compared.hits,
            misses=compared.misses,
            expected_aspect_count=max(1, len(compared.hits) + len(compared.misses)),
        )

    def _compare(self, context: EvaluationContext) -> TrajectoryScore:
        calls = observed_calls(context)
        if calls is not None:
            return score_trajectory(self._wanted, calls)
        counts = call_counts(context)
        if counts is not None and self._wanted.mode == "any_order":
            return score_counts(self._wanted, counts)
        if counts is None and self._without_messages == "no_calls":
            return score_trajectory(self._wanted, ())
        return TrajectoryScore(0.0, misses=(NO_TRACE,))


_BLANK = blank(EvaluationScore)


def _unchecked_limits(tools: Sequence[str]) -> str:
    names = ", ".join(dict.fromkeys(tools))
    return f"the duration of {names} is not recorded, so `max_duration_ms` was not checked"


def _expected_call(given: ExpectedCall | Mapping[str, Any], index: int) -> ExpectedCall:
    """Return `given` as an ExpectedCall. `index` is its position in `expected`.

    A dict has the same keys as in an eval file. Raises ConfigError for any other type, or for wrong or missing keys;
    ValueError for a value that cannot be used.
    """
    if not isinstance(given, ExpectedCall | Mapping):
        raise ConfigError(f"expected[{index}] must be an ExpectedCall or a dict of its fields, not {given!r}")
    try:
        return make_options(ExpectedCall, given, {})
    except TypeError as error:
        raise ConfigError(f"expected[{index}]: {error}") from error


def make_tool_trajectory(
    _config: EvaluatorConfig, settings: ToolTrajectorySettings, _tools: EvaluatorTools
) -> ToolTrajectoryEvaluator:
    """Return a `tool_trajectory` evaluator."""
    return ToolTrajectoryEvaluator(settings)
