"""The display and export options of every command that runs something."""

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
        help="Also write a report; the suffix selects the format "
        "(.html, .md, .junit.xml, .sarif, .csv, .jsonl, .yaml, .json). Use - to print JSON Lines.",
    ),
    click.option("--include-trace", is_flag=True, help="Include traces and output messages in the reports of -o."),
    click.option(
        "--display",
        type=click.Choice(["auto", "live", "plain", "json", "none"]),
        default="auto",
        show_default=True,
        help="How to show progress.",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Also print answers, retries and target warnings."),
    click.option("--log-file", metavar="FILE", help="Append every event of the run to FILE as JSON Lines."),
)


class OutputOptions(Struct, frozen=True):
    """Where a run is displayed and exported, besides its run folder. Files are relative to `folder`.

    `has_verdict` False leaves out the verdict that the display `none` prints.
    """

    display: str
    outputs: tuple[str, ...] = ()
    include_trace: bool = False
    verbose: bool = False
    log_file: str | None = None
    folder: Path = field(default_factory=Path.cwd)
    has_verdict: bool = True

    def stream(self, stdout: TextIO) -> TextIO:
        """Return the stream for text output: standard output, or standard error when an export uses the former."""
        return sys.stderr if STDOUT in self.outputs else stdout


def with_output_options(*, json_help: str = "Same as --display json.") -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator that adds these options to a command; `take_output_options` reads their values."""
    options = (*_OPTIONS, click.option("--json", "as_json", is_flag=True, help=json_help))

    def decorate(function: Callable[..., Any]) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def take_output_options(given: dict[str, Any]) -> OutputOptions:
    """Return what these options set, removing them from `given`."""
    display = given.pop("display")
    return OutputOptions(
        display="json" if given.pop("as_json") else display,
        outputs=tuple(dict.fromkeys(given.pop("outputs"))),  # a file named twice gets one writer
        include_trace=given.pop("include_trace"),
        verbose=given.pop("verbose"),
        log_file=given.pop("log_file"),
    )
