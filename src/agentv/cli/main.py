"""The `agentv` command: import a command's module when it is called, and turn errors into exit codes."""

import gc
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, NoReturn

import click

from agentv.cli.environment import name_variable, name_variables
from agentv.cli.terminal import guarded_streams, hold_streams, unexpected_write_error
from agentv.types.errors import AgentvError, ConfigError, NothingFoundError, PluginError
from agentv.version import __version__

EXIT_USAGE = 4
EXIT_INCOMPLETE = 3
EXIT_NOTHING = 5
EXIT_INTERRUPTED = 130
_REPLACED_BY_INCOMPLETE = (0, 2)
"""The exit codes that a write error changes to EXIT_INCOMPLETE: passed and stopped early. Others stay."""
_NEW_OBJECTS_PER_COLLECTION = 100_000
"""Python's default, 700 or 2,000, collects constantly during imports and result creation, and finds almost nothing."""


class Entry(NamedTuple):
    """The module of a command, and the line that `--help` shows without importing it."""

    module: str
    summary: str
    hidden: bool = False


COMMANDS: Mapping[str, Entry] = {
    "init": Entry("agentv.cli.evals.init", "Create a first eval file, targets file and CI jobs."),
    "check": Entry("agentv.cli.evals.check", "Check eval files, targets and settings for problems."),
    "validate": Entry("agentv.cli.evals.check", "Alias of check.", hidden=True),
    "convert": Entry("agentv.cli.evals.convert", "Convert eval files and results, also from other tools."),
    "generate": Entry("agentv.cli.evals.generate", "Let a model write cases or rubrics."),
    "schema": Entry("agentv.cli.evals.schema", "Print or write the JSON Schema of a kind of file."),
    "run": Entry("agentv.cli.running.run", "Run eval files against targets and give a verdict."),
    "eval": Entry("agentv.cli.running.run", "Alias of run.", hidden=True),
    "resume": Entry("agentv.cli.running.resume", "Resume an interrupted run without repeating finished calls."),
    "retry": Entry("agentv.cli.running.retry", "Re-run errored or failed cases."),
    "rescore": Entry("agentv.cli.running.rescore", "Re-evaluate stored answers without calling targets."),
    "merge": Entry("agentv.cli.running.merge", "Merge the shards of a run into one run."),
    "score": Entry("agentv.cli.running.score", "Evaluate logged answers from files or standard input."),
    "view": Entry("agentv.cli.results.view", "Open stored runs in the browser."),
    "ui": Entry("agentv.cli.results.view", "Alias of view.", hidden=True),
    "show": Entry("agentv.cli.results.show", "Show the results of a run."),
    "compare": Entry("agentv.cli.results.compare", "Compare runs, with significance tests."),
    "trend": Entry("agentv.cli.results.trend", "Show how scores change from run to run."),
    "report": Entry("agentv.cli.results.report", "Write a run as HTML, Markdown, JUnit, CSV, JSON or SARIF."),
    "baseline": Entry("agentv.cli.results.baseline", "Save a run's scores in a file to compare later runs with."),
    "label": Entry("agentv.cli.labels.label", "Import human labels, or measure their agreement."),
    "review": Entry("agentv.cli.labels.review", "Label a run's answers in the browser."),
    "judge": Entry("agentv.cli.labels.judge", "Measure a judge's accuracy and consistency."),
    "runs": Entry("agentv.cli.upkeep.runs", "List, tag, export, prune or delete stored runs."),
    "cache": Entry("agentv.cli.upkeep.cache", "List or clear cached answers and embeddings."),
    "store": Entry("agentv.cli.upkeep.store", "Share runs through a team database (PostgreSQL)."),
    "doctor": Entry("agentv.cli.tools.doctor", "Check this machine and project for problems."),
    "plugins": Entry("agentv.cli.tools.plugins", "List plug-ins, or show their settings."),
    "serve-fake": Entry("agentv.cli.tools.serve_fake", "Serve fake model APIs, to try agentv without a key."),
    "completion": Entry("agentv.cli.tools.completion", "Print the shell completion script."),
}
_SECTIONS: Mapping[str, str] = {
    "agentv.cli.evals.": "Eval files",
    "agentv.cli.running.": "Run",
    "agentv.cli.results.": "Results",
    "agentv.cli.labels.": "Labels and judges",
    "agentv.cli.upkeep.": "Stored runs",
    "agentv.cli.tools.": "Tools",
}
"""For each package of commands, the heading in `--help` under which its commands are listed."""


def _import_command(module: str) -> click.Command:
    """Import a command without garbage collection; later collections skip its modules, which stay loaded anyway."""
    gc.disable()
    try:
        command: click.Command = importlib.import_module(module).command
    finally:
        gc.freeze()
        gc.enable()
    return command


class LazyGroup(click.Group):
    """A group that imports a command's module only when that command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands in the order of `COMMANDS`, not of the alphabet."""
        return [name for name, entry in COMMANDS.items() if not entry.hidden]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import and return one command; None when there is no such name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = _import_command(entry.module)
        name_variables(command, next(name for name, each in COMMANDS.items() if each.module == entry.module))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Raises UsageError with advice, such as the nearest name, if there is no such command."""
        if args and args[0] not in COMMANDS:
            from agentv.cli.synonyms import command_advice
            from agentv.types.errors import nearest

            near = nearest(args[0], COMMANDS)
            hint = f"Did you mean {near!r}?" if near else "See `agentv --help`."
            raise click.UsageError(f"No such command {args[0]!r}. {command_advice(args[0]) or hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands with their summaries, grouped by section, without importing them."""
        width = max(map(len, COMMANDS))
        for package, heading in _SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (f"{name:<{width}}", entry.summary)
                        for name, entry in COMMANDS.items()
                        if entry.module.startswith(package) and not entry.hidden
                    ]
                )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="agentv")
def agentv() -> None:
    """Evaluate AI agents: send cases to targets, score the answers, and end with a verdict.

    A case is a question with the requirements for a good answer; cases are in eval files. A target is an agent or a
    model.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code (docs/reference/results-and-verdicts.md).

    Errors of agentv, of the command line and of the operating system are printed without a traceback.
    """
    gc.set_threshold(_NEW_OBJECTS_PER_COLLECTION)
    hold_streams()  # from now on, write errors are stored and not raised; they are reported below
    with guarded_streams(os.environ):
        code = _run(sys.argv[1:] if arguments is None else arguments)
    for name, stream in (("output", sys.stdout), ("error", sys.stderr)):
        error = unexpected_write_error(stream)
        if error is not None:
            code = exit_code_after_write_error(code, f"standard {name} cannot be written: {error.strerror}")
    sys.exit(code)


def exit_code_after_write_error(code: int, message: str) -> int:
    """Print a write error; return EXIT_INCOMPLETE instead of 0 or 2, and any other code unchanged."""
    new_code = EXIT_INCOMPLETE if code in _REPLACED_BY_INCOMPLETE else code
    click.echo(f"error: {message}. Exit code {new_code}.", err=True)
    return new_code


def _run(arguments: Sequence[str]) -> int:
    try:
        code = agentv.main(_with_bare_otel(arguments), prog_name="agentv", standalone_mode=False)
    except click.exceptions.Abort:
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption):
            from agentv.cli.synonyms import with_advice

            error = with_advice(error, arguments)
        name_variable(error)
        shown = io.StringIO()
        error.show(file=shown)
        click.echo(_redacted(shown.getvalue(), arguments), err=True, nl=False)
        return EXIT_USAGE
    except NothingFoundError as error:
        return _print_error(error, arguments, EXIT_NOTHING)
    except (ConfigError, PluginError) as error:
        return _print_error(error, arguments, EXIT_USAGE)
    except AgentvError as error:
        return _print_error(error, arguments, EXIT_INCOMPLETE)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _print_error(f"{place}{error.strerror or error}", arguments, EXIT_INCOMPLETE)
    return code if isinstance(code, int) else 0


def _with_bare_otel(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `--otel` as `--otel=`: click would take the next one, such as a run, as its URL.

    Raises UsageError if the next one is a URL.
    """
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    for option, url in pairwise(arguments[:end]):
        if option == "--otel" and url.startswith(("http://", "https://")):
            raise click.UsageError("--otel takes its URL after an equals sign: --otel=URL")
    return ["--otel=" if each == "--otel" else each for each in arguments[:end]] + list(arguments[end:])


def _print_error(error: AgentvError | str, arguments: Sequence[str], code: int) -> int:
    from agentv.reports.text.printable import printable

    message = _redacted(str(error), arguments)
    click.echo(f"error: {printable(message)}", err=True)  # the message may quote untrusted names
    return code


def _redacted(message: str, arguments: Sequence[str]) -> str:
    """Return a message without the passwords of URLs on the command line, which may stand in a wrong place there."""
    if "://" not in message:
        return message
    from agentv.templating.secrets import SecretRedactor
    from agentv.templating.store_url import secrets_of_urls

    return SecretRedactor(secrets_of_urls(arguments)).redact(message)
