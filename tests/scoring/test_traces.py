from agentv.scoring.tools.traces import summarize_trace
from agentv.types.messages import Message, ToolCall, TraceEvent, TraceSummary


def test_a_summary_counts_every_event_of_a_trace() -> None:
    trace = [
        TraceEvent(type="tool_call", name="searchDocs"),
        TraceEvent(type="tool_result"),
        TraceEvent(type="tool_call", name="searchDocs"),
        TraceEvent(type="tool_result"),
        TraceEvent(type="tool_call", name="verify"),
        TraceEvent(type="tool_result"),
    ]
    assert summarize_trace(trace) == TraceSummary(6, ("searchDocs", "verify"), {"searchDocs": 2, "verify": 1}, 0)


def test_a_summary_of_messages_counts_their_tool_calls() -> None:
    messages = [Message(role="assistant", tool_calls=(ToolCall("verify"), ToolCall("searchDocs")))]
    assert summarize_trace(messages) == TraceSummary(2, ("searchDocs", "verify"), {"verify": 1, "searchDocs": 1}, 0)


def test_errors_are_counted_and_nameless_calls_are_only_events() -> None:
    trace = [TraceEvent(type="error"), TraceEvent(type="tool_call"), TraceEvent(type="model_step")]
    assert summarize_trace(trace) == TraceSummary(3, (), {}, 1)


def test_nothing_is_counted_as_nothing() -> None:
    assert summarize_trace([]) == TraceSummary(0, (), {}, 0)
