"""The chunks of a streamed answer, which some instrumentations record as messages of their own."""

from collections.abc import Mapping, Sequence

from agentv.telemetry.contents.parts import content_of
from agentv.types.json_value import JsonObject, JsonValue, list_of, object_of

_ENDS = ("stop", "length", "content_filter")


def whole_output(value: JsonValue) -> JsonValue:
    """Return the messages of an output, in which chunks are one message; any other value as it is.

    Of several messages that each end the answer, which are choices, the first stays: programs use it.

    A chunk has an empty `finish_reason`, as in Google's ADK. An unknown role is the assistant's: OpenLLMetry writes
    `unknown` for LangChain's chunks.
    """
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        return value
    rows = [row for each in value if not _is_lost(row := object_of(each))]
    rows = [{**row, "role": "assistant"} if row.get("role") == "unknown" else row for row in rows]
    if len(rows) > 1 and all(row.get("finish_reason") in _ENDS for row in rows):
        return [rows[0]]
    if len(rows) < 2 or rows[0].get("finish_reason") != "":  # noqa: PLR2004 - a single message is whole
        return [*rows]
    if not all(isinstance(row.get("parts", []), list) and not row.get("content") for row in rows):
        return [*rows]
    end = next((place for place, row in enumerate(rows) if row.get("finish_reason")), len(rows) - 1)
    before, last = [part for row in rows[:end] for part in _parts(row)], _parts(rows[end])
    is_repeated = content_of(_joined(before)) == content_of(_joined(last))  # some versions end with the whole text
    return [{**rows[end], "parts": _joined(last if is_repeated else [*before, *last])}, *rows[end + 1 :]]


def _is_lost(message: JsonObject) -> bool:
    """Return True for the last chunk of Gemini's streams in Python's form, which OpenLLMetry records without a text."""
    parts = _parts(message)
    text = _text(parts[0]) if len(parts) == 1 else None
    return text is not None and "function_response=None" in text and _WITHOUT_TEXT in text


_WITHOUT_TEXT = " text=''"


def _parts(message: JsonObject) -> list[JsonValue]:
    return list_of(message.get("parts"))


def _joined(parts: Sequence[JsonValue]) -> list[JsonValue]:
    """Return parts with the texts that follow each other as one text."""
    made: list[JsonValue] = []
    for part in parts:
        before = _text(made[-1]) if made else None
        text = _text(part)
        if text is not None and before is not None:
            made[-1] = {"type": "text", "content": before + text}
        else:
            made.append(part)
    return made


def _text(part: JsonValue) -> str | None:
    text = object_of(part).get("content") if object_of(part).get("type") == "text" else None
    return text if isinstance(text, str) else None
