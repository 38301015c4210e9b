"""The option `--var` of the commands that read eval files for a run."""

from collections.abc import Callable
from typing import Any

import click

VAR_OPTION: Callable[..., Any] = click.option(
    "--var",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of a variable of the eval files; repeatable.",
)
