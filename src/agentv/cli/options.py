"""The options that several commands share: those of a run, made from RunOptions, and those of display and exports."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TextIO

import click
from msgspec import Struct, field

from agentv.reports import STDOUT, names_of
from agentv.types.bounds import ValueType
from agentv.types.run_options import Flag, flags_of, run_options, type_of

_SECONDS_PER_UNIT = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_MOST_SECONDS = 36_500 * 86400.0
_SPAN_PATTERN = re.compile(r"(\d+(?:\.\d+)?) *([smhdw])")

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
        "--dump-traces", is_flag=True, help="Write the trace of each answer to a JSON file below .agentv/traces."
    ),
    click.option(
        "--display",
        type=click.Choice(["auto", "live", "plain", "json", "none"]),
        default="auto",
        show_default=True,
        help="Show progress as a live block, plain lines, events in JSON Lines, or not at all; "
        "auto: live on a terminal, else plain.",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Also print questions and answers in full, and retries."),
    click.option("--view", is_flag=True, help="Open the run in the browser at once, until Ctrl-C."),
    click.option("--log-file", metavar="FILE", help="Append every event of the run to FILE as JSON Lines."),
)


SENDING_OPTIONS = (
    click.option(
        "--otel",
        metavar="[=URL]",
        help="Send evaluations to an OpenTelemetry collector (default: that of the variables OTEL_EXPORTER_OTLP_…).",
    ),
    click.option("--otel-content", is_flag=True, help="With --otel: also send questions, answers and explanations."),
    click.option(
        "--export",
        "service",
        type=click.Choice(["langfuse", "phoenix"]),
        help="Send each score to its trace in Langfuse or Phoenix (address and keys: variables LANGFUSE_… or "
        "PHOENIX_…).",
    ),
    click.option("--export-reasons", is_flag=True, help="With --export: also send the reasons of judgements."),
)


def with_sending_options(function: Callable[..., Any]) -> Any:
    """Add SENDING_OPTIONS to a command. `take_sending_options` reads their values."""
    for option in reversed(SENDING_OPTIONS):
        function = option(function)
    return function


class Span(click.ParamType[float]):
    """A click parameter type for time spans; its value is in seconds."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return a time span in seconds. Raises click.BadParameter for anything else, 0, and more than a century.

        A float is returned as it is: click also passes values that are converted already.
        """
        if isinstance(value, float):
            return value
        found = _SPAN_PATTERN.fullmatch(str(value).strip().lower())
        seconds = float(found[1]) * _SECONDS_PER_UNIT[found[2]] if found else 0.0
        if seconds <= 0:
            self.fail(f"{value!r} is not a time span; write a number with s, m, h, d or w: 45m, 12h, 7d", param, ctx)
        if seconds > _MOST_SECONDS:
            self.fail(f"{value!r} is too long; a time span is at most 36500d", param, ctx)
        return seconds


class NumberOrWord(click.ParamType[int | str]):
    """A whole number within bounds, or one of a few words."""

    name = "number or word"

    def __init__(self, allowed: ValueType) -> None:
        self._allowed = allowed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the number or the word."""
        given = int(value) if str(value).strip().lstrip("-").isdecimal() else str(value).strip()
        problem = self._allowed.problem(given)
        if problem is not None:
            self.fail(problem, param, ctx)
        return given


_OF_THE_RUN = object()
"""The default of the option in a new run."""


def run_option(
    name: str,
    *,
    help: str | None = None,  # noqa: A002 - click's word
    default: object = _OF_THE_RUN,
) -> Callable[..., Any]:
    """Return the click option that sets a field of RunOptions.

    `help` replaces its help text, and `default` its default, in a command that uses the option in another way.
    """
    option = next(each for each in run_options() if each.name == name)
    flag: Flag = option.extra["flag"]
    value = type_of(option)
    settings: dict[str, Any] = {"type": _click_type(value, flag.kind), "metavar": flag.metavar}
    if value.kind is tuple:
        settings |= {"multiple": True}
    elif value.kind is bool:
        settings |= {"is_flag": True, "type": None}
    elif flag.value_alone is not None:
        settings |= {"is_flag": False, "flag_value": flag.value_alone}
    elif value.kind is int:
        settings |= {"metavar": flag.metavar or "N"}
    if default is _OF_THE_RUN and value.kind is not tuple:
        settings |= {"default": option.default, "show_default": option.default is not None}
    return click.option(*flags_of(option), name, help=help or option.description, **settings)


def _click_type(value: ValueType, kind: Literal["span", "folder"] | None) -> Any:
    bounds = value.bounds
    if kind == "span":
        return Span()
    if kind == "folder":
        return click.Path(exists=True, file_okay=False)
    if value.words and value.kind is not str:
        return NumberOrWord(value)
    if value.words:
        return click.Choice(value.words)
    if value.kind is float:
        return click.FloatRange(min=bounds.gt, min_open=True) if bounds.gt is not None else click.FLOAT
    if value.kind is int:
        return click.IntRange(min=int(bounds.ge)) if bounds.ge is not None else click.INT
    return click.STRING


VAR_OPTION: Callable[..., Any] = run_option("variables")
ALLOW_PATH_OPTION: Callable[..., Any] = run_option("allow_paths")


class OtelOptions(Struct, frozen=True):
    """The collector that evaluations are sent to."""

    url: str
    """Empty for that of the standard variables."""
    with_content: bool = False


class ServiceOptions(Struct, frozen=True):
    """The service that scores are sent to."""

    name: Literal["langfuse", "phoenix"]
    with_reasons: bool = False


class SendingOptions(Struct, frozen=True):
    """Where the results of a run are sent; None for nowhere."""

    otel: OtelOptions | None = None
    service: ServiceOptions | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The options that were given."""
        return tuple(name for name, value in (("--otel", self.otel), ("--export", self.service)) if value is not None)


def take_sending_options(given: dict[str, Any]) -> SendingOptions:
    """Return the values of SENDING_OPTIONS, and remove them from `given`."""
    url, with_content = given.pop("otel"), given.pop("otel_content")
    service, with_reasons = given.pop("service"), given.pop("export_reasons")
    if with_content and url is None:
        raise click.UsageError("--otel-content requires --otel")
    if with_reasons and service is None:
        raise click.UsageError("--export-reasons requires --export")
    return SendingOptions(
        None if url is None else OtelOptions(url, with_content),
        None if service is None else ServiceOptions(service, with_reasons),
    )


class OutputOptions(Struct, frozen=True):
    """How a run is displayed, and which files are written in addition to its run folder."""

    display: str
    """`none` prints only the verdict, or nothing if `has_verdict` is False."""
    outputs: tuple[str, ...] = ()
    include_trace: bool = False
    dump_traces: bool = False
    verbose: bool = False
    log_file: str | None = None
    folder: Path = field(default_factory=Path.cwd)
    """The folder from which relative paths of `outputs` and `log_file` start."""
    has_verdict: bool = True
    view: bool = False
    """True if the run is opened in the browser."""

    sending: SendingOptions = SendingOptions()

    def stream(self, stdout: TextIO) -> TextIO:
        """Return the stream for text output: standard error if `-o -` uses standard output."""
        return sys.stderr if STDOUT in self.outputs else stdout


def with_output_options(
    *, json_help: str = "Same as --display json: events in JSON Lines."
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that adds the display and export options to a command.

    `take_output_options` reads their values.
    """
    options = (*_OUTPUT_OPTIONS, *SENDING_OPTIONS, click.option("--json", "as_json", is_flag=True, help=json_help))

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
        dump_traces=given.pop("dump_traces"),
        verbose=given.pop("verbose"),
        log_file=given.pop("log_file"),
        view=given.pop("view"),
        sending=take_sending_options(given),
    )
