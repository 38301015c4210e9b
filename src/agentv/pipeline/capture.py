"""The border where words from outside come in: cleaned once, secrets struck, before anything keeps or shows them."""

import dataclasses
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from agentv.types.errors import ConfigError

if TYPE_CHECKING:
    import regex

STRUCK = "***"
TOO_DEEP = "[nested too deeply to be kept]"
DEEPEST = 100
PATTERN_TIMEOUT_S = 1.0
_SURROGATES = re.compile("[\ud800-\udfff]")
_NOTHING_TO_CLEAN = frozenset({type(None), bool, int, datetime})
_EMPTY_IS_CLEAN = frozenset({tuple, list, dict})
_NO_PARTS: object = ()

Reader: TypeAlias = tuple[tuple[str, ...], Callable[[object], tuple[object, ...]]]
_READERS: dict[type, Reader] = {}


class Redactor:
    """What must not be kept: `secrets` are whole values, `patterns` the `redact` expressions of `.agentv.yaml`.

    Raises ConfigError for a pattern that is none.
    """

    def __init__(self, secrets: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
        self._secrets = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        self._patterns = [_compile(pattern) for pattern in patterns]
        self.is_idle = not self._secrets and not self._patterns

    def text(self, text: str) -> str:
        """Return `text` fit to be kept and shown."""
        if not text.isascii() and _SURROGATES.search(text):
            self.repaired = True
            # A surrogate pair written as two halves is the character it stands for; only lone halves are lost.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return text if self._redactor.is_idle else self._redactor.text(text)

    def clean(self, value: Any, levels: int = DEEPEST) -> Any:
        """Return JSON, dataclasses and tuples with all of it cleaned; what needs no cleaning comes back itself."""
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind in _NOTHING_TO_CLEAN:
            return value
        if kind is float:
            return value if math.isfinite(value) else None
        if kind in _READERS and levels:
            return self._clean_fields(value, levels)
        return self._clean_parts(value, levels) if value or kind not in _EMPTY_IS_CLEAN else value

    def _clean_parts(self, value: Any, levels: int) -> Any:
        """Clean what has parts, and subclasses of what has none."""
        match value:
            case str():
                cleaned = self.text(value)
                return value if cleaned == value else cleaned
            case float():
                return value if math.isfinite(value) else None
            case int():
                return value
            case _ if levels == 0:
                return TOO_DEEP
            case tuple() | list():
                items = [self.clean(item, levels - 1) for item in value]
                return value if all(map(operator.is_, items, value)) else type(value)(items)
            case dict() | Mapping():
                fields = {self.text(str(key)): self.clean(item, levels - 1) for key, item in value.items()}
                return value if _is_same(fields, value) else fields
            case _ if dataclasses.is_dataclass(value):
                return self._clean_fields(value, levels)
            case _:
                return value

    def _clean_fields(self, value: Any, levels: int) -> Any:
        names, read = _reader_of(type(value))
        changes = {}
        for name, item in zip(names, read(value), strict=False):
            if item is _NO_PARTS or type(item) in _NOTHING_TO_CLEAN:
                continue
            cleaned = self.clean(item, levels - 1)
            if cleaned is not item:
                changes[name] = cleaned
        return dataclasses.replace(value, **changes) if changes else value


def _reader_of(kind: type) -> Reader:
    """Return the names of a dataclass's fields, and what reads them all at once."""
    if kind not in _READERS:
        names = tuple(field.name for field in dataclasses.fields(kind))
        # Of a single name it would give no tuple, so that two are asked for in any case, which `zip` drops.
        _READERS[kind] = names, operator.attrgetter(*names, "__class__", "__class__")
    return _READERS[kind]


def _is_same(cleaned: Mapping[str, object], value: Mapping[str, object]) -> bool:
    """Whether keys and items are the very same; equality would call `True` and `1` alike and walk all of it again."""
    return cleaned.keys() == value.keys() and all(cleaned[key] is value[key] for key in cleaned)
