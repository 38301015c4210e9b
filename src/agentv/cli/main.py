"""The `agentv` command: finds a command's file when it is called, and turns errors into exit codes."""

import gc
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

import click

from agentv.cli.terminal import hold_streams, loss
from agentv.types.errors import AgentvError, ConfigError, PluginError
from agentv.version import __version__

EXIT_USAGE = 4
EXIT_INCOMPLETE = 3
EXIT_INTERRUPTED = 130
_BETTER_THAN_INCOMPLETE = (0, 2)
_NEW_OBJECTS_PER_COLLECTION = 100_000
"""Python's 700 look for garbage all the while modules are imported and rows made, which leave next to none."""


class Entry(NamedTuple):
    """Where a command lives, and the line that `--help` shows without importing it."""

    module: str
    summary: str
    hidden: bool = False


COMMANDS: Mapping[str, Entry] = {
    "init": Entry("agentv.cli.evals.init", "Write a first suite, targets and CI workflow that run offline."),
    "check": Entry("agentv.cli.evals.check", "Find every problem of eval files, targets and config."),
    "validate": Entry("agentv.cli.evals.check", "The same as check.", hidden=True),
    "schema": Entry("agentv.cli.evals.schema", "Print or write the JSON Schema of a file kind."),
    "run": Entry("agentv.cli.running.run", "Run eval files against targets and give a verdict."),
    "eval": Entry("agentv.cli.running.run", "The same as run.", hidden=True),
    "resume": Entry("agentv.cli.running.resume", "Finish a run that was stopped or killed, paying for nothing twice."),
    "retry": Entry("agentv.cli.running.retry", "Do rows of a run again that have no result, or did not pass."),
    "rescore": Entry("agentv.cli.running.rescore", "Judge the stored answers of a run again; no target is asked."),
    "merge": Entry("agentv.cli.running.merge", "Make one run of the parts that several machines made."),
    "score": Entry("agentv.cli.running.score", "Judge answers that a service logged, as they come."),
    "show": Entry("agentv.cli.results.show", "Look into a stored run: reasons, answers, transcripts."),
    "compare": Entry("agentv.cli.results.compare", "Say what differs between runs, and whether it could be chance."),
    "trend": Entry("agentv.cli.results.trend", "Show how suites and targets did from run to run."),
    "report": Entry("agentv.cli.results.report", "Write a page, a summary, JUnit or rows from a stored run."),
    "baseline": Entry(
        "agentv.cli.results.baseline", "Keep a run's scores in a small file, to hold later runs against."
    ),
    "label": Entry("agentv.cli.results.label", "Keep what people say of a run's answers with the run."),
    "judge": Entry("agentv.cli.results.judge", "Say how far a judge can be trusted: against people, against itself."),
    "runs": Entry("agentv.cli.upkeep.runs", "List stored runs, delete some, or tag those that are to stay."),
    "cache": Entry("agentv.cli.upkeep.cache", "List or clear answers and embeddings that are kept between runs."),
    "store": Entry("agentv.cli.upkeep.store", "Keep runs in the team's database: upgrade, push, pull, list, rm."),
    "generate": Entry("agentv.cli.evals.generate", "Let a model write requirements, or cases, into eval files."),
    "convert": Entry("agentv.cli.evals.convert", "Turn eval files and results into other formats."),
    "serve-fake": Entry("agentv.cli.tools.serve_fake", "Serve fake model APIs, to try a suite with no key."),
    "doctor": Entry("agentv.cli.tools.doctor", "Say what this machine has and what is missing."),
    "plugins": Entry(
        "agentv.cli.tools.plugins", "List evaluators, providers, reports and stores, with their settings."
    ),
    "completion": Entry("agentv.cli.tools.completion", "Print the shell completion script."),
}


def _imported(module: str) -> click.Command:
    """Import a command. All that comes with it stays, so that nobody looks for garbage in it, now or later."""
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
        """Return the commands in the order of a user's day, not of the alphabet."""
        return [name for name, entry in COMMANDS.items() if not entry.hidden]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import and return one command; None when there is no such name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        return _imported(entry.module)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one was probably meant."""
        if args and args[0] not in COMMANDS:
            from agentv.types.errors import nearest

            near = nearest(args[0], COMMANDS)
            hint = f" Did you mean {near!r}?" if near else " See `agentv --help`."
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands from the table, importing none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items() if not entry.hidden])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="agentv")
def agentv() -> None:
    """Evaluate AI agents: run eval files against targets, judge the answers, say whether it is good enough."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit code (product.md); no error of ours shows a traceback."""
    gc.set_threshold(_NEW_OBJECTS_PER_COLLECTION)
    hold_streams()
    code = _run(arguments)
    for name, stream in (("output", sys.stdout), ("error", sys.stderr)):
        lost = loss(stream)
        if lost is not None:
            code = with_loss(code, f"standard {name} cannot be written: {lost.strerror}")
    sys.exit(code)


def with_loss(code: int, message: str) -> int:
    """Say that something could not be written; return the exit code for that, unless `code` is worse already."""
    worst = EXIT_INCOMPLETE if code in _BETTER_THAN_INCOMPLETE else code
    click.echo(f"error: {message}. Exit code {worst}.", err=True)
    return worst


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = agentv.main(arguments, prog_name="agentv", standalone_mode=False)
    except click.exceptions.Abort:
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except (ConfigError, PluginError) as error:
        return _say(error, EXIT_USAGE)
    except AgentvError as error:
        return _say(error, EXIT_INCOMPLETE)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _say(f"{place}{error.strerror or error}", EXIT_INCOMPLETE)
    return code if isinstance(code, int) else 0


def _say(error: AgentvError | str, code: int) -> int:
    from agentv.reports.text.printable import printable

    click.echo(f"error: {printable(str(error))}", err=True)  # names that it lists may be a stranger's
    return code
