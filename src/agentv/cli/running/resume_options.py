"""The options of every command that continues a stored run: its team store and its budget."""

from collections.abc import Callable
from typing import Any

import click
from msgspec import Struct


class ContinueOptions(Struct, frozen=True):
    """The values of `--store` and `--budget-usd` for a run that is continued."""

    store: str | None = None
    budget_usd: float | None = None


STORE_OPTION: Callable[..., Any] = click.option(
    "--store", metavar="URL", help="Team database to use instead of the default; 'none': no database."
)
BUDGET_OPTION: Callable[..., Any] = click.option(
    "--budget-usd",
    type=click.FloatRange(min=0, min_open=True),
    metavar="X",
    help="Spend at most X dollars from now on (default: the rest of the budget).",
)


def resume_options(function: Callable[..., Any]) -> Any:
    """Add these options to a command; `take_continue_options` reads their values."""
    return STORE_OPTION(BUDGET_OPTION(function))


def take_continue_options(given: dict[str, Any]) -> ContinueOptions:
    """Return how a stored run is continued, removing the options from `given`."""
    return ContinueOptions(given.pop("store"), given.pop("budget_usd", None))
