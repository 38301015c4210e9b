"""Recognition of the program that a file to convert comes from, by the shape of the file."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from agentv.importers.agentv.generations import FIFTH_MESSAGE, fifth_key, is_agentv_suite
from agentv.importers.deepeval import convert_deepeval, is_deepeval, is_golden
from agentv.importers.inspect_log import SUFFIX as INSPECT_SUFFIX
from agentv.importers.inspect_log import is_inspect_json
from agentv.importers.located import Converted, Losses, open_located
from agentv.importers.promptfoo.configurations import convert_promptfoo, is_promptfoo
from agentv.importers.pydantic_evals import (
    REPORT_ADVICE,
    convert_pydantic_evals,
    is_pydantic_evals,
    is_report,
)
from agentv.loading.files.kinds import CASE_KEYS
from agentv.loading.files.text import read_lines
from agentv.types.errors import ConfigError, EvalFileError
from agentv.types.json_value import JsonValue

Converter: TypeAlias = Callable[[Path, Path], Converted]
"""Converts a file to an eval file; the second path is where the result will be written."""

_CODE_SUFFIXES = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts")


def is_inspect_log(path: Path) -> bool:
    """Return True for a log of inspect, by its suffix, or by its first keys if it is JSON."""
    if path.suffix == INSPECT_SUFFIX:
        return True
    return path.suffix.lower() == ".json" and is_inspect_json(path)


def find_converter(path: Path) -> Converter | None:
    """Return the converter of a file; None if it is ours or unknown.

    Raises ConfigError for code, a file of AgentV 5, results, a file without cases and JSON of an unknown format, and
    EvalFileError for JSON that cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix in _CODE_SUFFIXES:
        raise ConfigError(f"cannot convert {path}: it is code; write the configuration as YAML or JSON first")
    if suffix == ".jsonl":
        return convert_deepeval if _has_goldens(path) else None
    if suffix not in {".yaml", ".yml", ".json"}:
        return None
    try:
        value = open_located(path, Losses()).value
    except EvalFileError:
        if suffix == ".json":
            raise
        return None  # the reader of our own files reports it
    if isinstance(value, Mapping) and is_agentv_suite(value) and fifth_key(value) is not None:
        raise ConfigError(f"cannot convert {path}: it is {FIFTH_MESSAGE}")
    if (reason := _why_not_converted(value)) is not None:
        raise ConfigError(f"cannot convert {path}: {reason}")
    for matches, _, convert in _PROGRAMS:
        if matches(value):
            return convert
    if suffix == ".json":
        raise ConfigError(f"cannot convert {path}: its format is not known ({_CONVERTIBLE})")
    return None


def _why_not_converted(value: JsonValue) -> str | None:
    """Return why a file has nothing to convert; None if it may have."""
    for matches, results, advice in _RESULTS:
        if matches(value):
            return f"it has {results}; {advice}"
    is_empty = value == [] or (isinstance(value, Mapping) and any(value.get(key) == [] for key in CASE_KEYS))
    return "it has no cases" if is_empty and not is_promptfoo(value) else None


def other_program(path: Path) -> str | None:
    """Return the kind of a file of another program, by its content; None if the program is not known."""
    if path.suffix.lower() not in (".yaml", ".yml", ".json"):
        return None
    if is_inspect_log(path):
        return "a log of inspect"
    try:
        value = open_located(path, Losses()).value
    except EvalFileError:
        return None
    return next((kind for matches, kind, _ in _PROGRAMS if matches(value)), None)


_PROGRAMS: tuple[tuple[Callable[[JsonValue], bool], str, Converter], ...] = (
    (is_promptfoo, "a promptfoo configuration", convert_promptfoo),
    (is_pydantic_evals, "a dataset of pydantic-evals", convert_pydantic_evals),
    (is_deepeval, "a dataset of DeepEval", convert_deepeval),
)
"""The test of a file's content, the kind of file in messages, and the converter, for each program."""


def _has_keys(*keys: str) -> Callable[[JsonValue], bool]:
    return lambda value: isinstance(value, Mapping) and value.keys() >= set(keys)


def _is_deepeval_run(value: JsonValue) -> bool:
    """Return True for what `evaluate` of DeepEval returns, and for the files of the last run in `.deepeval`."""
    keys = value.keys() if isinstance(value, Mapping) else frozenset[str]()
    return "testRunData" in keys or {"testCases", "metricsScores"} <= keys or {"test_results", "confident_link"} <= keys


_RESULTS: tuple[tuple[Callable[[JsonValue], bool], str, str], ...] = (
    (is_report, "results of pydantic-evals", f"convert the file that Dataset.to_file wrote; {REPORT_ADVICE}"),
    (_has_keys("results", "config", "evalId"), "results of promptfoo", "convert its configuration"),
    (_is_deepeval_run, "results of DeepEval", "convert the goldens that save_as wrote"),
)
"""The test of a file's content, its results, and what to do, for results that cannot be converted."""
_CONVERTIBLE = "a configuration of promptfoo, a log of inspect, a dataset of DeepEval or pydantic-evals"


def _has_goldens(path: Path) -> bool:
    """Return True if the first line is a golden of DeepEval."""
    line = next((line for line in read_lines(path) if line.strip()), b"")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and is_golden(value)
