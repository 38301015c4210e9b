"""A context of an evaluator's own, so that none can change what the next one sees, or what is kept."""

from msgspec.structs import replace

from agentv.types.cases import EvaluatorConfig
from agentv.types.evaluation import EvaluationContext
from agentv.types.own_copies import own_copy


def own_context(context: EvaluationContext, config: EvaluatorConfig) -> EvaluationContext:
    """Return a context in which everything that could be changed is a copy, with the config of who will see it."""
    case = context.eval_case
    return replace(
        context,
        evaluator=config,
        eval_case=replace(
            case,
            input_messages=own_copy(case.input_messages),
            expected_messages=own_copy(case.expected_messages),
            metadata=own_copy(case.metadata),
            workspace=own_copy(case.workspace),
        ),
        output_messages=own_copy(context.output_messages),
        trace=own_copy(context.trace),
        candidate_trace=own_copy(context.candidate_trace),
        ground_truth=own_copy(context.ground_truth),
        context=own_copy(context.context),
        message_history=own_copy(context.message_history),
        agent_config=own_copy(context.agent_config),
        metadata=own_copy(context.metadata),
    )
