"""Cases given from Python as rows: dicts, a data frame, or a table file whose variables fill the evaluators."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from msgspec.structs import replace

from agentv.loading.datasets.rows import ListedRows, open_rows
from agentv.loading.files.kinds import TABLE_SUFFIXES
from agentv.loading.suites.suites import load_suite
from agentv.loading.suites.variables import needs_filling
from agentv.registry import Specs
from agentv.scoring.keys.identity import evaluator_to_json
from agentv.types.cases import BrokenCase, EvalCase, EvalSuite, EvaluatorConfig, ListedCases
from agentv.types.errors import ConfigError, EvalFileError
from agentv.types.json_value import JsonValue, snake_case
from agentv.types.problems import Problem
from agentv.types.run_options import RunOptions, parse_variables


class Table(Protocol):
    """A data frame of pandas or polars, or a table of Arrow: one row for each case."""

    @property
    def columns(self) -> Any:
        """The columns."""


GivenCases: TypeAlias = Iterable[EvalCase | Mapping[str, Any]] | Table
"""Cases, dicts of their fields, rows (`{input, expected}` with any other keys as variables), or a table of rows."""

GIVEN_SUITE = "cases"
"""The suite of cases that were given from Python."""

_CASE_KEYS = frozenset((*EvalCase.__struct_fields__, *EvalCase.KEYWORDS))
_ROW_KEYS = frozenset({"id", "expected_outcome", "criteria", "tags", "metadata", *EvalCase.KEYWORDS})
"""The keys of a case that a row may have, too."""


def is_table_file(source: object) -> bool:
    """Return True for the path of a table (CSV, TSV, Parquet)."""
    return isinstance(source, str | os.PathLike) and Path(source).suffix.lower() in TABLE_SUFFIXES


def items_of(given: object) -> list[EvalCase | Mapping[str, Any]]:
    """Return the cases or rows of a list, an iterable or a data frame. Raises ConfigError for any other object."""
    rows = given if isinstance(given, Sequence) and not isinstance(given, str | bytes) else _records(given)
    if rows is None or isinstance(given, Mapping):
        raise ConfigError(
            "evaluate() takes a path, an EvalSuite, an iterable of cases or rows, or a DataFrame; "
            f"got {type(given).__name__}"
        )
    return list(cast(Iterable[EvalCase | Mapping[str, Any]], rows))


def _records(given: object) -> Iterable[object] | None:
    """Return the rows of a data frame or an iterable; None for any other object. No package is imported."""
    if callable(iter_rows := getattr(given, "iter_rows", None)):  # polars
        return cast(Iterable[object], iter_rows(named=True))
    if callable(to_pylist := getattr(given, "to_pylist", None)):  # Arrow
        return cast(Iterable[object], to_pylist())
    if callable(to_dict := getattr(given, "to_dict", None)) and hasattr(given, "columns"):  # pandas
        return cast(Iterable[object], to_dict(orient="records"))
    return given if isinstance(given, Iterable) and not isinstance(given, str | bytes) else None


def are_rows(items: Sequence[EvalCase | Mapping[str, Any]]) -> bool:
    """Return True for rows; False for cases, and for dicts of which one has a key that only a case has."""
    keys = [frozenset(snake_case(str(key)) for key in item) for item in items if isinstance(item, Mapping)]
    return bool(keys) and not any(each & (_CASE_KEYS - _ROW_KEYS) for each in keys)


def rows_in_memory(items: Sequence[object]) -> ListedRows:
    """Return rows given as dicts. Raises ConfigError for an EvalCase among them."""
    for number, item in enumerate(items, 1):
        if isinstance(item, EvalCase):
            raise ConfigError(f"rows:{number}: an EvalCase among rows; give either cases or rows")
    return ListedRows("rows", tuple(_plain_row(item) for item in items))


def _plain_row(item: object) -> object:
    return {key: _plain_cell(value) for key, value in item.items()} if isinstance(item, Mapping) else item


def _plain_cell(value: object) -> object:
    """Return a cell of a data frame as a value of Python's own types; None for a missing one (NaN, NaT, NA)."""
    if value is None or isinstance(value, str):
        return value
    try:
        is_missing = bool(value != value)  # noqa: PLR0124 - NaN and NaT differ from themselves
    except (TypeError, ValueError):  # pandas.NA has no truth value, an array several
        is_missing = type(value).__name__ == "NAType"
    if is_missing:
        return None
    tolist = getattr(value, "tolist", None)  # scalars and arrays of numpy
    return tolist() if callable(tolist) else value


def uses_variables(evaluators: Sequence[object] | None) -> bool:
    """Return True if a given evaluator has a text with `{{ name }}`, to be filled for each row."""
    return evaluators is not None and not isinstance(evaluators, str) and any(map(_has_variables, evaluators))


def _has_variables(evaluator: object) -> bool:
    config = evaluator.settings if isinstance(evaluator, EvaluatorConfig) else evaluator
    if not isinstance(config, Mapping):
        return False
    return needs_filling(cast(JsonValue, config))


def suite_of_rows(
    source: str | os.PathLike[str] | ListedRows,
    evaluators: Sequence[object] | None,
    specs: Specs,
    options: RunOptions,
) -> EvalSuite:
    """Return the suite of a table file or of rows in memory; `evaluators` are used if one of them has variables.

    These are filled with the columns of each row. Raises EvalFileError with the problems of all rows.
    """
    indexes = [index for index, each in enumerate(evaluators or ()) if _has_variables(each)]
    filled = [(evaluators or ())[index] for index in indexes]
    others = [each for each in evaluators or () if filled and not _has_variables(each)]
    path = Path.cwd() / GIVEN_SUITE if isinstance(source, ListedRows) else Path(source)
    rows = source if isinstance(source, ListedRows) else open_rows(path)
    try:
        suite = load_suite(
            path,
            specs=specs,
            allow_paths=options.allow_paths,
            variables=parse_variables(options.variables),
            evaluators_given=evaluators is not None and not filled,
            content=json.dumps({"evalcases": {"file": path.name}, **_document_of(filled)}).encode(),
            rows=rows,
        )
    except EvalFileError as error:
        problems = (_at_given(each, indexes, is_file=source is not rows) for each in error.problems)
        raise EvalFileError(error.path, tuple(problems)) from None
    if others:
        suite = replace(suite, cases=ListedCases(tuple(_with_others(suite, others))))
    if isinstance(source, ListedRows):
        nowhere = tuple(replace(each, location=None) if isinstance(each, EvalCase) else each for each in suite.cases)
        suite = replace(suite, path=GIVEN_SUITE, dataset=GIVEN_SUITE, cases=ListedCases(nowhere))
    return suite


_MADE_PLACE = re.compile(r" \(used in [^)]*\)")
_EVALUATOR_PATH = re.compile(r"\$\.evaluators\[(\d+)\]")


def _at_given(problem: Problem, indexes: Sequence[int], *, is_file: bool) -> Problem:
    """Return a problem of an evaluator at its place in the given list, not in the eval file that was made of it.

    `indexes` are the places of the evaluators of that file.
    """
    found = _EVALUATOR_PATH.match(problem.json_path)
    if found is None:
        return problem
    json_path = f"$.evaluators[{indexes[int(found[1])]}]{problem.json_path[found.end() :]}"
    problem = replace(problem, message=_MADE_PLACE.sub("", problem.message), json_path=json_path)
    return replace(problem, path="evaluate()", line=0, column=0) if is_file else problem


def _document_of(evaluators: Sequence[object]) -> dict[str, JsonValue]:
    """Return the part of an eval file that has these evaluators, configs or dicts."""
    if not evaluators:
        return {}
    return {
        "evaluators": [
            evaluator_to_json(each) if isinstance(each, EvaluatorConfig) else dict(cast(Mapping[str, JsonValue], each))
            for each in evaluators
        ]
    }


def _with_others(suite: EvalSuite, others: Sequence[object]) -> Iterator[EvalCase | BrokenCase]:
    """Yield the cases, each with its own evaluators, or those of the suite, and then `others`."""
    for case in suite.cases:
        if isinstance(case, EvalCase):
            own = case.evaluators if case.evaluators is not None else suite.evaluators or ()
            yield replace(case, evaluators=cast(Any, tuple(chain(own, others))))
        else:
            yield case
