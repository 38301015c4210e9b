"""The counts of an agent's steps, as a row stores them."""

from agentv.types.messages import Message, TraceEvent, TraceSummary


def trace_summary(messages: tuple[Message, ...] | None, trace: tuple[TraceEvent, ...] | None) -> TraceSummary | None:
    """Return the counts of an agent's steps; None if it reported neither messages nor a trace."""
    steps = trace if messages is None else messages
    if steps is None:
        return None
    from agentv.scoring.tools.traces import summarize_trace  # noqa: PLC0415 - most targets report only a text

    return summarize_trace(steps)
