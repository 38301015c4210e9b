"""Plain scalars by the core schema of YAML 1.2: `no`, `on` and dates are text, `0o17` and `1e3` are numbers."""

import math
import re

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# Only text that starts with one of these can be anything but text.
_SPECIAL_STARTS = frozenset("-+.0123456789~nNtTfF")


def resolve_plain(text: str) -> bool | int | float | str | None:
    """Return what an unquoted scalar means. Raises ValueError with a sentence for numbers that cannot be kept."""
    if text and text[0] not in _SPECIAL_STARTS:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    return _number(text)


def _number(text: str) -> int | float | str:
    if _INTEGER.fullmatch(text):
        return to_integer(text)
    if _OCTAL.fullmatch(text):
        return int(text, 0)
    if _HEXADECIMAL.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return to_float(text)
    if _NOT_FINITE.fullmatch(text):
        raise ValueError("infinity and NaN are not numbers here")
    return text


def to_integer(text: str) -> int:
    """Return a decimal whole number. Raises ValueError with a sentence when it has thousands of digits."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"a number of {len(text):,} digits is too long") from None


def to_float(text: str) -> float:
    """Return a decimal fraction. Raises ValueError with a sentence when it is beyond what a float can hold."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("this number is too large to be kept")
    return value
