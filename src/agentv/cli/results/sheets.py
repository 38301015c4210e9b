"""Print sheets on the terminal and write them to files; the suffix selects the format."""

from collections.abc import Sequence
from pathlib import Path

import click

from agentv.cli.screen import terminal_style
from agentv.loading.files.atomic_write import write_text
from agentv.reports.text.sheet import Sheet, sheet_html, sheet_markdown, sheet_text
from agentv.types.errors import ConfigError

_FORMATS = {".html": sheet_html, ".md": sheet_markdown}


def refuse_unwritable(outputs: Sequence[str]) -> None:
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
