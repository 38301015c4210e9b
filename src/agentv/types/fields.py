"""Read a JSON object key by key, in snake_case or camelCase, and collect all problems.

For objects that a program passes in (`from_dict`), and for lines of logs. Eval files are read in `loading`, which also
reports the line of each problem.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.types.errors import EvalFileError, nearest
from agentv.types.json_value import JsonObject, JsonValue, camel_case
from agentv.types.problems import Problem

T = TypeVar("T")


class Problems(Struct):
    """The problems of one object."""

    what: str
    """The object's name in messages."""
    found: list[Problem] = field(default_factory=list)
    ignores_unknown: bool = False
    """True if unknown keys are not problems, because a later version of agentv may have written them."""

    def add(self, at: str, message: str, *, allowed: str | None = None, suggestion: str | None = None) -> None:
        """Record a problem at a path, which starts with `$`. The other arguments are fields of Problem."""
        self.found.append(Problem(self.what, message, json_path=at, allowed=allowed, suggestion=suggestion))

    def include(self, error: EvalFileError, at: str) -> None:
        """Record the problems of a value that is read separately; `at` is the path of the object that it is in."""
        for each in error.problems:
            self.found.append(replace(each, path=self.what, json_path=f"{at}{each.json_path[1:]}"))

    def raise_any(self) -> None:
        """Raise EvalFileError with all recorded problems, if there are any."""
        if self.found:
            raise EvalFileError(self.what, self.found)


class Fields:
    """The keys of the object at the path `at`. Read them first; then `check_unknown_keys` reports the others.

    A value of the wrong type, or an object that is not a mapping, is recorded as a problem and read as absent. Null is
    absent, too.
    """

    def __init__(self, raw: object, problems: Problems, at: str = "$") -> None:
        self.at = at
        self._problems = problems
        self._known: list[str] = []
        self._raw: Mapping[str, object] = {}
        if isinstance(raw, Mapping):
            self._raw = cast(Mapping[str, object], raw)
        else:
            problems.add(at, f"must be an object, got {type(raw).__name__}")

    def value(self, name: str, *others: str) -> JsonValue:
        """Return the value of a key, also in camelCase or under one of `others`; None when it is absent."""
        self._known += (name, *others)
        for spelling in (name, camel_case(name), *others):
            if self._raw.get(spelling) is not None:
                return cast(JsonValue, self._raw[spelling])
        return None

    def text(self, name: str, *others: str) -> str | None:
        """Return the string of a key; None when it is absent."""
        return self._of_type(str, "a string", name, *others)

    def required_text(self, name: str, *others: str) -> str:
        """Return the string of a key; if it is absent, record a problem and return ""."""
        value = self.text(name, *others)
        if value is None and not self._has_any(name, *others):
            self._problems.add(self.at, f"`{name}` is missing")
        return value or ""

    def number(self, name: str) -> float | None:
        """Return the number of a key; None when it is absent. A bool is not a number."""
        value = self.value(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        if value is not None:
            self._add_wrong_type(name, "a number", value)
        return None

    def count(self, name: str) -> int:
        """Return the whole number of a key, at least 0; 0 when it is absent."""
        value = self.number(name) or 0
        if value < 0 or value % 1 != 0:  # `value % 1` is also not 0 for NaN and infinity
            self._problems.add(f"{self.at}.{name}", f"must be a whole number of at least 0, got {value!r}")
            return 0
        return int(value)

    def mapping(self, name: str) -> JsonObject | None:
        """Return the object of a key; None when it is absent."""
        value = self.value(name)
        if value is not None and not isinstance(value, Mapping):
            self._add_wrong_type(name, "an object", value)
            return None
        return value

    def items(self, name: str, *others: str) -> Iterator[tuple[str, JsonValue]]:
        """Yield the path and the value of each item of a key's list; nothing when the key is absent."""
        value = self.value(name, *others)
        if value is not None and (isinstance(value, str | Mapping) or not isinstance(value, Sequence)):
            self._add_wrong_type(name, "a list", value)
            return
        for index, item in enumerate(value or ()):
            yield f"{self.at}.{name}[{index}]", item

    def read(self, name: str, read: Callable[[JsonValue], T]) -> T | None:
        """Return the result of `read` for a key's value; None when it is absent. A ValueError becomes a problem."""
        value = self.value(name)
        try:
            return None if value is None else read(value)
        except ValueError as error:
            self._problems.add(f"{self.at}.{name}", str(error))
            return None

    def check_unknown_keys(self, *, other_names: Mapping[str, str] | None = None) -> None:
        """Record every unread key as a problem, unless `ignores_unknown`; the first problem lists the known keys.

        `other_names` maps keys of other tools to our name, which is suggested instead.
        """
        if self._problems.ignores_unknown:
            return
        known = {spelling: name for name in self._known for spelling in (name, camel_case(name))}
        our_names = {
            spelling: name for other, name in (other_names or {}).items() for spelling in (other, camel_case(other))
        }
        allowed: str | None = f"allowed: {', '.join(dict.fromkeys(known.values()))}"
        for key in self._raw:
            if key not in known:
                nearest_spelling = nearest(str(key), known)
                nearest_name = None if nearest_spelling is None else known[nearest_spelling]
                suggestion = our_names.get(str(key)) or nearest_name
                message = f"unknown key {key!r}"
                self._problems.add(f"{self.at}.{key}", message, allowed=allowed, suggestion=suggestion)
                allowed = None

    def _of_type(self, kind: type[T], type_name: str, name: str, *others: str) -> T | None:
        value = self.value(name, *others)
        if value is None or isinstance(value, kind):
            return value
        self._add_wrong_type(name, type_name, value)
        return None

    def _has_any(self, *names: str) -> bool:
        return any(self._raw.get(spelling) is not None for name in names for spelling in (name, camel_case(name)))

    def _add_wrong_type(self, name: str, wanted: str, value: object) -> None:
        self._problems.add(f"{self.at}.{name}", f"must be {wanted}, got {type(value).__name__}")
