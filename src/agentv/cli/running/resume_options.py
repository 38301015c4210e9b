"""The options of every command that goes on with a stored run: where it is shared, and what may be spent."""

from collections.abc import Callable
from typing import Any

import click
from msgspec import Struct


class Leg(Struct, frozen=True):
    """How a stored run goes on. `store` is `--store` as it was given, `budget_usd` what may be spent from now on."""

    store: str | None = None
    budget_usd: float | None = None


STORE_OPTION: Callable[..., Any] = click.option(
    "--store", metavar="URL", help="The team's database, instead of the run's own; 'none' for no store."
)
BUDGET_OPTION: Callable[..., Any] = click.option(
    "--budget-usd",
    type=click.FloatRange(min=0, min_open=True),
    metavar="X",
    help="Spend X dollars at most from now on, instead of what is left of the run's budget.",
)


def resume_options(function: Callable[..., Any]) -> Any:
    """Give a command these options; `make_resume_plan` reads what they were given."""
    return STORE_OPTION(BUDGET_OPTION(function))


def make_resume_plan(given: dict[str, Any]) -> Leg:
    """Return how a run goes on; its options are taken out of `given`."""
    return Leg(given.pop("store"), given.pop("budget_usd", None))
