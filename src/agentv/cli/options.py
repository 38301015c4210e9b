"""The options that several commands share: display and exports, `--allow-path`, `--var`, and time spans."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import click
from msgspec import Struct, field

from agentv.reports import STDOUT, names_of

_SECONDS_PER_UNIT = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_SPAN_PATTERN = re.compile(r"(\d+(?:\.\d+)?) *([smhdw])")

VAR_OPTION: Callable[..., Any] = click.option(
    "--var",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of a variable of the eval files; repeatable.",
)

ALLOW_PATH_OPTION: Callable[..., Any] = click.option(
    "--allow-path",
    "allow_paths",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Let the given files use other files in DIR, a folder outside the project; repeatable.",
)

_OUTPUT_OPTIONS = (
    click.option(
        "-o",
        "--output",
        "outputs",
        multiple=True,
        metavar="FILE",
        help="Also write a report; repeatable. The suffix selects the format "
        f"(.{', .'.join(names_of())}). Use - to print JSON Lines.",
    ),
    click.option(
        "--include-trace", is_flag=True, help="Include traces and output messages in .jsonl and .yaml reports."
    ),
    click.option(
        "--display",
        type=click.Choice(["auto", "live", "plain", "json", "none"]),
        default="auto",
        show_default=True,
        help="Show progress as a live block, plain lines, events in JSON Lines, or not at all; "
        "auto: live on a terminal, else plain.",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Also print answers, retries and target warnings."),
    click.option("--log-file", metavar="FILE", help="Append every event of the run to FILE as JSON Lines."),
)


class Span(click.ParamType[float]):
    """A click parameter type for time spans; its value is in seconds."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return a time span in seconds. Raises click.BadParameter for 0 and for anything that is not a span.

        A float is returned as it is: click also passes values that are converted already.
        """
        if isinstance(value, float):
            return value
        found = _SPAN_PATTERN.fullmatch(str(value).strip().lower())
        seconds = float(found[1]) * _SECONDS_PER_UNIT[found[2]] if found else 0.0
        if seconds <= 0:
            self.fail(f"{value!r} is not a time span; write a number with s, m, h, d or w: 45m, 12h, 7d", param, ctx)
        return seconds


class OutputOptions(Struct, frozen=True):
    """How a run is displayed, and which files are written in addition to its run folder, relative to `folder`.

    The display `none` prints only the verdict, or nothing if `has_verdict` is False.
    """

    display: str
    outputs: tuple[str, ...] = ()
    include_trace: bool = False
    verbose: bool = False
    log_file: str | None = None
    folder: Path = field(default_factory=Path.cwd)
    has_verdict: bool = True

    def stream(self, stdout: TextIO) -> TextIO:
        """Return the stream for text output: standard error if `-o -` uses standard output."""
        return sys.stderr if STDOUT in self.outputs else stdout


def with_output_options(
    *, json_help: str = "Same as --display json: events in JSON Lines."
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that adds the display and export options to a command.

    `take_output_options` reads their values.
    """
    options = (*_OUTPUT_OPTIONS, click.option("--json", "as_json", is_flag=True, help=json_help))

    def decorate(function: Callable[..., Any]) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def take_output_options(given: dict[str, Any]) -> OutputOptions:
    """Return the values of the display and export options, and remove them from `given`."""
    display = given.pop("display")
    return OutputOptions(
        display="json" if given.pop("as_json") else display,
        outputs=tuple(dict.fromkeys(given.pop("outputs"))),  # a file named twice gets one writer
        include_trace=given.pop("include_trace"),
        verbose=given.pop("verbose"),
        log_file=given.pop("log_file"),
    )
