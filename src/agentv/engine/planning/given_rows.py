"""Cases given from Python as rows: dicts, a data frame, or a table file whose variables fill the evaluators."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from msgspec.structs import replace

from agentv.loading.datasets.rows import ListedRows, open_rows
from agentv.loading.files.kinds import PARQUET_SUFFIX, TABLE_DELIMITERS
from agentv.loading.suites.suites import load_suite
from agentv.loading.suites.variables import texts_in
from agentv.registry import Specs
from agentv.scoring.keys.identity import evaluator_to_json
from agentv.templating.case_variables import has_variables
from agentv.types.cases import BrokenCase, EvalCase, EvalSuite, EvaluatorConfig, ListedCases
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonValue, snake_case
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

_TABLE_SUFFIXES = (*TABLE_DELIMITERS, PARQUET_SUFFIX)
_CASE_FIELDS = frozenset(EvalCase.__struct_fields__)
_ROW_FIELDS = frozenset({"id", "expected_outcome", "criteria", "tags", "metadata"})
"""The fields of a case that a row may give; the others need a case."""


def is_table_file(source: object) -> bool:
    """Return True for the path of a table (CSV, TSV, Parquet)."""
    return isinstance(source, str | os.PathLike) and Path(source).suffix.lower() in _TABLE_SUFFIXES


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
    """Return True for rows; False for cases, and for dicts that have only fields of a case."""
    return any(isinstance(item, Mapping) and not _has_only_case_fields(item) for item in items)


def _has_only_case_fields(item: Mapping[str, Any]) -> bool:
    return all(snake_case(str(key)) in _CASE_FIELDS for key in item)


def rows_in_memory(items: Sequence[object]) -> ListedRows:
    """Return rows given as dicts. Raises ConfigError for a row that is a case, or has fields that only a case has."""
    for number, item in enumerate(items, 1):
        if isinstance(item, EvalCase):
            raise ConfigError(f"rows:{number}: an EvalCase among rows; give either cases or rows")
        is_row = isinstance(item, Mapping) and "input_messages" not in item and "inputMessages" not in item
        wrong = [key for key in cast(Mapping[str, Any], item) if key in _CASE_FIELDS - _ROW_FIELDS] if is_row else []
        if wrong:
            raise ConfigError(
                f"rows:{number}: {wrong[0]!r} is a field of a case, which a row cannot set; "
                "give an EvalCase, or a dict that has only the fields of EvalCase"
            )
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
    return any(has_variables(text) for _, text in texts_in(cast(JsonValue, config)))


def suite_of_rows(
    source: str | os.PathLike[str] | ListedRows,
    evaluators: Sequence[object] | None,
    specs: Specs,
    options: RunOptions,
) -> EvalSuite:
    """Return the suite of a table file or of rows in memory; `evaluators` are used if one of them has variables.

    These are filled with the columns of each row. Raises EvalFileError with the problems of all rows.
    """
    filled = [each for each in evaluators or () if _has_variables(each)]
    others = [each for each in evaluators or () if filled and not _has_variables(each)]
    path = Path.cwd() / GIVEN_SUITE if isinstance(source, ListedRows) else Path(source)
    rows = source if isinstance(source, ListedRows) else open_rows(path)
    suite = load_suite(
        path,
        specs=specs,
        allow_paths=options.allow_paths,
        variables=parse_variables(options.variables),
        evaluators_given=evaluators is not None and not filled,
        content=json.dumps({"evalcases": {"file": path.name}, **_document_of(filled)}).encode(),
        rows=rows,
    )
    if others:
        suite = replace(suite, cases=ListedCases(tuple(_with_others(suite, others))))
    if isinstance(source, ListedRows):
        nowhere = tuple(replace(each, location=None) if isinstance(each, EvalCase) else each for each in suite.cases)
        suite = replace(suite, path=GIVEN_SUITE, dataset=GIVEN_SUITE, cases=ListedCases(nowhere))
    return suite


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
