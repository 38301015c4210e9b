"""The width, character set and colours of the terminal; documents, printed or written to files."""

import os
import sys
from collections.abc import Iterable, Sequence
from io import TextIOWrapper
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from agentv.cli.terminal import terminal_columns
from agentv.loading.files.text import write_text
from agentv.registry import ReportSpec, load_reference
from agentv.reports import REPORTS, document_formats, format_named
from agentv.reports.document.blocks import Document
from agentv.reports.document.text import TextRenderer
from agentv.reports.run.run_view import RunView
from agentv.reports.run.views import CaseView
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import Paint, Signs, choose_paint, signs_for
from agentv.types.errors import ConfigError

_MAX_HELD = 65_536
"""The number of characters that are printed together: each print flushes standard output."""


class TerminalStyle(Struct, frozen=True):
    """The layout of text on standard output."""

    width: int | None
    """None: not a terminal, so nothing is wrapped or cut."""
    signs: Signs
    paint: Paint

    def run_view(self, *, is_full: bool = False) -> RunView:
        """Return the view of runs in this style; `is_full` leaves nothing out."""
        return RunView(self.width, self.signs, self.paint, is_full=is_full)

    def case_view(self, view: CaseView, *, is_full: bool) -> CaseView:
        """Return a view of a case in this style; `is_full` cuts nothing."""
        return replace(view, width=self.width, signs=self.signs, paint=self.paint, is_full=is_full)


def terminal_style() -> TerminalStyle:
    """Return the style of standard output.

    From this call on, a character that standard output cannot encode is escaped instead of raising an error.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    is_terminal = sys.stdout.isatty()
    return TerminalStyle(
        width=terminal_columns() if is_terminal else None,
        signs=signs_for(sys.stdout.encoding),
        paint=choose_paint(is_terminal=is_terminal, env=os.environ),
    )


def warn_of_edits(run_id: str, edits: Sequence[str]) -> None:
    """Print a warning for all that shows that a stored run was edited."""
    for edit in edits:
        click.echo(f"warning: run {run_id}: {one_line(edit)}", err=True)


def refuse_unknown_suffixes(outputs: Sequence[str]) -> None:
    """Raise ConfigError for a file whose suffix is not a known format of documents."""
    for output in outputs:
        if _document_format(output) is None:
            known = " or ".join(f".{each.name}" for each in document_formats())
            raise ConfigError(f"-o {output}: unknown format; the file name must end in {known}")


def _document_format(output: str) -> ReportSpec | None:
    named = format_named(Path(output).name, REPORTS)
    return named if named in document_formats() else None


def document_text(documents: Sequence[Document], spec: ReportSpec) -> str:
    """Return documents in a format for documents."""
    text: str = load_reference(spec.document or "")(documents)
    return text


def write_documents(outputs: Sequence[str], documents: Sequence[Document]) -> None:
    """Write all documents to each file as one page, completely or not at all. Raises StorageError."""
    for output in outputs:
        spec = _document_format(output)
        if spec is not None:
            write_text(Path(output), document_text(documents, spec))


def print_documents(documents: Sequence[Document]) -> None:
    """Print documents in the style of the terminal."""
    style = terminal_style()
    click.echo(TextRenderer(style.width, style.signs, style.paint).render(documents), nl=False)


def print_pieces(pieces: Iterable[str]) -> None:
    """Print a text that is too long to be in memory at once."""
    held: list[str] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size > _MAX_HELD:
            click.echo("".join(held), nl=False)
            held.clear()
            size = 0
    click.echo("".join(held), nl=False)
