"""The width, character set and colours of the terminal; short reports (`Sheet`), printed or written to files."""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from agentv.cli.terminal import terminal_columns
from agentv.loading.files.text import write_text
from agentv.reports.run.views import CaseView, RunView
from agentv.reports.sheet import Sheet, sheet_html, sheet_markdown, sheet_text
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import Paint, Signs, choose_paint, signs_for
from agentv.types.errors import ConfigError

_FORMATS = {".html": sheet_html, ".md": sheet_markdown}


class TerminalStyle(Struct, frozen=True):
    """The layout of text on standard output. `width` None: not a terminal, so nothing is wrapped or cut."""

    width: int | None
    signs: Signs
    paint: Paint

    def run_view(self) -> RunView:
        """Return the view of runs in this style."""
        return RunView(self.width, self.signs, self.paint)

    def case_view(self, view: CaseView) -> CaseView:
        """Return a view of a case in this style."""
        return replace(view, width=self.width, signs=self.signs, paint=self.paint)


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
    """Raise ConfigError for a file whose suffix is not a known format."""
    for output in outputs:
        if Path(output).suffix not in _FORMATS:
            raise ConfigError(f"-o {output}: unknown format; the file name must end in {' or '.join(_FORMATS)}")


def write_sheets(outputs: Sequence[str], sheets: Sequence[Sheet]) -> None:
    """Write all sheets to each file as one page, completely or not at all. Raises StorageError."""
    for output in outputs:
        write_text(Path(output), _FORMATS[Path(output).suffix](sheets))


def print_sheets(sheets: Sequence[Sheet]) -> None:
    """Print sheets in the style of the terminal."""
    style = terminal_style()
    texts = [sheet_text(sheet, width=style.width, signs=style.signs, paint=style.paint) for sheet in sheets]
    click.echo("\n".join(texts), nl=False)
