"""The options of every command that continues a stored run: its team store, its budget, its folders."""

import os
from collections.abc import Callable
from typing import Any

import click
from msgspec import Struct

from agentv.cli.allow_path import ALLOW_PATH_OPTION


class ContinueOptions(Struct, frozen=True):
    """The values of `--store`, `--budget-usd` and `--allow-path` (absolute) for a run that is continued."""

    store: str | None = None
    budget_usd: float | None = None
    allow_paths: tuple[str, ...] = ()


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
    return STORE_OPTION(BUDGET_OPTION(ALLOW_PATH_OPTION(function)))


def take_continue_options(given: dict[str, Any]) -> ContinueOptions:
    """Return how a stored run is continued, removing the options from `given`."""
    # A run is continued in the folder that it was started in.
    allow_paths = tuple(os.path.abspath(path) for path in given.pop("allow_paths", ()))  # noqa: PTH100 - resolved later
    return ContinueOptions(given.pop("store"), given.pop("budget_usd", None), allow_paths)
