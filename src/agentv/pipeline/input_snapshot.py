"""A deep copy of an input: what is kept of it beside its judgement."""

from agentv.types.errors import ConfigError
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.own_copies import own_copy


def snapshot_of(given: EvaluationInput) -> EvaluationInput:
    """Return an input that stays as it is, whatever becomes of the objects in `given`.

    Raises ConfigError when it is nested too deeply, or holds itself.
    """
    try:
        return _snapshot(given)
    except RecursionError:
        raise ConfigError("the input is nested too deeply to be judged, or holds itself") from None


def _snapshot(given: EvaluationInput) -> EvaluationInput:
    # Written out: `replace` takes longer than all the copying.
    return EvaluationInput(
        response=own_copy(given.response),
        criteria=given.criteria,
        prompt=given.prompt,
        context=own_copy(given.context),
        ground_truth=own_copy(given.ground_truth),
        agent_config=own_copy(given.agent_config),
        message_history=own_copy(given.message_history),
        timestamp=given.timestamp,
        session_id=given.session_id,
        agent_id=given.agent_id,
        metadata=own_copy(given.metadata),
    )
