"""Read values of third-party events, in which any field may be missing or of another type. Pure."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime

from agentv.types.json_value import JsonObject, JsonValue


def parse_object(text: str) -> JsonObject | None:
    """Parse a JSON object; return None for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def object_of(value: JsonValue) -> JsonObject:
    """Return a value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def objects_of(value: JsonValue) -> tuple[JsonObject, ...]:
    """Return the objects in a list; nothing if the value is not a list."""
    return tuple(item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else ()


def text_of(value: JsonValue) -> str | None:
    """Return a value if it is a non-empty string, else None."""
    return value if isinstance(value, str) and value else None


def count_of(value: JsonValue) -> int:
    """Return a value if it is a positive integer, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def amount_of(value: JsonValue) -> float | None:
    """Return a value if it is a finite, non-negative number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) and value >= 0 else None
    except OverflowError:
        return None


def status_of(value: JsonValue) -> int | None:
    """Return a value if it is an HTTP error status, else None."""
    return value if isinstance(value, int) and 400 <= value < 600 else None  # noqa: PLR2004 - HTTP's range of errors


def parts_text(content: JsonValue) -> JsonValue:
    """Return content that consists of text parts as one text, and any other unchanged."""
    parts = objects_of(content)
    if isinstance(content, list) and len(parts) == len(content) and all(part.get("type") == "text" for part in parts):
        return "\n".join(str(part.get("text", "")) for part in parts)
    return content


def time_of_ms(value: JsonValue) -> str | None:
    """Return milliseconds since 1970 as ISO 8601; None for an invalid value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return iso(datetime.fromtimestamp(value / 1000, UTC))
    except (OverflowError, ValueError, OSError):
        return None


def iso(moment: datetime) -> str:
    """Return a time as ISO 8601 in UTC, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
