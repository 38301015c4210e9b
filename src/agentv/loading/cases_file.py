"""An eval file that is added to: its bytes as they were read, its cases as they stand, and the bytes it may become."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from agentv.loading.composer import compose
from agentv.loading.documents import Document
from agentv.loading.eval_models import CaseModel
from agentv.loading.file_kinds import CASE_KEYS
from agentv.loading.json_lines import parse_json
from agentv.loading.reader import Reader, raise_errors
from agentv.loading.suites import read_suite
from agentv.loading.text_files import BYTE_ORDER_MARK, decode, read_bytes, shown
from agentv.loading.yaml_edit import Entry, add_entries, append_items
from agentv.registry import Specs
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem


class NewKey(Struct, frozen=True):
    """A key that a case gets: its value, and its lines as YAML, from column 1 on."""

    key: str
    value: JsonValue
    yaml: str
    line: str
    """The value as JSON on one line that a YAML reader takes, too."""


class CasesFile(Struct, frozen=True):
    """An eval file whose cases stand in it. `cases` are in the file's order; `data` is what was read."""

    path: Path
    data: bytes
    cases: tuple[JsonObject, ...]

    def with_keys(self, keys: Mapping[int, NewKey], specs: Specs) -> bytes:
        """Return the file's bytes with a key added to some cases, by their index; the rest is as it was, to the byte.

        Raises EvalFileError when the result would not be the same suite with these keys and nothing else.
        """
        if self.path.suffix == ".jsonl":
            return self._lines_with(keys)
        entries = {index: Entry(new.key, new.yaml, new.line) for index, new in keys.items()}
        text = add_entries(self._text(), shown(self.path), entries)
        wanted = [{**case, keys[i].key: keys[i].value} if i in keys else case for i, case in enumerate(self.cases)]
        return self._checked(text, wanted, specs)

    def with_cases(self, items: Sequence[JsonObject], yaml: Sequence[str], specs: Specs) -> bytes:
        """Return the file's bytes with more cases at the end; `yaml` are the same as items of a list from column 1 on.

        Raises EvalFileError as `with_keys` does.
        """
        if self.path.suffix == ".jsonl":
            lines = [f"{json.dumps(item, ensure_ascii=False)}\n".encode() for item in items]
            for number, line in enumerate(lines, len(_split(self.data)) + 1):
                _check_line(line, shown(self.path), number)
            return b"".join((self.data, b"" if self.data.endswith(b"\n") or not self.data else b"\n", *lines))
        text = append_items(self._text(), shown(self.path), yaml)
        return self._checked(text, [*self.cases, *items], specs)

    def _text(self) -> str:
        return decode(self.data, shown(self.path))

    def _checked(self, text: str, wanted: Sequence[JsonValue], specs: Specs) -> bytes:
        """Return a new text as bytes, after reading it as a suite."""
        name = shown(self.path)
        document, _ = compose(text, name)
        top, _ = compose(self._text(), name)
        if document is None or top is None:
            advice = "write its cases as plain YAML, one key a line"
            raise EvalFileError(
                name, [Problem(name, "nothing can be added to this file as it is written", allowed=advice)]
            )
        key = _cases_key(top)
        got = document.at((key,))
        others = _without(top.value, key) == _without(document.value, key)
        if not others or got != list(wanted):
            raise EvalFileError(name, [_not_alone(top, key, got, wanted)])
        mark = BYTE_ORDER_MARK if self.data.startswith(BYTE_ORDER_MARK) else b""
        data = mark + text.encode()
        raise_errors(name, read_suite(self.path, specs, content=data).problems)
        return data

    def _lines_with(self, keys: Mapping[int, NewKey]) -> bytes:
        lines = _split(self.data)
        numbers = [number for number, line in enumerate(lines) if line.removeprefix(BYTE_ORDER_MARK).strip()]
        for index, new in keys.items():
            number = numbers[index]
            lines[number] = self._line_with(lines[number], number + 1, new)
        return b"".join(lines)

    def _line_with(self, line: bytes, number: int, new: NewKey) -> bytes:
        end = line.rstrip().removesuffix(b"}").rstrip()
        space = " " if b'": ' in line else ""
        added = f',{space}"{new.key}":{space}{new.line}'.encode()
        made = end + added + line[len(end) :]
        _check_line(made, shown(self.path), number)
        return made


def open_cases(path: Path) -> CasesFile:
    """Return an eval file to be added to. Raises EvalFileError when it cannot be read or its cases stand elsewhere."""
    data, name = read_bytes(path), shown(path)
    if path.suffix == ".jsonl":
        return CasesFile(path, data, tuple(_json_cases(data, name)))
    document, problems = compose(decode(data, name), name)
    if document is None:
        raise EvalFileError(name, problems)
    key = _cases_key(document)
    cases = document.at((key,))
    if not isinstance(cases, list):
        place = document.mark((key,))
        advice = "give the JSON Lines file that they stand in, or write them here"
        problem = Problem(name, "the cases of this suite stand in other files", *place, f"$.{key}", advice)
        raise EvalFileError(name, [problem])
    return CasesFile(path, data, tuple(case for case in cases if isinstance(case, Mapping)))


def _json_cases(data: bytes, name: str) -> list[JsonObject]:
    cases: list[JsonObject] = []
    for number, line in enumerate(_split(data.removeprefix(BYTE_ORDER_MARK)), 1):
        if line.strip():
            document, problems = parse_json(decode(line, name, first_line=number).rstrip("\r\n"), name, number)
            if document is None or not isinstance(document.value, Mapping):
                raise EvalFileError(name, problems or [Problem(name, "a line must be a JSON object", number, 1)])
            cases.append(document.value)
    return cases


def _split(data: bytes) -> list[bytes]:
    """Return the lines with their ends; only a newline ends one, as everywhere that JSON Lines are read."""
    return io.BytesIO(data).readlines()


def _check_line(line: bytes, name: str, number: int) -> None:
    """Raise EvalFileError unless a line is a case."""
    document, problems = parse_json(decode(line, name, first_line=number).rstrip("\r\n"), name, number)
    reader = Reader(document or Document(name, {}), problems)
    reader.read(CaseModel)
    raise_errors(name, reader.problems)


def _cases_key(document: Document) -> str:
    value = document.value
    return next((key for key in CASE_KEYS if isinstance(value, Mapping) and key in value), CASE_KEYS[0])


def _without(value: JsonValue, key: str) -> JsonValue:
    return {name: inner for name, inner in value.items() if name != key} if isinstance(value, Mapping) else value


def _not_alone(document: Document, key: str, got: JsonValue, wanted: Sequence[JsonValue]) -> Problem:
    """Return the problem of an addition that changed more than it should: something is shared by anchor or merge."""
    listed = got if isinstance(got, list) else []
    index = next((i for i, (a, b) in enumerate(zip(listed, wanted, strict=False)) if a != b), 0)
    place = document.mark((key, index))
    advice = "write out what this case takes over by anchor, alias or merge key"
    message = "what is added to another case would change this one, too"
    return Problem(document.path, message, *place, f"$.{key}[{index}]", advice)
