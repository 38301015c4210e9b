"""Raw values of eval files and results, for conversion to another format; nothing is interpreted."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, field

from agentv.loading.files.json_lines import parse_json, quick_json
from agentv.loading.files.kinds import YAML_SUFFIXES
from agentv.loading.files.places import side_file
from agentv.loading.files.text import MAX_BYTES, TOO_LARGE, decode, read_lines, shown
from agentv.loading.files.yaml import open_yaml
from agentv.loading.suites.models import SuiteModel
from agentv.types.errors import ConfigError, EvalFileError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem

Sort: TypeAlias = Literal["eval", "results"]
_RESULT_KEYS = frozenset({"eval_id", "target", "status"})


class Records(Struct, frozen=True):
    """The records of a file, read lazily: cases or results. `top` has the other keys of an eval file."""

    sort: Sort
    items: Iterator[JsonObject]
    top: Mapping[str, JsonValue] = field(default_factory=dict)


def read_records(path: Path) -> Records:
    """Return the cases of an eval file, or the results of a results file. Raises EvalFileError, now or later."""
    if path.suffix == ".jsonl":
        return _json_lines(path)
    if path.suffix in YAML_SUFFIXES:
        return _yaml(path)
    raise ConfigError(f"cannot convert {path}: its name must end in .yaml, .yml or .jsonl")


def _json_lines(path: Path) -> Records:
    items = _lines(path)
    first = next(items, None)
    if first is None:
        raise EvalFileError(shown(path), (Problem(shown(path), "the file is empty"),))
    if first.keys() >= _RESULT_KEYS:
        return Records("results", _chain(first, items))
    side = side_file(path)
    top = open_yaml(side).document.value if side is not None else {}
    return Records("eval", _chain(first, items), top if isinstance(top, Mapping) else {})


def _chain(first: JsonObject, others: Iterator[JsonObject]) -> Iterator[JsonObject]:
    yield first
    yield from others


def _lines(path: Path) -> Iterator[JsonObject]:
    name = shown(path)
    for number, line in enumerate(read_lines(path), 1):
        if len(line) > MAX_BYTES:
            raise EvalFileError(name, (Problem(name, f"this line {TOO_LARGE}", number, 1),))
        if line.strip():
            yield _object(decode(line, name, first_line=number).rstrip("\r\n"), name, number)


def _object(text: str, name: str, number: int) -> JsonObject:
    document = quick_json(text, name, number)
    if document is None:
        document, problems = parse_json(text, name, number)
        if document is None or problems:
            raise EvalFileError(name, problems)
    if not isinstance(document.value, Mapping):
        raise EvalFileError(name, (Problem(name, "a line must be a JSON object", number, 1),))
    return document.value


def _yaml(path: Path) -> Records:
    reader = open_yaml(path)
    if reader.problems:
        raise EvalFileError(reader.document.path, reader.problems)
    value = reader.document.value
    if isinstance(value, list):
        return Records("results", iter(_objects(value, path)))
    key = SuiteModel.names().spelling_in(value, "evalcases")
    if not isinstance(value, Mapping) or key is None:
        raise ConfigError(f"cannot convert {path}: it has neither `evalcases` nor a list of results")
    cases = value[key]
    if not isinstance(cases, list):
        raise ConfigError(f"cannot convert {path}: its cases are in other files; convert those")
    top = {name: inner for name, inner in value.items() if name != key}
    return Records("eval", iter(_objects(cases, path)), top)


def _objects(values: list[JsonValue], path: Path) -> list[JsonObject]:
    objects = [value for value in values if isinstance(value, Mapping)]
    if len(objects) < len(values):
        raise ConfigError(f"cannot convert {path}: every entry of its list must be an object")
    return objects
