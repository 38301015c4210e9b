"""What the commands of `agentv generate` have in common: options, who is asked, what is said at the end."""

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
    """Options of both commands, as given."""

    target: str | None = None
    targets_file: str | None = None
    prompt_path: Path | None = None
    concurrency: int = 4
    keep_going: bool = False
    dry_run: bool = False
    as_json: bool = False

    def run_options(self, case_globs: tuple[str, ...] = ()) -> RunOptions:
        """Return what a run would be given to find the same target and cases."""
        targets = (self.target,) if self.target else ()
        return RunOptions(targets=targets, targets_file=self.targets_file, case_globs=case_globs)

    def template(self, known: Sequence[str], needed: Sequence[str]) -> str | None:
        """Return the user's own prompt, after saying what is odd about it; None without one."""
        if self.prompt_path is None:
            return None
        text = read_text(self.prompt_path)
        for warning in template_warnings(text, known=known, needed=needed):
            click.echo(f"warning: {self.prompt_path}: {warning}", err=True)
        return text


def make_setup(
    prompt: GenerationPrompt, known: KnownTargets, name: str | None, options: GenerateOptions, *, specs: Specs
) -> GenerationSetup:
    """Return who is asked and how; `name` is the eval file's own target. Raises TargetError."""
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
    """Return what tells a terminal how many are done; anything else than a terminal is told nothing."""
    if not sys.stderr.isatty():
        return lambda _done: None

    def show(done: int) -> None:
        line = f"\r{done} of {count_text(total, noun)}" if done < total else "\r\x1b[K"
        click.echo(line, nl=False, err=True)

    return show


def check_writable(path: Path) -> None:
    """Raise ConfigError when a file could not be written at the end: that is found out before anything is paid."""
    for place in (path, path.resolve().parent):
        if place.exists() and not os.access(place, os.W_OK):
            raise ConfigError(f"{place} cannot be written; nobody was asked")


class Stopped(Exception):  # noqa: N818 - it is no error of ours
    """The command was told to end; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)

    def tell(self, path: Path) -> int:
        """Say so; returns the exit code."""
        click.echo(f"\nstopped by {self}; {path} is as it was", err=True)
        return SIGNALLED + self.number


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end. A signal ends every call and every process that was started; then Stopped is raised."""
    got: list[int] = []

    async def watched() -> T:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            if got:  # the second one leaves at once, with no child alive
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
    """Print what would be asked; returns the exit code. The one-time text is `NONCE` here."""
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
    click.echo(f"{count_text(len(requests), 'request')} to target {setup.target.name!r}; nobody was asked", file=stdout)
    return 0


EXIT_FAILED = 3
NAMED = 10
"""How many of those that failed the last line names; each has a line of its own before it."""


class Report(Struct, Generic[T], frozen=True):
    """What came of a command. `noun` is what was asked for; `to_json` and `describe` show one value."""

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
        """Those that brought nothing."""
        return [each for each in self.made if each.failure is not None]

    @property
    def writes(self) -> bool:
        """Whether the file is written: everything was made, or some of it and that is enough."""
        return any(each.value for each in self.made) and (not self.failed or self.options.keep_going)

    def show(self, stdout: TextIO) -> int:
        """Print it; returns the exit code."""
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
        lines += [f"{one_line(id_):<{width}}  has {self.noun} already" for id_ in self.skipped]
        lines += [self.note] if self.note else []
        if self.writes:
            lines.append(f"wrote {self.path}{self._spent()}")
        elif not self.failed:
            lines.append(f"nothing to do: {self.path} is as it was")
        return lines

    def _spent(self) -> str:
        usage, costs = total_usage(each.usage for each in self.made), [each.cost_usd for each in self.made]
        known = [cost for cost in costs if cost is not None]
        parts = [f"{tokens_text(usage.total)} tokens"] if usage is not None else []
        parts += [money_text(sum(known))] if known and len(known) == len(costs) else []
        return f" ({', '.join(parts)})" if parts else ""

    def _loss(self) -> str:
        """Return the sentence that says what failed and what that means for the file."""
        reasons = [f"{one_line(each.id)}: {one_line(each.failure.message)}" for each in self.failed if each.failure]
        idle = sum(each.value is None and each.failure is None for each in self.made)
        names = ", ".join(one_line(each.id) for each in self.failed[:NAMED])
        names += ", …" if len(self.failed) > NAMED else ""
        left = f", {idle} not asked" if idle else ""
        end = "the others were written" if self.writes else "nothing was written"
        hint = "" if self.options.keep_going else "; --keep-going writes what can be made"
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
