"""What the commands of `agentv generate` have in common: options, who is asked, what is said at the end."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click
from msgspec import Struct

from agentv.execution.live_trees import kill_all
from agentv.loading.places import find_home
from agentv.loading.target_choice import choose_target
from agentv.loading.text_files import read_text
from agentv.pipeline.generation import Asking, Wish, make_request
from agentv.pipeline.generation_prompts import GenerationPrompt, template_warnings
from agentv.pipeline.options import RunOptions
from agentv.pipeline.targets import KnownTargets
from agentv.registry import Specs
from agentv.reports.amounts import count_text
from agentv.reports.printable import one_line, printable, printable_json
from agentv.scoring.run_verdict import SIGNALLED
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import pretty_json

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


def make_asking(
    prompt: GenerationPrompt, known: KnownTargets, name: str | None, options: GenerateOptions, *, specs: Specs
) -> Asking:
    """Return who is asked and how; `name` is the eval file's own target. Raises TargetError."""
    config = choose_target(tuple(known.configs.values()), options.target or name)
    return Asking(
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


def show_requests(wishes: Sequence[Wish[Any]], asking: Asking, options: GenerateOptions, stdout: TextIO) -> int:
    """Print what would be asked; returns the exit code. The one-time text is `NONCE` here."""
    requests = [make_request(wish, asking, "NONCE") for wish in wishes]
    if options.as_json:
        listed: list[JsonValue] = [
            {"id": each.eval_case_id, "system": each.system_prompt, "user": each.question} for each in requests
        ]
        record: JsonObject = {"schema": SCHEMA, "dry_run": True, "target": asking.target.name, "requests": listed}
        click.echo(printable_json(pretty_json(record)), file=stdout)
        return 0
    for each in requests:
        parts = (f"==== {one_line(each.eval_case_id)}", each.system_prompt, each.question)
        click.echo("\n\n".join(printable(part) for part in parts if part) + "\n", file=stdout)
    click.echo(
        f"{count_text(len(requests), 'request')} to target {asking.target.name!r}; nobody was asked", file=stdout
    )
    return 0
