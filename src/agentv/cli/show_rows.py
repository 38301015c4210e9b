"""Which rows of a stored run `agentv show` shows: all as they stand, or those that its options ask for."""

from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from agentv.cli.indexed import run_index
from agentv.storage.row_query import PAGE_SIZE, RowPage, RowQuery
from agentv.storage.stored_run import StoredRun
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.records.result import CaseResult

FAILED_STATES = ("fail", "borderline", "error")


class ShownRows(Struct, frozen=True):
    """The rows that are asked for; `page` says what they are a part of, None when they are all of the run's."""

    rows: Iterable[CaseResult]
    page: RowPage | None = None

    def counts(self, stored: StoredRun) -> Mapping[str, int]:
        """Return how many rows of the whole run are in each state."""
        return stored.counts() if self.page is None else self.page.counts


def make_query(case: str | None, *, failed: bool, sort: str, page: int | None, **filters: Any) -> RowQuery:
    """Return what the options ask for; without `--page` one page of all. Raises ConfigError when they contradict."""
    states, page_size, metadata = filters.pop("states"), filters.pop("page_size"), filters.pop("metadata")
    if failed and states:
        raise ConfigError("--failed and --state both choose by state; give one of them")
    if page is None and page_size is not None:
        page = 1
    return RowQuery(
        case=case,
        states=FAILED_STATES if failed else states,
        metadata=dict(map(_key_and_value, metadata)),
        sort=sort.removeprefix("-"),  # type: ignore[arg-type]  # click has refused what is no sort key
        is_descending=sort.startswith("-"),
        page=page or 1,
        page_size=None if page is None else page_size or PAGE_SIZE,
        **filters,
    )


def _key_and_value(asked: str) -> tuple[str, str | None]:
    key, equals, value = asked.partition("=")
    return key, value if equals else None


def find_rows(home: Path, stored: StoredRun, query: RowQuery, *, verbose: bool) -> ShownRows:
    """Return the rows that a query asks for: from the index, unless it asks for all of them as they stand."""
    if query == RowQuery(page_size=None):
        return ShownRows(stored.results())
    with run_index(home, verbose=verbose) as index:
        page = index.page(stored, query)
    if page.skipped:
        # Whoever reads a run is told of the line that cannot be read.
        deque(stored.results(), maxlen=0)
        click.echo(f"lines of run {stored.run_id} that are left out: {page.skipped:,}", err=True)
    return ShownRows(stored.results_at((row.line, row.offset, row.size) for row in page.rows), page)


def page_text(page: RowPage, query: RowQuery) -> str:
    """Return `rows 51 to 100 of 1,234; page 2 of 25`."""
    size = query.page_size or max(1, page.total)
    first = (query.page - 1) * size
    pages = max(1, -(-page.total // size))
    part = f"rows {first + 1:,} to {first + len(page.rows):,}" if page.rows else "no rows"
    return f"{part} of {page.total:,}; page {query.page:,} of {pages:,}"


def page_to_json(page: RowPage, query: RowQuery) -> JsonObject:
    """Return what `--json` says of a page: its place, and the counts to narrow it by."""
    return {
        "number": query.page,
        "size": query.page_size,
        "total": page.total,
        "skipped_lines": page.skipped,
        "facets": {
            "states": page.facets.states,
            "targets": page.facets.targets,
            "tags": page.facets.tags,
            "suites": page.facets.suites,
        },
    }
