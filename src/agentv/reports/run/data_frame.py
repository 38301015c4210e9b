"""A run's results as a data frame: a row for each result, in pandas, polars or Arrow."""

import importlib
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from agentv.reports.run.row_text import is_judged
from agentv.types.errors import MissingExtraError
from agentv.types.records.result import CaseResult

Cell: TypeAlias = str | float | int | None

TEXTS = ("suite", "case", "target", "prompt", "status", "verdict", "reasoning", "error", "answer", "tags")
"""The columns of texts; `trial` has whole numbers, and all other columns have floats."""

TRIAL = "trial"


def columns_of(rows: Iterable[CaseResult]) -> dict[str, list[Cell]]:
    """Return the columns of results by name: the evaluators' scores follow the score of the case."""
    listed = list(rows)
    names = dict.fromkeys(each.name for row in listed for each in row.evaluator_results)
    columns: dict[str, list[Cell]] = {
        "suite": [row.slot.suite for row in listed],
        "case": [row.eval_id for row in listed],
        "target": [row.target for row in listed],
        "prompt": [row.prompt for row in listed],
        TRIAL: [row.trial for row in listed],
        "status": [row.status for row in listed],
        "verdict": [row.verdict for row in listed],
        "score": [row.score for row in listed],
    }
    for name in names:
        columns[f"score.{name}"] = [_score(row, name) for row in listed]
    return {
        **columns,
        "reasoning": [row.reasoning or "; ".join(row.misses) or None for row in listed],
        "error": [None if row.error is None else row.error.message for row in listed],
        "answer": [row.candidate_answer for row in listed],
        "duration_ms": [row.duration_ms for row in listed],
        "cost_usd": [row.cost_usd for row in listed],
        "tags": [", ".join(row.tags) for row in listed],
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
        kinds = {name: _kind(name, "object", "int64", "float64") for name in columns}
        return pandas.DataFrame({name: pandas.Series(cells, dtype=kinds[name]) for name, cells in columns.items()})
    if _is_installed("polars"):
        polars = importlib.import_module("polars")
        kinds = {name: _kind(name, polars.String, polars.Int64, polars.Float64) for name in columns}
        return polars.DataFrame(dict(columns), schema=kinds)
    if _is_installed("arro3.core"):
        arrow = importlib.import_module("arro3.core")
        kind = arrow.DataType
        kinds = {name: _kind(name, kind.string(), kind.int64(), kind.float64()) for name in columns}
        return arrow.Table.from_pydict({name: arrow.Array(cells, type=kinds[name]) for name, cells in columns.items()})
    raise MissingExtraError("a data frame without pandas or polars", "parquet")


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # the package above is missing, or was blocked
        return False


def _kind(name: str, text: Any, whole: Any, number: Any) -> Any:
    return whole if name == TRIAL else text if name in TEXTS else number
