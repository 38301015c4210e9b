"""The border where words from outside come in: cleaned once, secrets struck, before anything keeps or shows them."""

import math
import operator
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from agentv.types.errors import ConfigError
from agentv.types.struct_fields import has_fields, names_of_fields, replace_fields

if TYPE_CHECKING:
    import regex


STRUCK = "***"
TOO_DEEP = "[nested too deeply to be kept]"
DEEPEST = 100
PATTERN_TIMEOUT_S = 1.0
_SURROGATES = re.compile("[\ud800-\udfff]")
_pack = msgspec.msgpack.Encoder(order="deterministic").encode
_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""MessagePack writes a float as this byte and eight more, of which the first two tell that it is no finite number."""

_CONTAINERS = bytes([*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF])
_NO_CONTAINER = bytes(set(range(256)) - set(_CONTAINERS))
"""Bytes that open no list or object in MessagePack: with few others left, nothing can be nested deeply."""


class Redactor:
    """What must not be kept: `secrets` are whole values, `patterns` the `redact` expressions of `.agentv.yaml`.

    Raises ConfigError for a pattern that is none.
    """

    def __init__(self, secrets: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
        self._secrets = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        self._secret_bytes = [secret.encode("utf-8", "surrogatepass") for secret in self._secrets]
        self._patterns = [_compile(pattern) for pattern in patterns]

    def finds_nothing(self, data: bytes) -> bool:
        """Whether nothing has to be struck from texts that stand in `data` as UTF-8; a pattern is not looked for."""
        if self._patterns:
            return False
        return not self._secret_bytes or not any(secret in data for secret in self._secret_bytes)

    def text(self, text: str) -> str:
        """Return `text` with secrets struck; a text that a pattern cannot be tried on in time is struck whole."""
        for secret in self._secrets:
            text = text.replace(secret, STRUCK)
        for pattern in self._patterns:
            try:
                text = pattern.sub(STRUCK, text, timeout=PATTERN_TIMEOUT_S)
            except TimeoutError:
                return STRUCK
        return text


def _compile(pattern: str) -> "regex.Pattern[str]":
    import regex  # noqa: PLC0415 - 20 ms that few projects need

    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise ConfigError(f"redact: {pattern!r} is no regular expression: {error}") from error


class Cleaner:
    """Makes answers, and what is said of them, fit to be kept.

    Secrets are struck, lone surrogates and numbers that are not finite replaced, and what is nested deeper than
    anything reads is cut off. `repaired` tells whether a surrogate was met since `clean_all` was last asked.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.repaired = False

    def text(self, text: str) -> str:
        """Return `text` fit to be kept and shown."""
        if not text.isascii() and _SURROGATES.search(text):
            self.repaired = True
            # A surrogate pair written as two halves is the character it stands for; only lone halves are lost.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return self._redactor.text(text)

    def clean(self, value: Any) -> Any:
        """Return JSON, Structs and tuples with all of it cleaned; what needs no cleaning comes back itself."""
        return value if self._is_clean(value) else self._cleaned(value, DEEPEST)

    def clean_all(self, *values: Any) -> tuple[Any, ...]:
        """Return several values cleaned, with one look at all of them when there is nothing to clean."""
        self.repaired = False
        return values if self._is_clean(values) else tuple(map(self.clean, values))

    def _is_clean(self, value: object) -> bool:
        """Whether a look at all of `value` at once, packed into bytes, finds nothing to clean; most have nothing.

        It takes a tenth of the time of a look at each part. What cannot be packed (a lone surrogate, a key that is no
        text, an object of a plug-in's own) is looked at part by part.
        """
        try:
            data = _pack(value)
        except Exception:  # noqa: BLE001 - a plug-in's objects may raise anything when they are looked at
            return False
        may_be_deep = len(data.translate(None, _NO_CONTAINER)) >= DEEPEST
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
    """Whether keys and items are the very same; equality would call `True` and `1` alike and walk all of it again."""
    return cleaned.keys() == value.keys() and all(cleaned[key] is value[key] for key in cleaned)
