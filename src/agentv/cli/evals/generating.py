"""The common parts of the `agentv generate` commands: options, target, progress and the report at the end."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Generic, TextIO, TypeVar

import click
from msgspec import Struct

from agentv.engine.generate.generation import (
    Generated,
    GenerationPrompt,
    GenerationSetup,
    GenerationTask,
    make_request,
    template_warnings,
)
from agentv.engine.planning.options import RunOptions
from agentv.engine.planning.targets import KnownTargets
from agentv.execution.processes.live_trees import kill_all
from agentv.loading.files.places import find_home
from agentv.loading.files.text import read_text
from agentv.loading.targets.choice import choose_target
from agentv.registry import Specs
from agentv.reports.text.amounts import count_text, money_text, tokens_text
from agentv.reports.text.printable import one_line, printable, printable_json
from agentv.scoring.gates.run_verdict import SIGNALLED
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import pretty_json
from agentv.types.usage import total_usage

T = TypeVar("T")
EXIT_NOTHING = 5
SCHEMA = "agentv-generate-1"


class GenerateOptions(Struct, frozen=True):
    """The options of both commands."""

    target: str | None = None
    targets_file: str | None = None
    prompt_path: Path | None = None
    concurrency: int = 4
    keep_going: bool = False
    dry_run: bool = False
    as_json: bool = False

    def run_options(self, case_globs: tuple[str, ...] = ()) -> RunOptions:
        """Return the options with which a run finds the same target and cases."""
        targets = (self.target,) if self.target else ()
        return RunOptions(targets=targets, targets_file=self.targets_file, case_globs=case_globs)

    def template(self, known: Sequence[str], needed: Sequence[str]) -> str | None:
        """Return the user's prompt template, after printing warnings about it; None without one."""
        if self.prompt_path is None:
            return None
        text = read_text(self.prompt_path)
        for warning in template_warnings(text, known=known, needed=needed):
            click.echo(f"warning: {self.prompt_path}: {warning}", err=True)
        return text


def make_setup(
    prompt: GenerationPrompt, known: KnownTargets, name: str | None, options: GenerateOptions, *, specs: Specs
) -> GenerationSetup:
    """Return the target and settings of the calls; `name` is the eval file's own target. Raises TargetError."""
    config = choose_target(tuple(known.configs.values()), options.target or name)
    return GenerationSetup(
        prompt=prompt,
        target=known.get(config.name),
        known=known,
        specs=specs,
        home=str(find_home(Path.cwd())),
        eval_dir=str(Path.cwd()),
        concurrency=options.concurrency,
        stops=not options.keep_going,
    )


def show_progress(total: int, noun: str) -> Callable[[int], None]:
    """Return a callback that shows the number of finished items on a terminal, and does nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda _done: None

    def show(done: int) -> None:
        line = f"\r{done} of {count_text(total, noun)}" if done < total else "\r\x1b[K"
        click.echo(line, nl=False, err=True)

    return show


def check_writable(path: Path) -> None:
    """Raise ConfigError when a file cannot be written, before any paid call."""
    for place in (path, path.resolve().parent):
        if place.exists() and not os.access(place, os.W_OK):
            raise ConfigError(f"{place} cannot be written; no request was sent")


class Stopped(Exception):  # noqa: N818 - not an error
    """The command received a signal; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)

    def report(self, path: Path) -> int:
        """Print that the command was stopped; return the exit code."""
        click.echo(f"\nstopped by {self}; {path} is unchanged", err=True)
        return SIGNALLED + self.number


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. A signal cancels all calls and child processes; then raises Stopped."""
    got: list[int] = []

    async def watched() -> T:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            if got:  # the second signal kills all children and exits at once
                try:
                    kill_all()
                finally:
                    os._exit(SIGNALLED + number)
            got.append(number)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        return await task

    try:
        return asyncio.run(watched())
    except asyncio.CancelledError:
        raise Stopped(got[0] if got else signal.SIGINT) from None


def show_requests(
    tasks: Sequence[GenerationTask[Any]], setup: GenerationSetup, options: GenerateOptions, stdout: TextIO
) -> int:
    """Print the requests without sending them; return the exit code. The nonce is printed as `NONCE`."""
    requests = [make_request(task, setup, "NONCE") for task in tasks]
    if options.as_json:
        listed: list[JsonValue] = [
            {"id": each.eval_case_id, "system": each.system_prompt, "user": each.question} for each in requests
        ]
        record: JsonObject = {"schema": SCHEMA, "dry_run": True, "target": setup.target.name, "requests": listed}
        click.echo(printable_json(pretty_json(record)), file=stdout)
        return 0
    for each in requests:
        parts = (f"==== {one_line(each.eval_case_id)}", each.system_prompt, each.question)
        click.echo("\n\n".join(printable(part) for part in parts if part) + "\n", file=stdout)
    click.echo(f"{count_text(len(requests), 'request')} to target {setup.target.name!r}; none was sent", file=stdout)
    return 0


EXIT_FAILED = 3
NAMED = 10
"""The number of failed items that the last line names; each has an error line of its own before it."""


class Report(Struct, Generic[T], frozen=True):
    """The outcome of a command. `noun` names the generated items; `to_json` and `describe` format one value."""

    path: Path
    options: GenerateOptions
    noun: str
    made: Sequence[Generated[T]]
    to_json: Callable[[T], JsonValue]
    describe: Callable[[T], str]
    skipped: tuple[str, ...] = ()
    note: str | None = None

    @property
    def failed(self) -> list[Generated[T]]:
        """The items whose generation failed."""
        return [each for each in self.made if each.failure is not None]

    @property
    def writes(self) -> bool:
        """True if the file is written: all items succeeded, or some did and `--keep-going` was given."""
        return any(each.value for each in self.made) and (not self.failed or self.options.keep_going)

    def show(self, stdout: TextIO) -> int:
        """Print the report; return the exit code."""
        if self.options.as_json:
            click.echo(printable_json(pretty_json(self._record())), file=stdout)
        else:
            for line in self._lines():
                click.echo(line, file=stdout)
        if self.failed:
            click.echo(self._loss(), err=True)
        return EXIT_FAILED if self.failed else 0

    def _lines(self) -> list[str]:
        width = max((len(one_line(id_)) for id_ in (*self.skipped, *(each.id for each in self.made))), default=0)
        lines = [
            f"{one_line(each.id):<{width}}  {self.describe(each.value)}" for each in self.made if each.value is not None
        ]
        lines += [f"{one_line(id_):<{width}}  already has {self.noun}" for id_ in self.skipped]
        lines += [self.note] if self.note else []
        if self.writes:
            lines.append(f"Wrote {self.path}{self._spent()}")
        elif not self.failed:
            lines.append(f"nothing to do: {self.path} is unchanged")
        return lines

    def _spent(self) -> str:
        usage, costs = total_usage(each.usage for each in self.made), [each.cost_usd for each in self.made]
        known = [cost for cost in costs if cost is not None]
        parts = [f"{tokens_text(usage.total)} tokens"] if usage is not None else []
        parts += [money_text(sum(known))] if known and len(known) == len(costs) else []
        return f" ({', '.join(parts)})" if parts else ""

    def _loss(self) -> str:
        """Return which items failed, and the consequence for the file."""
        reasons = [f"{one_line(each.id)}: {one_line(each.failure.message)}" for each in self.failed if each.failure]
        idle = sum(each.value is None and each.failure is None for each in self.made)
        names = ", ".join(one_line(each.id) for each in self.failed[:NAMED])
        names += ", …" if len(self.failed) > NAMED else ""
        left = f", {idle} not attempted" if idle else ""
        end = "the others were written" if self.writes else "nothing was written"
        hint = "" if self.options.keep_going else "; use --keep-going to write the rest"
        share = f"{len(self.failed)} of {len(self.made)} failed ({names}){left}"
        return "\n".join(
            [*(f"error: {reason}" for reason in reasons), f"{share}: {end}{hint}. Exit code {EXIT_FAILED}."]
        )

    def _record(self) -> dict[str, JsonValue]:
        usage = total_usage(each.usage for each in self.made)
        return {
            "schema": SCHEMA,
            "file": str(self.path),
            "written": self.writes,
            self.noun: [{"id": each.id, self.noun: self.to_json(each.value)} for each in self.made if each.value],
            "failed": [
                {"id": each.id, "kind": each.failure.kind, "message": each.failure.message}
                for each in self.made
                if each.failure
            ],
            "not_asked": [each.id for each in self.made if each.value is None and each.failure is None],
            "skipped": list(self.skipped),
            "note": self.note,
            "tokens": None if usage is None else usage.total,
        }
