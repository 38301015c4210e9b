"""Reading JSON that anyone may have sent: each function gives an empty value where the wanted one is not."""

from collections.abc import Mapping, Sequence

from agentv.types.json_value import JsonObject, JsonValue


def as_object(value: JsonValue) -> JsonObject:
    """Return a JSON object, {} for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: JsonValue) -> Sequence[JsonValue]:
    """Return a JSON array, [] for anything else."""
    return value if isinstance(value, list) else []


def as_text(value: JsonValue) -> str:
    """Return a text, "" for anything else."""
    return value if isinstance(value, str) else ""


def as_count(value: JsonValue) -> int | None:
    """Return a whole number, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def objects(value: JsonValue) -> list[JsonObject]:
    """Return the objects in a JSON array."""
    return [item for item in as_list(value) if isinstance(item, Mapping)]


def joined_texts(content: JsonValue) -> str:
    """Return content as text: a text itself, or the `text` of each of its parts, one a line."""
    if isinstance(content, str):
        return content
    return "\n".join(text for part in objects(content) if (text := as_text(part.get("text"))))
