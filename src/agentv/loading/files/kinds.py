"""The kinds of files: by the suffix, the top-level keys of a YAML file, or the first line of a JSON Lines file."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import yaml

from agentv.loading.files.text import BYTE_ORDER_MARK, MAX_BYTES, read_lines
from agentv.types.log_shapes.fields import decoded, is_otlp

YAML_SUFFIXES = (".yaml", ".yml")
TABLE_DELIMITERS = {".csv": ",", ".tsv": "\t"}
LINE_SUFFIXES = (".jsonl", ".ndjson")
PARQUET_SUFFIX = ".parquet"
ROW_SUFFIXES = (*TABLE_DELIMITERS, *LINE_SUFFIXES, PARQUET_SUFFIX)
"""The suffixes of files of rows."""
FUNCTION_REFERENCE = re.compile(r"(?P<path>.+\.py):(?P<name>[^\W\d]\w*)")
"""A dataset that is a function: `PATH.py:NAME`."""
CASE_KEYS = ("evalcases", "cases", "tests", "eval_cases")
"""The spellings of the key of the cases."""
SKILLS_FILE = "evals.json"
"""The name of Agent Skills' eval files."""
CONFIG_FILES = (".agentv.yaml", ".agentv/config.yaml")
CRITERIA_FILE = ".agentv/criteria.yaml"
_START_BYTES = 2**20
_EVAL_SCHEMA = "agentv-eval"
_TARGETS_SCHEMA = "agentv-targets"
_EVALUATION_SCHEMA = "agentv-evaluation"
_EVALUATION_KEYS = ("evaluators", "evaluator_configs", "evaluatorConfigs")
_CASES_LINE = re.compile(r"^['\"]?(?:evalcases|cases|tests|eval_cases)['\"]?\s*:", re.MULTILINE)

_RECORD_SCHEMA = re.compile(r'"schema"\s*:\s*"agentv-(\w+)-')
_RECORD_NOUNS = {"result": "results", "baseline": "a baseline", "label": "labels"}

FileKind: TypeAlias = Literal["eval", "targets", "config", "evaluation", "other"]


def kind_of_file(path: Path) -> FileKind:
    """Return the kind of a YAML file: by its name for "config", otherwise by its top-level keys or its `$schema`.

    An eval file has cases, a targets file has targets, and a configuration of `run_evaluation` has evaluators, but
    neither cases nor targets. A file that is not valid YAML is an eval file if one of its lines starts with the key of
    the cases.
    """
    if f"/{path.as_posix()}".endswith(tuple(f"/{name}" for name in (*CONFIG_FILES, CRITERIA_FILE))):
        return "config"
    text = start_of(path)
    try:
        return _kind_by_entries(_top_level_entries(text))
    except yaml.YAMLError:
        return "eval" if _CASES_LINE.search(text) else "other"


def has_cases(path: Path) -> bool:
    """Return True if a YAML file has the key of the cases, as far as it can be read."""
    text = start_of(path)
    try:
        return any(key in CASE_KEYS for key, _ in _top_level_entries(text))
    except yaml.YAMLError:
        return _CASES_LINE.search(text) is not None


def top_level_keys(path: Path) -> tuple[str, ...]:
    """Return the top-level keys of a YAML file; () if it cannot be read."""
    try:
        return tuple(dict.fromkeys(key for key, _ in _top_level_entries(start_of(path))))
    except yaml.YAMLError:
        return ()


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


def record_noun(path: Path) -> str | None:
    """Return a noun for agentv's own records in a JSON Lines file, such as `results`; None for any other file."""
    line = _first_line(path)
    if (schema := _RECORD_SCHEMA.search(line)) is not None:
        return _RECORD_NOUNS.get(schema[1], f"records of agentv ({schema[1]})")
    try:
        record = json.loads(line)
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
    """Return True for a JSON Lines file whose first line that is not blank is an OTLP export."""
    lines = (line.removeprefix(BYTE_ORDER_MARK) for line in read_lines(path))
    first = next((line for line in lines if line.strip()), b"")
    return is_otlp(decoded(first.decode(errors="replace")))


def _kind_by_entries(entries: Iterable[tuple[str, str]]) -> FileKind:
    found: FileKind = "other"
    for entry in entries:
        kind = _kind_by_entry(entry)
        if kind == "evaluation":
            found = kind
        elif kind != "other":
            return kind
    return found


def _kind_by_entry(entry: tuple[str, str]) -> FileKind:
    key, value = entry
    if key in CASE_KEYS or (
        key == "$schema" and value.startswith(_EVAL_SCHEMA) and not value.startswith(_EVALUATION_SCHEMA)
    ):
        return "eval"
    if key == "targets" or (key == "$schema" and value.startswith(_TARGETS_SCHEMA)):
        return "targets"
    if key in _EVALUATION_KEYS or (key == "$schema" and value.startswith(_EVALUATION_SCHEMA)):
        return "evaluation"
    return "other"


def _top_level_entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield each top-level key of a YAML file with "", and again with its value if that is a scalar; parse lazily."""
    depth = 0
    key: str | None = None
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            key = None if depth == 1 else key
        elif isinstance(event, yaml.NodeEvent):
            if depth == 0 and not isinstance(event, yaml.MappingStartEvent):
                return
            scalar = event.value if isinstance(event, yaml.ScalarEvent) else ""
            if depth == 1 and key is None:
                key = scalar
                yield key, ""
            elif depth == 1 and not isinstance(event, yaml.CollectionStartEvent):
                yield str(key), scalar
                key = None
            depth += isinstance(event, yaml.CollectionStartEvent)
