"""The log of calls, with their token counts and with fingerprints of the keys, never the keys themselves."""

import hashlib
from collections import deque
from collections.abc import Mapping

from msgspec import Struct, field, structs

from agentv.types.json_value import JsonObject

SCHEMA = "agentv-fake-calls-1"
_MAX_CALLS = 100_000
_KEY_HEADERS = ("api-key", "x-api-key", "x-goog-api-key")


class Call(Struct, frozen=True):
    """One request in the log."""

    method: str
    path: str
    api: str
    model: str = ""
    status: int = 0
    """The status that was sent, 0 for none."""
    fault: str = ""
    """The name of the fault that the model's name selects for this attempt, "" for none.

    It is recorded even if it has no effect on such a request, but not if the request is refused earlier.
    """
    input_tokens: int = 0
    output_tokens: int = 0
    key: str = ""
    """The fingerprint of the API key, "" without a key."""
    batch: str = ""
    """The id of the request's batch, "" for none."""
    billed: bool = False
    """True for a reply with status 200, even if the connection broke later; counting tokens is free."""


class CallLog(Struct):
    """The latest 100,000 calls, oldest first."""

    calls: deque[Call] = field(default_factory=lambda: deque(maxlen=_MAX_CALLS))

    def to_json(self) -> JsonObject:
        """Return all calls, with their number, and the number and the tokens of the billed ones."""
        billed = [call for call in self.calls if call.billed]
        return {
            "schema": SCHEMA,
            "count": len(self.calls),
            "billed": len(billed),
            "input_tokens": sum(call.input_tokens for call in billed),
            "output_tokens": sum(call.output_tokens for call in billed),
            "calls": [structs.asdict(call) for call in self.calls],
        }


def fingerprint(key: str) -> str:
    """Return twelve hexadecimal digits that identify a key without revealing it; "" for no key."""
    return hashlib.sha256(key.encode()).hexdigest()[:12] if key else ""


def key_of(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """Return the API key of a request, from a header of one of the APIs or else from the query; "" without a key."""
    named = {name.lower(): value for name, value in headers.items()}
    bearer = named.get("authorization", "").partition(" ")[2].strip()
    return next((named[name] for name in _KEY_HEADERS if named.get(name)), "") or bearer or query.get("key", "")
