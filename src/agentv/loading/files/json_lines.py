"""JSON with positions: a quick parser for valid texts, and one with exact positions for all others."""

from collections.abc import Iterable
from json.decoder import JSONDecodeError, JSONDecoder
from typing import NoReturn, cast

from agentv.loading.files.composer import MAX_DEPTH, to_float, to_integer
from agentv.loading.files.documents import Document, JsonPath, Key, Mark, Spot, is_deeper, shown_path
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import compact_json
from agentv.types.problems import Problem


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed")


def _unique_entries(pairs: Iterable[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    listed = list(pairs)
    entries = dict(listed)
    if len(entries) < len(listed):
        raise ValueError("a key appears twice")
    return entries


STRICT_DECODER = JSONDecoder(
    object_pairs_hook=_unique_entries, parse_constant=_refuse_constant, parse_float=to_float, parse_int=to_integer
)
_SCALAR_DECODER = JSONDecoder(parse_constant=_refuse_constant, parse_float=to_float, parse_int=to_integer)


def quick_json(text: str, path: str, line: int) -> Document | None:
    """Return the document of one line, without positions inside of the line; None if the line has any problem."""
    try:
        value = cast(JsonValue, STRICT_DECODER.decode(text))
        if "\\ud" in text or "\\uD" in text:
            compact_json(value).encode()  # raises for half of a surrogate pair
        if text.count("[") + text.count("{") > MAX_DEPTH and is_deeper(value, MAX_DEPTH):
            return None
    except (ValueError, RecursionError):
        return None
    return Document(path, value, Mark(line, 1))


def parse_json(text: str, path: str, line: int) -> tuple[Document | None, tuple[Problem, ...]]:
    """Return the document of a text that starts on `line`, with all positions, and its problems; None if not JSON."""
    parser = _Parser(text, path, line)
    try:
        value = parser.parse()
    except JSONDecodeError as error:
        subject = "the file" if "\n" in text.strip() else "this line"
        message = f"{subject} is not valid JSON: {_MESSAGES.get(error.msg, error.msg)}"
        if text.strip() in ("{", "["):
            message = "this line is only the beginning of a JSON value: write each on one line, or name the file .json"
        problem = Problem(path, message, *parser.mark(error.pos))
        return None, (*parser.problems, problem)
    return Document(path, value, parser.mark(parser.skip_space(0)), parser.marks), tuple(parser.problems)


_MESSAGES = {
    "Expecting value": "a value is missing here",
    "Expecting ',' delimiter": "a ',' is missing here",
    "Expecting ':' delimiter": "a ':' is missing here",
    "Expecting property name enclosed in double quotes": "a key in double quotes is missing here",
    "Unterminated string starting at": "the string that starts here is not closed",
    "Invalid control character at": "a string contains a control character; write it as an escape sequence",
    "Invalid \\escape": "'\\' starts an unknown escape sequence",
    "Invalid \\uXXXX escape": "'\\u' needs four hexadecimal digits",
}


class _Parser:
    """A parser of a text that continues after duplicate keys and numbers out of range."""

    def __init__(self, text: str, path: str, line: int) -> None:
        self.text, self.path, self.line = text, path, line
        self.marks: dict[int, dict[Key, Spot]] = {}
        self.problems: list[Problem] = []
        self._last_mark = (0, line, -1)  # an index, its line, and the index of the line break before it

    def parse(self) -> JsonValue:
        """Parse the whole text. Raises JSONDecodeError."""
        value, end = self.value(self.skip_space(0), ())
        if self.skip_space(end) < len(self.text):
            raise JSONDecodeError("unexpected text after the end of the object", self.text, self.skip_space(end))
        return value

    def skip_space(self, index: int) -> int:
        """Return the index of the next character that is not white space."""
        while index < len(self.text) and self.text[index] in " \t\r\n":
            index += 1
        return index

    def value(self, index: int, at: JsonPath) -> tuple[JsonValue, int]:
        """Parse the value at `index`; return it and where it ends."""
        start = self.text[index : index + 1]
        if start in ("{", "[") and len(at) >= MAX_DEPTH:
            raise JSONDecodeError(f"nested more than {MAX_DEPTH} levels deep", self.text, index)
        if start == "{":
            return self._object(index, at)
        if start == "[":
            return self._list(index, at)
        if start == '"':
            return self._string(index, at)
        try:
            return cast(tuple[JsonValue, int], _SCALAR_DECODER.raw_decode(self.text, index))
        except JSONDecodeError:
            raise
        except ValueError as error:
            self._report(index, str(error), at)
            end = index
            while end < len(self.text) and self.text[end] not in ",]} \t\r\n":
                end += 1
            return None, end

    def _string(self, index: int, at: JsonPath) -> tuple[str, int]:
        text, end = cast(tuple[str, int], _SCALAR_DECODER.raw_decode(self.text, index))
        if any("\ud800" <= character <= "\udfff" for character in text):
            self._report(index, "half of a surrogate pair is not a character", at)
            text = text.encode("utf-8", "replace").decode()
        return text, end

    def _object(self, index: int, at: JsonPath) -> tuple[JsonValue, int]:
        entries: dict[str, JsonValue] = {}
        spots: dict[Key, Spot] = {}
        index = self.skip_space(index + 1)
        while self.text[index : index + 1] != "}":
            if entries:
                index = self.skip_space(self._expect(",", index))
            if self.text[index : index + 1] != '"':
                raise JSONDecodeError("Expecting property name enclosed in double quotes", self.text, index)
            key_at = index
            key, index = self._string(index, at)
            index = self.skip_space(self._expect(":", self.skip_space(index)))
            if key in entries:
                self._report(key_at, f"the key {key!r} appears twice", (*at, key))
            spots[key] = Spot(self.mark(key_at), self.mark(index))
            entries[key], index = self.value(index, (*at, key))
            index = self.skip_space(index)
        self.marks[id(entries)] = spots
        return entries, index + 1

    def _list(self, index: int, at: JsonPath) -> tuple[JsonValue, int]:
        items: list[JsonValue] = []
        spots: dict[Key, Spot] = {}
        index = self.skip_space(index + 1)
        while self.text[index : index + 1] != "]":
            if items:
                index = self.skip_space(self._expect(",", index))
            place = self.mark(index)
            spots[len(items)] = Spot(place, place)
            item, index = self.value(index, (*at, len(items)))
            items.append(item)
            index = self.skip_space(index)
        self.marks[id(items)] = spots
        return items, index + 1

    def _expect(self, sign: str, index: int) -> int:
        if self.text[index : index + 1] != sign:
            raise JSONDecodeError(f"Expecting {sign!r} delimiter", self.text, index)
        return index + 1

    def mark(self, index: int) -> Mark:
        """Return the line and column of a position; the lines are counted from the last position requested."""
        last, line, start = self._last_mark
        if index < last:
            last, line, start = 0, self.line, -1
        line += self.text.count("\n", last, index)
        self._last_mark = index, line, max(start, self.text.rfind("\n", last, index))
        return Mark(line, index - self._last_mark[2])

    def _report(self, index: int, message: str, at: JsonPath) -> None:
        place = self.mark(index)
        self.problems.append(Problem(self.path, message, *place, shown_path(at)))
