"""Sheets on the terminal and in files, in the format of each file's end."""

from collections.abc import Sequence
from pathlib import Path

import click

from agentv.cli.screen import terminal_style
from agentv.loading.files.atomic_write import write_text
from agentv.reports.text.sheet import Sheet, sheet_html, sheet_markdown, sheet_text
from agentv.types.errors import ConfigError

_FORMATS = {".html": sheet_html, ".md": sheet_markdown}


def refuse_unwritable(outputs: Sequence[str]) -> None:
    """Raise ConfigError for a file whose end names no format."""
    for output in outputs:
        if Path(output).suffix not in _FORMATS:
            raise ConfigError(f"-o {output}: the end of the name says the format; one of {', '.join(_FORMATS)}")


def write_sheets(outputs: Sequence[str], sheets: Sequence[Sheet]) -> None:
    """Write all sheets to each file, whole or not at all; they are one page. Raises StorageError."""
    for output in outputs:
        write_text(Path(output), _FORMATS[Path(output).suffix](sheets))


def print_sheets(sheets: Sequence[Sheet]) -> None:
    """Print sheets in the style of this terminal."""
    style = terminal_style()
    texts = [sheet_text(sheet, width=style.width, signs=style.signs, paint=style.paint) for sheet in sheets]
    click.echo("\n".join(texts), nl=False)
