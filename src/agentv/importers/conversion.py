"""Values of eval files and results for conversion: as written, or translated from AgentV's keys to ours."""

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, field

from agentv.importers.agentv.generations import DIALECT_KEY, find_generation
from agentv.loading.files.documents import Document, Mark
from agentv.loading.files.json_lines import parse_json, quick_json
from agentv.loading.files.kinds import CASE_KEYS, YAML_SUFFIXES
from agentv.loading.files.path_guard import (
    FileProblemError,
    PathGuard,
    case_files,
    find_matching,
    guard_for,
    is_pattern,
)
from agentv.loading.files.places import is_file_path, is_folder_path, side_file
from agentv.loading.files.text import MAX_BYTES, TOO_LARGE, decode, read_bytes, read_lines, shown
from agentv.loading.models.eval_files import SuiteModel
from agentv.loading.models.reader import Reader, in_order, open_yaml
from agentv.loading.suites.suites import open_suite
from agentv.loading.translation.importers import SuiteImport, importers_of
from agentv.registry import Specs
from agentv.types.errors import ConfigError, EvalFileError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem

RecordKind: TypeAlias = Literal["eval", "results"]
_RESULT_KEYS = frozenset({"eval_id", "target", "status"})


class Records(Struct, frozen=True):
    """The records of a file, read lazily: cases or results."""

    kind: RecordKind
    items: Iterator[JsonObject]
    top: Mapping[str, JsonValue] = field(default_factory=dict)
    """The other keys of an eval file."""


def read_records(path: Path) -> Records:
    """Return the cases of an eval file, or the results of a results file.

    Raises ConfigError for another file, and EvalFileError for invalid content, perhaps only while records are read.
    """
    if path.suffix == ".jsonl":
        return _read_json_lines(path)
    if path.suffix in YAML_SUFFIXES:
        return _read_yaml(path)
    raise ConfigError(f"cannot convert {path}: its name must end in .yaml, .yml or .jsonl")


class Translated(Struct, frozen=True):
    """An eval file of any AgentV version, translated to our own keys, and the problems of the translation."""

    records: Records
    problems: tuple[Problem, ...]


def read_translated(path: Path, specs: Specs) -> Translated:
    """Return the cases of an eval file of any AgentV version, translated to our own keys.

    They include the cases in other files that it names. References to variables stay as they are. Raises EvalFileError
    for a file that is refused, and ConfigError if a name in it matches no file, or a listed case is not an object.
    """
    importers_of(specs).check_readable(path)
    data = b"" if path.suffix == ".jsonl" else read_bytes(path)
    guard = guard_for(path.resolve().parent, cwd=Path.cwd())
    reader, importer = open_suite(path, data, specs, env=None, root=guard.root)
    problems = list(reader.all_problems())
    value = reader.document.value
    top = {key: item for key, item in value.items() if key not in CASE_KEYS} if isinstance(value, Mapping) else {}
    listed = next((value[key] for key in CASE_KEYS if isinstance(value, Mapping) and key in value), None)
    cases: list[JsonObject] = []
    if path.suffix == ".jsonl":
        cases += _translated_lines(path, importer, problems)
    for item in listed if isinstance(listed, list) else [listed]:
        if isinstance(item, Mapping):
            cases.append(item)
        elif isinstance(item, str):
            for file in _named_files(path.parent, item.removeprefix("file://"), guard):
                cases += _cases_of_file(file, importer, problems)
    if any(problem.severity == "error" for problem in problems):
        raise EvalFileError(shown(path), in_order(problems))
    records = Records("eval", iter(cases), {DIALECT_KEY: "agentv", **top})
    return Translated(records, in_order(problems))


def _named_files(folder: Path, pattern: str, guard: PathGuard) -> list[Path]:
    """Return the files of cases that an eval file in `folder` names. Raises ConfigError if there are none."""
    place = folder / pattern
    try:
        if is_pattern(pattern):
            found = find_matching(pattern, folder, guard)
        elif is_folder_path(place):
            found = case_files(place, pattern, guard)
        else:
            guard.check(place, pattern)
            found = [place] if is_file_path(place) else []
    except FileProblemError as error:
        raise ConfigError("; ".join(filter(None, (error.message, error.allowed)))) from None
    if not found:
        raise ConfigError(f"no file matches {pattern!r} in {folder}")
    return found


def _cases_of_file(path: Path, importer: SuiteImport, problems: list[Problem]) -> Iterator[JsonObject]:
    """Yield the cases of a file that an eval file names, in our own keys."""
    if path.suffix == ".jsonl":
        yield from _translated_lines(path, importer, problems)
        return
    reader = open_yaml(path)
    if isinstance(reader.document.value, dict) and path.stem == "case":
        reader.document.value.setdefault("id", path.parent.name)
    reader = importer.cases(reader)
    problems += reader.all_problems()
    value = reader.document.value
    listed = next((value[key] for key in CASE_KEYS if isinstance(value, Mapping) and key in value), value)
    yield from _checked_objects(listed if isinstance(listed, list) else [listed], path)


def _translated_lines(path: Path, importer: SuiteImport, problems: list[Problem]) -> Iterator[JsonObject]:
    for number, line in enumerate(_lines(path), 1):
        reader: Reader = Reader(Document(shown(path), line, Mark(number, 1)))
        reader = importer.cases(reader) if importer.applies_to(line) else reader
        problems += reader.all_problems()
        yield from _checked_objects([reader.document.value], path)


def _read_json_lines(path: Path) -> Records:
    items = _lines(path)
    first = next(items, None)
    if first is None:
        raise EvalFileError(shown(path), (Problem(shown(path), "the file is empty"),))
    if first.keys() >= _RESULT_KEYS:
        return Records("results", chain([first], items))
    side = side_file(path)
    top = open_yaml(side).document.value if side is not None else {}
    return Records("eval", chain([first], items), top if isinstance(top, Mapping) else {})


def _lines(path: Path) -> Iterator[JsonObject]:
    name = shown(path)
    for number, line in enumerate(read_lines(path), 1):
        if len(line) > MAX_BYTES:
            raise EvalFileError(name, (Problem(name, f"this line {TOO_LARGE}", number, 1),))
        if line.strip():
            yield _parse_object(decode(line, name, first_line=number).rstrip("\r\n"), name, number)


def _parse_object(text: str, name: str, number: int) -> JsonObject:
    document = quick_json(text, name, number)
    if document is None:
        document, problems = parse_json(text, name, number)
        if document is None or problems:
            raise EvalFileError(name, problems)
    if not isinstance(document.value, Mapping):
        raise EvalFileError(name, (Problem(name, "a line must be a JSON object", number, 1),))
    return document.value


def _read_yaml(path: Path) -> Records:
    """Return the cases of an eval file, or the results of a list. Raises ConfigError for any other content."""
    reader = open_yaml(path)
    if reader.problems:
        raise EvalFileError(reader.document.path, reader.problems)
    value = reader.document.value
    if isinstance(value, list):
        return Records("results", iter(_checked_objects(value, path)))
    generation = find_generation(value)
    if generation.is_foreign:
        raise ConfigError(f"{path} is an eval file of {generation.title}; add --to agentv to convert it to our keys")
    key = SuiteModel.names().spelling_in(value, "evalcases")
    if not isinstance(value, Mapping) or key is None:
        raise ConfigError(f"cannot convert {path}: it has neither `evalcases` nor a list of results")
    cases = value[key]
    if not isinstance(cases, list):
        raise ConfigError(f"cannot convert {path}: its cases are in other files; convert those")
    top = {name: inner for name, inner in value.items() if name != key}
    return Records("eval", iter(_checked_objects(cases, path)), top)


def _checked_objects(values: list[JsonValue], path: Path) -> list[JsonObject]:
    objects = [value for value in values if isinstance(value, Mapping)]
    if len(objects) < len(values):
        raise ConfigError(f"cannot convert {path}: every entry of its list must be an object")
    return objects
