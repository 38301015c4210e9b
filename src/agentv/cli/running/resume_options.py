"""The options that `resume`, `retry` and `rescore` share. Of these, `merge` has only `--store`."""

import os
from collections.abc import Callable
from typing import Any, Literal

import click
from msgspec import Struct

from agentv.cli.environment import environment_notes
from agentv.cli.options import ALLOW_PATH_OPTION, run_option


class ContinueOptions(Struct, frozen=True):
    """The values of these options; None means the default in the help of the option."""

    store: str | None = None
    quota: str | None = None
    budget_usd: float | None = None
    allow_paths: tuple[str, ...] = ()
    """Absolute paths, which are added to those stored with the run."""
    judge_failures: int | None = None
    backend: Literal["local", "ray"] | None = None
    ray_address: str | None = None
    shared_path: str | None = None
    notes: tuple[str, ...] = ()
    """Notes about environment variables that set options."""


STORE_OPTION: Callable[..., Any] = click.option(
    "--store",
    metavar="URL",
    help="Team database to use (default: the run's own, else AGENTV_STORE or .agentv.yaml); 'none': no database.",
)
QUOTA_OPTION: Callable[..., Any] = click.option(
    "--quota", metavar="URL", help="Share rate limits and named budgets through this database (default: the run's own)."
)
BUDGET_OPTION = run_option(
    "budget_usd", help="Spend at most X dollars from now on (default: the rest of the budget).", default=None
)
JUDGE_FAILURES_OPTION = run_option(
    "judge_failures",
    help="Stop when a judge could not score N answers in a row (default: the run's own).",
    default=None,
)
BACKEND_OPTION = run_option("backend", help="Run here or on a Ray cluster (default: the run's own).", default=None)
RAY_ADDRESS_OPTION = run_option("ray_address", help="Address of the Ray cluster (default: the run's own).")
SHARED_PATH_OPTION = run_option("shared_path", help="Folder that all machines share (default: the run's own).")


def with_continue_options(function: Callable[..., Any]) -> Any:
    """Add these options to a command; `take_continue_options` reads their values."""
    options = (
        STORE_OPTION,
        QUOTA_OPTION,
        BUDGET_OPTION,
        JUDGE_FAILURES_OPTION,
        BACKEND_OPTION,
        RAY_ADDRESS_OPTION,
        SHARED_PATH_OPTION,
        ALLOW_PATH_OPTION,
    )
    for option in reversed(options):
        function = option(function)
    return function


def take_continue_options(given: dict[str, Any]) -> ContinueOptions:
    """Return the values of these options, and remove them from `given`; `merge` gives only `store`."""
    # The run will be continued in the folder that it was started in, so relative paths would no longer be found.
    allow_paths = tuple(os.path.abspath(path) for path in given.pop("allow_paths", ()))  # noqa: PTH100 - resolved later
    return ContinueOptions(
        store=given.pop("store"),
        quota=given.pop("quota", None),
        budget_usd=given.pop("budget_usd", None),
        allow_paths=allow_paths,
        judge_failures=given.pop("judge_failures", None),
        backend=given.pop("backend", None),
        ray_address=given.pop("ray_address", None),
        shared_path=given.pop("shared_path", None),
        notes=environment_notes(click.get_current_context()),
    )
