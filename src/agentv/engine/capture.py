"""The removal of secrets, surrogates, NaN and deep nesting from values before they are stored or shown."""

import math
import operator
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from agentv.messages.shapes.objects import MAX_LEVELS, TOO_DEEP
from agentv.templating.secrets import REDACTED, SecretRedactor
from agentv.types.errors import ConfigError
from agentv.types.structs import has_fields, names_of_fields, replace_fields

if TYPE_CHECKING:
    import regex


PATTERN_TIMEOUT_S = 1.0
"""The time limit for one pattern in one text."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_pack = msgspec.msgpack.Encoder(order="deterministic").encode
_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""MessagePack writes a float as the byte 0xCB and eight more; the first two of the eight show if it is finite."""

_CONTAINERS = bytes([*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF])
_NOT_CONTAINERS = bytes(set(range(256)) - set(_CONTAINERS))
"""All bytes but those that open a list or object in MessagePack. Data with few opening bytes is not nested deeply."""


class Redactor:
    """Redacts secrets in text: the values `secrets`, also escaped or encoded, and matches of `patterns`.

    `patterns` are regular expressions, such as those under `redact`. Raises ConfigError for one that is invalid or
    too large.
    """

    def __init__(self, secrets: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
        self._secrets = SecretRedactor(secrets).forms
        self._secret_bytes = [secret.encode("utf-8", "surrogatepass") for secret in self._secrets]
        self._patterns = [_compile(pattern) for pattern in patterns]

    def finds_nothing(self, data: bytes) -> bool:
        """Return True if the UTF-8 texts in `data` certainly need no redaction; always False if there are patterns."""
        if self._patterns:
            return False
        if not self._secret_bytes:  # most runs have no secrets, and this is called several times for each case
            return True
        return not any(secret in data for secret in self._secret_bytes)

    def text(self, text: str) -> str:
        """Return `text` with secrets redacted, or REDACTED alone if a pattern takes too much time or memory."""
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        for pattern in self._patterns:
            try:
                text = pattern.sub(REDACTED, text, timeout=PATTERN_TIMEOUT_S)
            except (TimeoutError, MemoryError):  # the regex package limits the memory of recursion, such as (?R)
                return REDACTED
        return text


def _compile(pattern: str) -> "regex.Pattern[str]":
    from agentv.scoring.text.patterns import compile_pattern  # noqa: PLC0415 - imports regex; few projects have patterns

    try:
        return compile_pattern(pattern)
    except ValueError as error:
        raise ConfigError(f"redact: {pattern!r} {error}") from error


class Cleaner:
    """Cleans values, such as answers and results, before they are stored.

    Secrets are redacted. Lone surrogates become U+FFFD, numbers that are not finite become None, and values nested
    deeper than `MAX_LEVELS` levels become `TOO_DEEP`. `repaired` is True if a surrogate was found since the last call
    of `clean_all` began.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.repaired = False

    def text(self, text: str) -> str:
        """Return `text` cleaned, so that it can be stored and shown."""
        if not text.isascii() and _SURROGATES.search(text):
            self.repaired = True
            # A surrogate pair written as two halves is the character it stands for; only lone halves are lost.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return self._redactor.text(text)

    def clean(self, value: Any) -> Any:
        """Return JSON, a Struct, a dataclass or a tuple with all its parts cleaned.

        The same object is returned if nothing needs cleaning. Objects of other classes are not changed.
        """
        return value if self._is_clean(value) else self._cleaned(value, MAX_LEVELS)

    def clean_all(self, *values: Any) -> tuple[Any, ...]:
        """Return several values cleaned, and set `repaired`. If all are clean, a single check suffices."""
        self.repaired = False
        return values if self._is_clean(values) else tuple(map(self.clean, values))

    def _is_clean(self, value: object) -> bool:
        """Return True if `value` certainly needs no cleaning, judged by its bytes in MessagePack.

        Most values are clean, and one check of the bytes is much faster than a check of each part. A value that cannot
        be packed (a lone surrogate, an object of a plug-in's class) is cleaned part by part.
        """
        try:
            data = _pack(value)
        except Exception:  # noqa: BLE001 - a plug-in's objects may raise anything when they are packed
            return False
        may_be_deep = len(data.translate(None, _NOT_CONTAINERS)) >= MAX_LEVELS
        return not may_be_deep and not _NOT_FINITE.search(data) and self._redactor.finds_nothing(data)

    def _cleaned(self, value: Any, levels: int) -> Any:
        match value:
            case str():
                cleaned = self.text(value)
                return value if cleaned == value else cleaned
            case float():
                return value if math.isfinite(value) else None
            case None | int():
                return value
            case _ if levels == 0:
                return TOO_DEEP
            case tuple() | list():
                items = [self._cleaned(item, levels - 1) for item in value]
                return value if all(map(operator.is_, items, value)) else type(value)(items)
            case Mapping():
                fields = {self.text(str(key)): self._cleaned(item, levels - 1) for key, item in value.items()}
                return value if _is_same(fields, value) else fields
            case _ if has_fields(value):
                return self._cleaned_fields(value, levels)
            case _:
                return value

    def _cleaned_fields(self, value: Any, levels: int) -> Any:
        changes = {}
        for name in names_of_fields(type(value)):
            item = getattr(value, name)
            cleaned = self._cleaned(item, levels - 1)
            if cleaned is not item:
                changes[name] = cleaned
        return replace_fields(value, changes)


def _is_same(cleaned: Mapping[str, object], value: Mapping[str, object]) -> bool:
    """Return True if the keys are equal and the items are the same objects; `True` and `1` are not the same."""
    return cleaned.keys() == value.keys() and all(cleaned[key] is value[key] for key in cleaned)
