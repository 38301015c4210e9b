"""A run's results as a data frame: a row for each result, in pandas, polars or Arrow."""

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from agentv.reports.run.row_text import is_judged
from agentv.types.errors import MissingExtraError
from agentv.types.records.result import CaseResult
from agentv.types.results import CaseTexts

Cell: TypeAlias = str | float | int | None

TEXTS = (
    "suite",
    "case",
    "target",
    "prompt",
    "status",
    "verdict",
    "question",
    "expected",
    "answer",
    "reasoning",
    "error",
    "tags",
    "change",
    "answer_before",
    "answer_after",
    "reason_before",
    "reason_after",
)
"""The columns of texts; `trial` has whole numbers, and all other columns have floats."""

TRIAL = "trial"


def columns_of(results: Sequence[CaseResult], texts: Sequence[CaseTexts]) -> dict[str, list[Cell]]:
    """Return the columns of results by name: the evaluators' scores follow the score of the case.

    `texts` are those of the case of each result.
    """
    names = dict.fromkeys(each.name for row in results for each in row.evaluator_results)
    columns: dict[str, list[Cell]] = {
        "suite": [row.slot.suite for row in results],
        "case": [row.eval_id for row in results],
        "target": [row.target for row in results],
        "prompt": [row.prompt for row in results],
        TRIAL: [row.trial for row in results],
        "status": [row.status for row in results],
        "verdict": [row.verdict for row in results],
        "score": [row.score for row in results],
    }
    for name in names:
        columns[f"score.{name}"] = [_score(row, name) for row in results]
    return {
        **columns,
        "question": [each.question or None for each in texts],
        "expected": [each.expected or None for each in texts],
        "answer": [row.candidate_answer for row in results],
        "reasoning": [row.reasoning or "; ".join(row.misses) or None for row in results],
        "error": [None if row.error is None else row.error.message for row in results],
        "duration_ms": [row.duration_ms for row in results],
        "cost_usd": [row.cost_usd for row in results],
        "tags": [", ".join(row.tags) for row in results],
    }


def _score(row: CaseResult, name: str) -> float | None:
    found = next((each for each in row.evaluator_results if each.name == name), None)
    return None if found is None or not is_judged(found) else found.score


def make_frame(columns: Mapping[str, Sequence[Cell]]) -> Any:
    """Return columns as a DataFrame of pandas, else of polars, else as an Arrow table (`__arrow_c_stream__`).

    Raises MissingExtraError if no package for any of them is installed.
    """
    if _is_installed("pandas"):
        pandas = importlib.import_module("pandas")
        types = {name: _column_type(name, "object", "int64", "float64") for name in columns}
        return pandas.DataFrame({name: pandas.Series(cells, dtype=types[name]) for name, cells in columns.items()})
    if _is_installed("polars"):
        polars = importlib.import_module("polars")
        types = {name: _column_type(name, polars.String, polars.Int64, polars.Float64) for name in columns}
        return polars.DataFrame(dict(columns), schema=types)
    if _is_installed("arro3.core"):
        arrow = importlib.import_module("arro3.core")
        data_type = arrow.DataType
        types = {
            name: _column_type(name, data_type.string(), data_type.int64(), data_type.float64()) for name in columns
        }
        return arrow.Table.from_pydict({name: arrow.Array(cells, type=types[name]) for name, cells in columns.items()})
    raise MissingExtraError("a data frame without pandas or polars", "parquet")


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # the package above is missing, or was blocked
        return False


def _column_type(name: str, text: Any, whole: Any, number: Any) -> Any:
    if name == TRIAL:
        return whole
    return text if name in TEXTS else number
