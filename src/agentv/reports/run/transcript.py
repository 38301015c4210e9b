"""The transcript of an agent as text: its messages, its tool calls, and what the tools returned."""

from collections.abc import Iterator, Mapping, Sequence

from agentv.reports.text.amounts import count_text
from agentv.scoring.tools.tool_calls import ToolResult, calls_of, results_of
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message, ToolCall, TraceEvent
from agentv.types.messages_json import compact_json, content_text, pretty_json

_MAX_OUTPUT_LINES = 30
_MAX_OUTPUT_CHARS = 8_000
_MAX_COMPACT_CHARS = 120
_INDENT = "    "


def transcript_text(messages: Sequence[Message], trace: Sequence[TraceEvent] = (), *, is_full: bool = False) -> str:
    """Return the messages of an agent, or else its trace. Long outputs of tools are cut unless `is_full`."""
    lines = _messages(messages, is_full=is_full) if messages else (_event(each, is_full=is_full) for each in trace)
    return "\n".join(lines)


def _messages(messages: Sequence[Message], *, is_full: bool) -> Iterator[str]:
    tools: dict[str, str] = {}
    for message in messages:
        calls, results = calls_of(message), tuple(results_of(message))
        text = "" if message.role == "tool" and results else content_text(message.content)
        if text or not (calls or results):
            yield f"{message.role}: {text}".rstrip()
        for call in calls:
            if call.id is not None:
                tools[call.id] = call.tool
            yield _call(call, is_full=is_full)
        yield from (_result(result, tools, is_full=is_full) for result in results)


def tool_of(result: ToolResult, tools: dict[str, str]) -> str:
    """Return the name of the tool that gave a result; `tools` has the tools of calls by their ids."""
    return result.tool or tools.get(result.id or "", "tool")


def _call(call: ToolCall, *, is_full: bool) -> str:
    output = "" if call.output is None else f" -> {_output(call.output, is_full=is_full)}"
    return f"{call.tool}({_value(call.input)}){output}"


def _result(result: ToolResult, tools: dict[str, str], *, is_full: bool) -> str:
    failed = " failed" if result.failed else ""
    return f"{tool_of(result, tools)}{failed} -> {_output(result.output, is_full=is_full)}"


def _event(event: TraceEvent, *, is_full: bool) -> str:
    head = " ".join(part for part in (event.name, _value(event.input), event.text) if part)
    output = "" if event.output is None else f" -> {_output(event.output, is_full=is_full)}"
    return f"{event.type}: {head}{output}".rstrip()


def _output(output: JsonValue, *, is_full: bool) -> str:
    """Return the output of a tool: on the line of its call if it is short, else indented below."""
    shown = shown_output(output)
    text = (shown if isinstance(shown, str) else _json(shown)).rstrip("\n")
    if "\n" not in text:
        return text if is_full or len(text) <= _MAX_OUTPUT_CHARS else _cut(text)
    shown, more = text, ""
    if not is_full:
        shown = _cut(text) if len(text) > _MAX_OUTPUT_CHARS else text
        lines = shown.split("\n")
        if len(lines) > _MAX_OUTPUT_LINES:
            shown = "\n".join(lines[:_MAX_OUTPUT_LINES])
            more = f"\n{_INDENT}({text.count(chr(10)) + 1 - _MAX_OUTPUT_LINES:,} more lines)"
    indented = "".join(f"\n{_INDENT}{line}" for line in shown.split("\n"))
    return f"{indented}{more}"


def shown_output(output: JsonValue) -> JsonValue:
    """Return the output of a tool; of a list of text parts, as Anthropic's API has it, their text."""
    if not isinstance(output, list | tuple) or not output:
        return output
    texts = [part.get("text") for part in output if isinstance(part, Mapping) and part.get("type") == "text"]
    known = [text for text in texts if isinstance(text, str)]
    return "\n".join(known) if len(known) == len(output) else output


def _cut(text: str) -> str:
    return f"{text[:_MAX_OUTPUT_CHARS]}… ({count_text(len(text) - _MAX_OUTPUT_CHARS, 'more character')})"


def _json(value: JsonValue) -> str:
    text = compact_json(value)
    return text if len(text) <= _MAX_COMPACT_CHARS else pretty_json(value)


def _value(value: JsonValue) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else compact_json(value)
