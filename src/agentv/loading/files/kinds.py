"""The kinds of files: by the suffix, the top-level keys of a YAML file, or the first line of a JSON Lines file."""

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import yaml
from msgspec import Struct

from agentv.loading.files.text import BYTE_ORDER_MARK, MAX_BYTES, read_lines
from agentv.messages.logs.fields import decoded
from agentv.telemetry.otlp.spans import is_trace

YAML_SUFFIXES = (".yaml", ".yml")
TABLE_DELIMITERS = {".csv": ",", ".tsv": "\t"}
LINE_SUFFIXES = (".jsonl", ".ndjson")
PARQUET_SUFFIX = ".parquet"
TABLE_SUFFIXES = (*TABLE_DELIMITERS, PARQUET_SUFFIX)
ROW_SUFFIXES = (*TABLE_DELIMITERS, *LINE_SUFFIXES, PARQUET_SUFFIX)
"""The suffixes of files of rows."""
FUNCTION_REFERENCE = re.compile(r"(?P<path>.+\.py):(?P<name>[^\W\d]\w*)")
"""A dataset that is a function: `PATH.py:NAME`."""
CASE_KEYS = ("evalcases", "cases", "tests", "eval_cases")
"""The spellings of the key of the cases."""
PROMPTFOO_NAME = "promptfooconfig"
"""The start of the names of promptfoo's configurations."""
PROMPTFOO_KEYS = ("defaultTest", "evaluateOptions")
"""Top-level keys that only promptfoo's configurations have."""
SKILLS_FILE = "evals.json"
"""The name of Agent Skills' eval files."""
CONFIG_FILES = (".agentv.yaml", ".agentv/config.yaml")
CRITERIA_FILE = ".agentv/criteria.yaml"
_START_BYTES = 2**20
_EVAL_SCHEMA = "agentv-eval"
_TARGETS_SCHEMA = "agentv-targets"
_EVALUATION_SCHEMA = "agentv-evaluation"
EVALUATION_KEYS = ("evaluators", "evaluator_configs", "evaluatorConfigs")
_CASES_KEY = re.compile(r"\b(?:evalcases|cases|tests|eval_cases)['\"]?\s*:")
_CASES_LINE = re.compile(rf"^['\"]?{_CASES_KEY.pattern}", re.MULTILINE)

_RECORD_SCHEMA = re.compile(r'"schema"\s*:\s*"agentv-(\w+)-')
_RECORD_NOUNS = {"result": "results", "baseline": "a baseline", "label": "labels"}

FileKind: TypeAlias = Literal["eval", "targets", "config", "evaluation", "other"]
Shape: TypeAlias = Literal["scalar", "object", "empty", "objects", "mixed"]
"""The kind of a top-level value: `empty` is null or an empty list, `objects` a list of objects, `mixed` any other."""
_NULLS = frozenset({"", "~", "null"})


class Outline(Struct, frozen=True):
    """The top-level keys of a YAML file."""

    shapes: Mapping[str, Shape]
    """The shape of the value of each key, in order."""
    schema: str = ""
    """The value of `$schema`."""
    error: str | None = None
    """The reason why the file is not valid YAML, in which case the last keys may be missing."""
    has_cases: bool = False
    """True if one of the keys is that of the cases; the file is read no further."""


def outline_of(text: str) -> Outline:
    """Return the outline of the text of a YAML file."""
    shapes: dict[str, Shape] = {}
    schema, error, has_cases = "", None, False
    try:
        for key, value, shape in _top_level_entries(text):
            if key in CASE_KEYS:
                has_cases = True
                break
            shapes[key] = shape
            schema = value if key == "$schema" else schema
    except yaml.YAMLError as problem:
        error = " ".join(str(problem).split())
        has_cases = _CASES_LINE.search(text) is not None
    if "<<" in shapes:  # the keys of other objects are inserted here
        has_cases = has_cases or _CASES_KEY.search(text) is not None
    return Outline(shapes, schema, error, has_cases)


def is_promptfoo_outline(name: str, keys: Collection[str]) -> bool:
    """Return True if the name or the top-level keys of a YAML file look like those of a promptfoo configuration.

    The importers decide, by the whole content, whether it is one.
    """
    names_prompts = "providers" in keys and "prompts" in keys
    return name.startswith(PROMPTFOO_NAME) or names_prompts or any(key in keys for key in PROMPTFOO_KEYS)


def kind_of_file(path: Path) -> FileKind:
    """Return the kind of a YAML file: by its name for "config", otherwise by its top-level keys or its `$schema`.

    A file with the key of the cases is an eval file, whatever other keys it has; so is a promptfoo configuration, which
    is refused when it is read. A targets file has `targets` that are objects and no cases, and a configuration of
    `run_evaluation` has evaluators, but neither cases nor targets. A file that is not valid YAML is an eval file if one
    of its lines starts with the key of the cases.
    """
    return "config" if is_settings_file(path) else kind_of_outline(path.name, outline_of(start_of(path)))


def is_settings_file(path: Path) -> bool:
    """Return True for a file of settings or criteria of a project, which its name says."""
    return f"/{path.as_posix()}".endswith(tuple(f"/{name}" for name in (*CONFIG_FILES, CRITERIA_FILE)))


def kind_of_outline(name: str, outline: Outline) -> FileKind:
    """Return the kind of a YAML file, which is no file of settings of a project."""
    schema, shapes = outline.schema, outline.shapes
    is_evaluation = schema.startswith(_EVALUATION_SCHEMA)
    if outline.has_cases or (schema.startswith(_EVAL_SCHEMA) and not is_evaluation):
        return "eval"
    if is_promptfoo_outline(name, shapes):
        return "eval"
    if schema.startswith(_TARGETS_SCHEMA) or shapes.get("targets") in ("objects", "empty", "object"):
        return "targets"
    if is_evaluation or ("targets" not in shapes and not shapes.keys().isdisjoint(EVALUATION_KEYS)):
        return "evaluation"
    return "other"


def has_cases(path: Path) -> bool:
    """Return True if a YAML file has the key of the cases, as far as it can be read."""
    return outline_of(start_of(path)).has_cases


def start_of(path: Path) -> str:
    """Return the text of a regular file; the first MiB of a large one, "" if it cannot be read."""
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            is_large = os.fstat(file.fileno()).st_size > MAX_BYTES
            data = file.read(_START_BYTES if is_large else MAX_BYTES)
    except OSError:
        return ""
    return data.removeprefix(BYTE_ORDER_MARK).decode(errors="replace")


def record_schema(path: Path) -> str | None:
    """Return the kind of agentv's own records in a JSON Lines file, such as `result`; None for any other file."""
    schema = _RECORD_SCHEMA.search(_first_line(path))
    return None if schema is None else schema[1]


def record_noun(path: Path) -> str | None:
    """Return a noun for agentv's own records in a JSON Lines file, such as `results`; None for any other file."""
    if (schema := record_schema(path)) is not None:
        return _RECORD_NOUNS.get(schema, f"records of agentv ({schema})")
    try:
        record = json.loads(_first_line(path))
    except (ValueError, RecursionError):
        return None
    is_scored = isinstance(record, Mapping) and "score" in record and "input_messages" not in record
    return "results or labels" if is_scored else None


def _first_line(path: Path) -> str:
    """Return the first non-blank line in the first MiB of a regular file; "" if there is none, or if reading fails."""
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            while line := file.readline(_START_BYTES - file.tell()):
                text = line.removeprefix(BYTE_ORDER_MARK).decode(errors="replace")
                if text.strip():
                    return text
    except OSError:
        return ""
    return ""


def is_span_file(path: Path) -> bool:
    """Return True for a JSON Lines file whose first line that is not blank is an OTLP export or a span."""
    lines = (line.removeprefix(BYTE_ORDER_MARK) for line in read_lines(path))
    first = next((line for line in lines if line.strip()), b"")
    return is_trace(decoded(first.decode(errors="replace")))


def _top_level_entries(text: str) -> Iterator[tuple[str, str, Shape]]:
    """Yield each top-level key of a YAML file, its value if that is a scalar, and the shape of the value.

    The file is parsed lazily. The key of the cases is yielded before its value is parsed.
    """
    depth = 0
    key: str | None = None
    shape: Shape = "scalar"
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            if depth == 1 and key is not None:
                yield key, "", shape
                key = None
        elif isinstance(event, yaml.NodeEvent):
            if depth == 0 and not isinstance(event, yaml.MappingStartEvent):
                return
            scalar = event.value if isinstance(event, yaml.ScalarEvent) else ""
            if depth == 1 and key is None:
                key = scalar
                if key in CASE_KEYS:
                    yield key, "", "scalar"
            elif depth == 1 and not isinstance(event, yaml.CollectionStartEvent):
                is_null = isinstance(event, yaml.ScalarEvent) and event.style is None and scalar in _NULLS
                yield str(key), scalar, "empty" if is_null else "scalar"
                key = None
            elif depth == 1:
                shape = "object" if isinstance(event, yaml.MappingStartEvent) else "empty"
            elif depth == 2 and shape != "object":  # noqa: PLR2004 - the items of a top-level list
                is_object = isinstance(event, yaml.MappingStartEvent | yaml.AliasEvent) and shape != "mixed"
                shape = "objects" if is_object else "mixed"
            depth += isinstance(event, yaml.CollectionStartEvent)
