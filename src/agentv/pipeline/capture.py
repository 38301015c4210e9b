"""The border where a target's words come in: text is cleaned once and secrets are struck, before anything sees them."""

import dataclasses
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from agentv.types.failures import Failure
from agentv.types.provider import ProviderResponse

STRUCK = "***"
REPLACEMENT = "\ufffd"
_SURROGATES = re.compile("[\ud800-\udfff]")

Clean: TypeAlias = Callable[[str], str]


class Cleaner:
    """Strikes secrets and replaces lone surrogates in every text of a value.

    `secrets` are whole values; `patterns` are the `redact` expressions of `.agentv.yaml`. `repaired` tells whether a
    surrogate was met since the cleaner was made, so use a new one for each answer.
    """

    def __init__(self, secrets: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
        longest_first = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        expressions = [re.escape(secret) for secret in longest_first] + [f"(?:{pattern})" for pattern in patterns]
        self._secret = re.compile("|".join(expressions)) if expressions else None
        self.repaired = False

    def text(self, text: str) -> str:
        """Return `text` fit to be kept and shown."""
        if not text.isascii() and _SURROGATES.search(text):
            self.repaired = True
            # A surrogate pair written as two halves is the character it stands for; only lone halves are lost.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return self._secret.sub(STRUCK, text) if self._secret else text

    def value(self, value: Any) -> Any:
        """Return JSON, dataclasses and tuples with every text cleaned; what needs no cleaning comes back itself."""
        match value:
            case str():
                return self.text(value)
            case None | bool() | int() | float():
                return value
            case Mapping():
                cleaned = {self.text(key): self.value(item) for key, item in value.items()}
                return value if cleaned == value else cleaned
            case tuple() | list():
                items = [self.value(item) for item in value]
                return value if all(map(operator.is_, items, value)) else type(value)(items)
            case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
                return self._dataclass(value)
            case _:
                return value

    def _dataclass(self, value: Any) -> Any:
        changes = {}
        for name in value.__dataclass_fields__:
            item = getattr(value, name)
            cleaned = self.value(item)
            if cleaned is not item:
                changes[name] = cleaned
        return dataclasses.replace(value, **changes) if changes else value

    def response(self, response: ProviderResponse) -> ProviderResponse:
        """Return a response with every text cleaned."""
        cleaned: ProviderResponse = self.value(response)
        return cleaned

    def failure(self, failure: Failure) -> Failure:
        """Return a failure with every text cleaned."""
        cleaned: Failure = self.value(failure)
        return cleaned
