"""Execution traces that AgentV 4 recorded, read as answers: a JSON document, a list of them, or JSON Lines."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from msgspec import Struct

from agentv.providers.agents.json import count_of, object_of, objects_of, text_of
from agentv.providers.apis.replies import last_answer
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.message_shapes.reading import read_messages
from agentv.types.messages import Message, ToolCall
from agentv.types.messages_json import content_text
from agentv.types.provider import ProviderResponse
from agentv.types.usage import Usage, total_usage


class TracedAnswer(Struct, frozen=True):
    """One recorded answer; `trial` is None if it stands for any."""

    case_id: str
    target: str | None
    suite: str | None
    trial: int | None
    response: ProviderResponse


def load_execution_traces(path: Path) -> tuple[TracedAnswer, ...]:
    """Return the answers of a file. Raises ProviderError for what is not an execution trace, with its place."""
    text = path.read_text("utf-8-sig", "replace")
    return tuple(_read(document, where) for where, document in _documents(text, path))


def find_traced(
    answers: tuple[TracedAnswer, ...], case_id: str, trial: int, *, target: str, suite: str | None, path: Path
) -> ProviderResponse:
    """Return the answer of a case in a trial. Raises ProviderError with kind `target_missing` if there is none."""
    of_case = [each for each in answers if each.case_id == case_id and suite in (None, each.suite)]
    targets = {each.target for each in of_case}
    named = [each for each in of_case if each.target == target or len(targets) == 1]
    for wanted in (trial, None):
        found = [each for each in named if each.trial == wanted]
        if found:
            return found[-1].response
    recorded = ", ".join(sorted({f"{each.target} in trial {each.trial or 0}" for each in of_case})) or "nothing"
    message = f"{path} has no answer for case {case_id!r} of target {target!r} in trial {trial}; recorded: {recorded}"
    raise ProviderError(Failure("target_missing", message))


def _documents(text: str, path: Path) -> Iterator[tuple[str, JsonObject]]:
    try:
        whole: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
        yield from ((f"{path}:{number}", _object_in(line, f"{path}:{number}")) for number, line in lines)
        return
    for document in whole if isinstance(whole, list) else [whole]:
        if not isinstance(document, Mapping):
            raise _wrong(str(path), "is not a JSON object")
        yield str(path), document


def _object_in(line: str, where: str) -> JsonObject:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _wrong(where, f"is not JSON: {error}") from None
    if not isinstance(value, Mapping):
        raise _wrong(where, "is not a JSON object")
    return value


def _wrong(where: str, what: str) -> ProviderError:
    return ProviderError(Failure("malformed_reply", f"{where}: {what}; expected an execution trace of AgentV 4"))


def _read(document: JsonObject, where: str) -> TracedAnswer:
    head = {**object_of(object_of(document.get("replay")).get("lookup_key")), **object_of(document.get("eval"))}
    case_id, trial = text_of(head.get("test_id")), head.get("attempt")
    spans = objects_of(object_of(document.get("trace")).get("spans"))
    if case_id is None or not spans:
        raise _wrong(where, "has no eval.test_id, or no trace.spans")
    messages = tuple(_messages(spans, text_of(object_of(document["trace"]).get("root_span_id"))))
    answer = last_answer(messages)
    if answer is None:
        raise _wrong(where, "has no span `chat` with the content of an answer")
    return TracedAnswer(
        case_id,
        target=text_of(head.get("source_target")) or text_of(head.get("target")),
        suite=text_of(head.get("suite")),
        trial=trial if isinstance(trial, int) else None,
        response=ProviderResponse(
            answer, output_messages=messages, usage=total_usage(map(_usage, filter(_is_chat, spans))), cost_usd=0.0
        ),
    )


def _attributes(span: JsonObject) -> JsonObject:
    return object_of(span.get("attributes"))


def _is_chat(span: JsonObject) -> bool:
    return _attributes(span).get("gen_ai.operation.name") == "chat"


def _is_tool(span: JsonObject) -> bool:
    return _attributes(span).get("gen_ai.operation.name") == "execute_tool"


def _messages(spans: Sequence[JsonObject], root: str | None) -> Iterator[Message]:
    """Yield one message for each model turn, with the tool calls of its spans; those of no turn come before them."""
    ordered = sorted(spans, key=lambda span: int(str(span.get("start_time_unix_nano") or 0)))
    calls: dict[str | None, list[ToolCall]] = {}
    for span in filter(_is_tool, ordered):
        calls.setdefault(text_of(span.get("parent_span_id")) or root, []).append(_call(span))
    turns = {text_of(span.get("span_id")) for span in ordered if _is_chat(span)}
    loose = [call for parent, made in calls.items() if parent not in turns for call in made]
    if loose:
        yield Message("assistant", tool_calls=tuple(loose))
    for span in filter(_is_chat, ordered):
        content = _attributes(span).get("gen_ai.output.messages")
        made = tuple(calls.get(text_of(span.get("span_id")), ()))
        yield Message("assistant", _text(content), tool_calls=made)


def _text(content: JsonValue) -> str | None:
    """Return the text of a turn, which is written as text, as parts, or as messages with parts."""
    if content is None or isinstance(content, str):
        return content
    items = objects_of(content)
    if items and all("role" in item for item in items):
        said = read_messages(cast(JsonValue, items), "gen_ai.output.messages")
        return "\n".join(text for message in said if (text := content_text(message.content))) or None
    return "\n".join(str(item.get("text", item.get("content", ""))) for item in items) or None


def _call(span: JsonObject) -> ToolCall:
    attributes = _attributes(span)
    return ToolCall(
        tool=text_of(attributes.get("gen_ai.tool.name")) or text_of(span.get("name")) or "",
        input=_json(attributes.get("gen_ai.tool.call.arguments")),
        output=_json(attributes.get("gen_ai.tool.call.result")),
        id=text_of(attributes.get("gen_ai.tool.call.id")),
        duration_ms=_duration_ms(span),
    )


def _duration_ms(span: JsonObject) -> float | None:
    """Return how long a span took, in milliseconds; None if its times are not known."""
    try:
        began, ended = (int(str(span.get(f"{name}_time_unix_nano"))) for name in ("start", "end"))
    except ValueError:
        return None
    return (ended - began) / 1e6 if ended >= began else None


def _json(value: JsonValue) -> JsonValue:
    """Return JSON that an attribute has as text; any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return cast(JsonValue, json.loads(value))
    except (ValueError, RecursionError):
        return value


def _usage(span: JsonObject) -> Usage | None:
    attributes = _attributes(span)
    sent, received = (attributes.get(f"gen_ai.usage.{name}_tokens") for name in ("input", "output"))
    if sent is None and received is None:
        return None
    return Usage(input=count_of(sent), output=count_of(received), total=count_of(sent) + count_of(received))
