"""Reading the JSON that model APIs send, whatever it really is. Pure."""

import json
from collections.abc import Mapping

from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json
from agentv.types.usage import Usage

_EXCERPT = 500


def parse_json(body: bytes) -> JsonValue:
    """Return the JSON of a reply. Raises ProviderError, kind malformed_reply, when there is none."""
    if not body.strip():
        raise ProviderError(Failure("malformed_reply", "the reply is empty"))
    try:
        value: JsonValue = json.loads(body.decode())
    except UnicodeDecodeError as error:
        message = f"the reply is not UTF-8 (first bad byte at offset {error.start})"
        raise ProviderError(Failure("malformed_reply", message)) from None
    except (ValueError, RecursionError) as error:
        raise ProviderError(Failure("malformed_reply", f"the reply is not JSON: {error}")) from None
    return value


def parse_object(body: bytes) -> JsonObject:
    """Return the object that a reply is. Raises ProviderError for anything else."""
    value = parse_json(body)
    if not isinstance(value, Mapping):
        raise wrong_shape(f"JSON {name_of(value)} instead of an object", value)
    return value


def wrong_shape(what: str, value: JsonValue) -> ProviderError:
    """Return the error for a reply that is JSON but none of this API; some servers put an error into a good status."""
    return ProviderError(Failure("unexpected_shape", f"the reply has {what}: {compact_json(value)[:_EXCERPT]}"))


def filtered(what: str) -> ProviderError:
    """Return the error for a reply that a filter of the provider kept back."""
    return ProviderError(Failure("content_filter", what))


def objects(value: JsonValue) -> list[JsonObject]:
    """Return the objects of a list; nothing for anything that is no list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def member(value: JsonValue, *names: str) -> JsonValue:
    """Return what stands under nested keys; None when it is not there."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def count(value: JsonValue, *names: str) -> int:
    """Return a count of tokens; 0 for anything that is none."""
    found = member(value, *names)
    return found if isinstance(found, int) and found > 0 else 0


def usage_of(value: JsonValue, *, sent: str, made: str) -> Usage | None:
    """Return the usage as OpenAI's APIs tell it, which have two pairs of names for what was sent and what was made."""
    if not isinstance(value, Mapping):
        return None
    input_, output = count(value, sent), count(value, made)
    sent_more, made_more = f"{sent}_details", f"{made}_details"
    return Usage(
        input=input_,
        output=output,
        cached_input=count(value, sent_more, "cached_tokens") if sent_more in value else 0,
        reasoning=count(value, made_more, "reasoning_tokens") if made_more in value else 0,
        total=count(value, "total_tokens") or input_ + output,
        requests=1,
    )


def text_or_none(value: JsonValue) -> str | None:
    """Return a text that is not empty; None for anything else."""
    return value if isinstance(value, str) and value else None


def name_of(value: JsonValue) -> str:
    """Return what sort of JSON a value is, for messages."""
    return "null" if value is None else type(value).__name__
