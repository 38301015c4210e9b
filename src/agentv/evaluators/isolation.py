"""Isolated execution of one evaluator: every outcome becomes a score, and a deadline bounds the wait."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeGuard

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.evaluators.watched_files import WatchedFiles
from agentv.execution.user_code import DeadlineError, call_user_code, described
from agentv.scoring.results.completion import failed_score, score_of_failure, to_score
from agentv.scoring.results.conversations import contexts_by_turn, last_turns
from agentv.types.cases import EvaluatorConfig, EvaluatorLike
from agentv.types.errors import AgentvError, EvaluatorError
from agentv.types.evaluation import MISSING_WORKSPACE, EvaluationContext, EvaluationScore, Evaluator
from agentv.types.provider import ProviderError
from agentv.types.structs import deep_copy


def own_context(context: EvaluationContext, config: EvaluatorConfig) -> EvaluationContext:
    """Return a context for one evaluator: with its config, and with copies of messages, metadata and other JSON values.

    Other values, such as the case's turns and the settings of evaluators, are not copied.
    """
    case = context.eval_case
    return replace(
        context,
        evaluator=config,
        eval_case=replace(
            case,
            input_messages=deep_copy(case.input_messages),
            expected_messages=deep_copy(case.expected_messages),
            metadata=deep_copy(case.metadata),
            workspace=deep_copy(case.workspace),
        ),
        output_messages=deep_copy(context.output_messages),
        trace=deep_copy(context.trace),
        candidate_trace=deep_copy(context.candidate_trace),
        ground_truth=deep_copy(context.ground_truth),
        context=deep_copy(context.context),
        message_history=deep_copy(context.message_history),
        agent_config=deep_copy(context.agent_config),
        metadata=deep_copy(context.metadata),
    )


def config_of(evaluator: EvaluatorLike) -> EvaluatorConfig:
    """Return an evaluator's config; an evaluator object may have the attributes `name` and `weight`."""
    if isinstance(evaluator, EvaluatorConfig):
        return evaluator
    kind = str(getattr(evaluator, "kind", type(evaluator).__name__))
    name, weight = getattr(evaluator, "name", None), getattr(evaluator, "weight", None)
    return EvaluatorConfig(
        name=name if isinstance(name, str) else kind,
        type=kind,
        weight=float(weight) if isinstance(weight, int | float) else 1.0,
    )


def is_evaluator(given: object) -> TypeGuard[Evaluator]:
    """Return True for an object with `kind` and `evaluate`; quicker than `isinstance` with the protocol."""
    return hasattr(given, "kind") and callable(getattr(given, "evaluate", None))


class PreparedEvaluator(Struct):
    """An evaluator to call: its config, the function that makes it, and its deadline in seconds.

    `live` is the evaluator that `make` returned, if it is `reusable` for further answers. `is_skipped` is True if it
    would cost money and the run uses free evaluators only. `files` are those that its settings name, and `watched`
    knows how they were when the run began.
    """

    config: EvaluatorConfig
    make: Callable[[], object]
    timeout_s: float | None = None
    live: Evaluator | None = None
    is_skipped: bool = False
    files: tuple[str, ...] = ()
    watched: WatchedFiles = field(default_factory=WatchedFiles)


def make_evaluator(prepared: PreparedEvaluator) -> Evaluator:
    """Make an evaluator, and store it in `prepared.live` if it is reusable. Raises EvaluatorError."""
    evaluator = prepared.make()
    if not is_evaluator(evaluator):
        raise EvaluatorError(f"{type(evaluator).__name__} is not an evaluator: it needs `kind` and `evaluate(context)`")
    if getattr(evaluator, "reusable", False):
        prepared.live = evaluator
    return evaluator


async def isolated_score(prepared: PreparedEvaluator, context: EvaluationContext) -> EvaluationScore:
    """Make an evaluator, call it, and return its output as a valid score. Raises nothing but cancellation.

    The score is an error if a file of the evaluator was changed since the run began, or while the evaluator judged.
    """
    if not prepared.files:
        return await _score(prepared, context)
    stamps = prepared.watched.stamps(prepared.files)
    if changed := prepared.watched.changed(prepared.files):
        return _score_with_changed(changed)
    score = await _score(prepared, context)
    stamps_now = prepared.watched.stamps(prepared.files)
    changed = tuple(path for path, *both in zip(prepared.files, stamps, stamps_now, strict=True) if both[0] != both[1])
    return _score_with_changed(changed) if changed else score


def _score_with_changed(paths: Sequence[str]) -> EvaluationScore:
    """Return the score of an evaluator whose files were changed, perhaps by the agent that it judges."""
    names = ", ".join(Path(path).name for path in paths)
    return failed_score(f"changed while the run was in progress: {names}")


async def _score(prepared: PreparedEvaluator, context: EvaluationContext) -> EvaluationScore:
    """Make an evaluator, call it, and return its output as a valid score. Raises nothing but cancellation.

    An evaluator may set these attributes: `inline` evaluators are called in the event loop, not in a thread;
    `reusable` evaluators score many answers, and get `context` itself, not a copy with their config; with
    `timeout_per_member` (a composite), the deadline applies to each member instead of to the composite; with
    `reads_workspace = False`, answers are scored although their workspace is gone. With `per_turn` in the config, each
    turn of the conversation is scored within a deadline of its own.
    """
    config, timeout_s = prepared.config, prepared.timeout_s
    try:
        evaluator = make_evaluator(prepared) if prepared.live is None else prepared.live
        if context.is_workspace_missing and getattr(evaluator, "reads_workspace", True):
            return failed_score(MISSING_WORKSPACE)
        if config.per_turn:
            return await _score_by_turn(evaluator, context, config, timeout_s)
        narrowed = context if config.window is None else last_turns(context, config.window)
        return await _judge(evaluator, narrowed, config, timeout_s)
    except Exception as error:  # noqa: BLE001 - plug-in code: its fault becomes its result and never ends the run
        return _score_of(error, timeout_s)


async def _score_by_turn(
    evaluator: Evaluator, context: EvaluationContext, config: EvaluatorConfig, timeout_s: float | None
) -> EvaluationScore:
    from agentv.scoring.results.aggregators import TurnScore, fold_turns  # noqa: PLC0415 - few evaluators do this

    turns = contexts_by_turn(context, config.window)
    scores: list[TurnScore] = []
    for number, turn in turns[-1:] if config.aggregate == "last" else turns:
        try:
            score = await _judge(evaluator, turn, config, timeout_s)
        except Exception as error:  # noqa: BLE001 - as in `isolated_score`; the other turns are still scored
            score = _score_of(error, timeout_s)
        scores.append(TurnScore(number, score))
    return fold_turns(scores, config.aggregate, criteria=context.criteria)


async def _judge(
    evaluator: Evaluator, context: EvaluationContext, config: EvaluatorConfig, timeout_s: float | None
) -> EvaluationScore:
    """Call an evaluator once and return its output as a valid score."""
    if not getattr(evaluator, "reusable", False):
        context = own_context(context, config)
    limit_s = None if getattr(evaluator, "timeout_per_member", False) else timeout_s
    inline = getattr(evaluator, "inline", False)
    output = await call_user_code(evaluator.evaluate, context, timeout_s=limit_s, inline=inline)
    name = config.criterion or config.name
    return to_score(output, name=name, kind=config.type, criteria=context.criteria, negate=config.negate)


def _score_of(error: Exception, timeout_s: float | None) -> EvaluationScore:
    """Return the score of an evaluator that failed with `error`."""
    match error:
        case EvaluatorError():
            return score_of_failure(error.failure)
        case ProviderError():
            return failed_score(f"judge: {error.failure.message}", kind="judge_error")
        case DeadlineError():
            return failed_score(f"no judgement within {timeout_s:g} s", kind="deadline")
        case AgentvError():
            return failed_score(str(error), kind="config_error")
        case _:
            return failed_score(f"{described(error)}")
