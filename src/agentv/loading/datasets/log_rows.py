"""Rows of tables and Parquet files that are logs: cells with JSON are parsed, and empty ones are no values."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from agentv.loading.datasets.rows import PARQUET, TABLES, Row, open_rows
from agentv.loading.files.text import shown
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonObject, JsonValue, snake_case
from agentv.types.log_shapes.fields import decoded

_OBJECTS = frozenset(
    "messages message_history context criteria agent_config usage metadata tags inputs outputs extra".split()  # noqa: SIM905 - a list of words
)
"""The columns whose values are objects or lists, which tables hold as JSON."""
_TEXTS = frozenset({"prompt", "response"})
"""The columns whose empty text is a value."""


def is_table(path: Path) -> bool:
    """Return True for a table or Parquet file by its name."""
    return path.suffix.lower() in (*TABLES, PARQUET)


def log_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a table or Parquet file, each with its line; one that cannot be read has problems.

    Raises EvalFileError for a file that cannot be read at all, MissingExtraError for Parquet without its package.
    """
    for row in open_rows(path) or ():
        yield row._replace(values=logged_values(row.values))


def whole_rows(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """Yield the values of the rows, each with its line. Raises EvalFileError at a row that cannot be read."""
    for row in log_rows(path):
        if row.problems:
            raise EvalFileError(shown(path), row.problems)
        yield row.line, row.values


def logged_values(row: JsonObject) -> dict[str, JsonValue]:
    """Return the values of a row of a table as a log has them."""
    return {name: _value(name, value) for name, value in row.items() if name in _TEXTS or value not in ("", None)}


def _value(name: str, value: JsonValue) -> JsonValue:
    if isinstance(value, str) and snake_case(name) in _OBJECTS:
        found = decoded(value)
        return value if found is None else found
    if isinstance(value, Mapping):
        return {key: item for key, item in value.items() if item is not None}
    return value
