"""What `agentv generate` says at the end: what was made, what failed, and what that means for the file."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TextIO, TypeVar

import click
from msgspec import Struct

from agentv.cli.generating import SCHEMA, GenerateOptions
from agentv.pipeline.generation import Made
from agentv.reports.amounts import money_text, tokens_text
from agentv.reports.printable import one_line, printable_json
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import pretty_json
from agentv.types.usage import total_usage

T = TypeVar("T")
EXIT_FAILED = 3
NAMED = 10
"""How many of those that failed the last line names; each has a line of its own before it."""


class Report(Struct, Generic[T], frozen=True):
    """What came of a command. `noun` is what was asked for; `to_json` and `describe` show one value."""

    path: Path
    options: GenerateOptions
    noun: str
    made: Sequence[Made[T]]
    to_json: Callable[[T], JsonValue]
    describe: Callable[[T], str]
    skipped: tuple[str, ...] = ()
    note: str | None = None

    @property
    def failed(self) -> list[Made[T]]:
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
