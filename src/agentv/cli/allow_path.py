"""The option `--allow-path` of every command that reads files which name other files."""

from collections.abc import Callable
from typing import Any

import click

ALLOW_PATH_OPTION: Callable[..., Any] = click.option(
    "--allow-path",
    "allow_paths",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Let eval files and configurations use files in DIR, a folder outside the project; repeatable.",
)
