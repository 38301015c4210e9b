"""Which calls came, and what they would have cost; never the keys themselves."""

import hashlib
from collections import deque
from collections.abc import Mapping

from msgspec import Struct, field, structs

from agentv.types.json_value import JsonObject

SCHEMA = "agentv-fake-calls-1"
_KEPT = 100_000
_KEY_HEADERS = ("api-key", "x-api-key", "x-goog-api-key")


class Call(Struct, frozen=True):
    """One request as the log keeps it.

    `status` is the one that was sent, 0 when there was none. Billed is what a model worked for: every reply of a model
    that began with 200. `batch` is the batch that it was part of. `key` is a fingerprint, "" without a key.
    """

    method: str
    path: str
    api: str
    model: str = ""
    status: int = 0
    fault: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    key: str = ""
    batch: str = ""
    billed: bool = False


class CallLog(Struct):
    """The latest 100,000 calls, oldest first."""

    calls: deque[Call] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def to_json(self) -> JsonObject:
        """Return all calls, and what they come to."""
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
    """Return twelve characters by which keys can be told apart but not learned; "" for none."""
    return hashlib.sha256(key.encode()).hexdigest()[:12] if key else ""


def key_of(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """Return the key that a request brings, wherever an API may want it; "" without one. Header names in any case."""
    named = {name.lower(): value for name, value in headers.items()}
    bearer = named.get("authorization", "").partition(" ")[2].strip()
    return next((named[name] for name in _KEY_HEADERS if named.get(name)), "") or bearer or query.get("key", "")
