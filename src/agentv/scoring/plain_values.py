"""What a plug-in handed over, value by value, as plain texts, finite numbers and JSON.

Each function takes a value and the path of its field, and raises EvaluatorError that names the path.
"""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real

from agentv.types.errors import EvaluatorError
from agentv.types.json_value import JsonValue
from agentv.types.records.fields import TOLERANCE

# An object may hold itself.
_LEVELS = 100
_MOST_VALUES = 100_000
# No float holds more; JSON readers in other languages give up long before.
_INTEGER_BITS = 1024


def described(value: object) -> str:
    """Return what sort of thing a value is, for a message."""
    return "nothing" if value is None else f"a {type(value).__name__}"


def refused(value: object, at: str, wanted: str) -> EvaluatorError:
    """Return the error that says what a field must be."""
    return EvaluatorError(f"`{at}` must be {wanted}, got {described(value)}")


def plain_text(value: object, at: str) -> str:
    """Return a text. A subclass may say something else each time it is asked, so it is asked once."""
    if type(value) is str:
        return value
    if not isinstance(value, str):
        raise refused(value, at, "a text")
    return str.__str__(value)


def plain_texts(values: object, at: str) -> tuple[str, ...]:
    """Return texts; numbers and the like among them are written out."""
    if type(values) is tuple and not values:
        return ()
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise refused(values, at, "a sequence of texts")
    return tuple(plain_text(value if isinstance(value, str) else str(value), at) for value in values)


def plain_flag(value: object, at: str) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise refused(value, at, "True or False")
    return value


def plain_number(value: object, at: str) -> float:
    """Return a number, infinite when it is too large for a float. NumPy's numbers are numbers, too."""
    if type(value) is float:
        return value
    if not isinstance(value, Real):
        raise refused(value, at, "a number")
    try:
        return float.__float__(float(value))
    except OverflowError:
        return math.inf


def finite_or_none(value: object, at: str) -> float | None:
    """Return a number; one that is not finite says nothing and becomes None."""
    number = plain_number(value, at)
    return number if math.isfinite(number) else None


def plain_weight(value: object, at: str) -> float:
    """Return a number that is finite and at least 0."""
    number = plain_number(value, at)
    if not 0 <= number < math.inf:
        raise EvaluatorError(f"`{at}` must be finite and at least 0, got {number:g}")
    return number


def unit_number(value: object, what: str) -> float:
    """Return the number from 0 to 1 that `what` was given as its score, clamped within 1e-9; NaN is none."""
    if not isinstance(value, Real):
        raise EvaluatorError(f"the score of {what!r} is no number but {described(value)}")
    number = plain_number(value, what)
    if not -TOLERANCE <= number <= 1 + TOLERANCE:
        raise EvaluatorError(f"the score of {what!r} is {number:g}; allowed: 0 to 1")
    return min(1.0, max(0.0, number))


def plain_count(value: object, at: str) -> int:
    """Return a whole number from 0."""
    if type(value) is int and 0 <= value <= sys.maxsize:
        return value
    if not isinstance(value, Integral):
        raise refused(value, at, "a whole number")
    number = int.__int__(int(value))
    if number < 0 or number.bit_length() > _INTEGER_BITS:
        raise EvaluatorError(f"`{at}` must be at least 0, and no more than a float can hold")
    return number


def plain_name(names: Sequence[str], value: object, at: str) -> str:
    """Return a text that is one of `names`."""
    text = plain_text(value, at)
    if text not in names:
        raise EvaluatorError(f"`{at}` must be one of {', '.join(names)}, got {text[:40]!r}")
    return text


def plain_object(value: object, at: str) -> JsonValue:
    """Return a JSON object as a dict of texts, numbers, lists and dicts; a number that is not finite becomes None."""
    if not isinstance(value, Mapping):
        raise refused(value, at, "a mapping")
    return _plain_json(value, at, _LEVELS, iter(range(_MOST_VALUES)))


def _plain_json(value: object, at: str, levels: int, places: Iterator[int]) -> JsonValue:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return plain_text(value, at)
    if isinstance(value, int):
        return int.__int__(value) if value.bit_length() <= _INTEGER_BITS else None
    if isinstance(value, Real):
        return finite_or_none(value, at)
    if levels == 0 or next(places, None) is None:
        raise EvaluatorError(
            f"`{at}` is nested more than {_LEVELS} levels deep, or holds more than {_MOST_VALUES:,} lists"
        )
    if isinstance(value, Mapping):
        return {
            plain_text(key, f"{at} (a key)"): _plain_json(item, at, levels - 1, places) for key, item in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_plain_json(item, at, levels - 1, places) for item in value]
    raise refused(value, at, "JSON")
