"""The options of every command that runs something: how it is shown, and where else it is written."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import click
from msgspec import Struct, field

from agentv.reports import STDOUT

_OPTIONS = (
    click.option(
        "-o",
        "--output",
        "outputs",
        multiple=True,
        metavar="FILE",
        help="Also write FILE, in the format of its end (.html, .md, .junit.xml, .sarif, .csv, .jsonl, .yaml, .json); "
        "- is rows on standard output.",
    ),
    click.option("--include-trace", is_flag=True, help="Exports carry traces and output messages."),
    click.option(
        "--display",
        type=click.Choice(["auto", "live", "plain", "json", "none"]),
        default="auto",
        show_default=True,
        help="How progress is shown.",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Say more: retries, fallbacks, warnings of targets."),
    click.option("--log-file", metavar="FILE", help="Append every event of the run to FILE, as JSON lines."),
)


class Screen(Struct, frozen=True):
    """Where a run is shown and written besides its folder. Files are relative to `folder`."""

    display: str
    outputs: tuple[str, ...] = ()
    include_trace: bool = False
    verbose: bool = False
    log_file: str | None = None
    folder: Path = field(default_factory=Path.cwd)

    def stream(self, stdout: TextIO) -> TextIO:
        """Return where people read: standard output, unless an export has it."""
        return sys.stderr if STDOUT in self.outputs else stdout


def screen_options(*, json_help: str = "The same as --display json.") -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator that gives a command these options; `take_screen` reads what they were given."""
    options = (*_OPTIONS, click.option("--json", "as_json", is_flag=True, help=json_help))

    def decorate(function: Callable[..., Any]) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def take_screen(given: dict[str, Any]) -> Screen:
    """Return where a run is shown and written; its options are taken out of `given`."""
    display = given.pop("display")
    return Screen(
        display="json" if given.pop("as_json") else display,
        outputs=tuple(dict.fromkeys(given.pop("outputs"))),  # one writer a file
        include_trace=given.pop("include_trace"),
        verbose=given.pop("verbose"),
        log_file=given.pop("log_file"),
    )
