"""`agentv generate`: a model writes requirements for cases that have none, or cases from documents and questions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)

_SHARED = (
    click.option("--target", metavar="NAME", help="Who is asked: a target of the targets file, best a strong model."),
    click.option("--targets", "targets_file", metavar="FILE", help="Targets file or folder, not the nearest one."),
    click.option("--prompt-path", type=_EXISTING, metavar="FILE", help="Prompt to use in the place of agentv's own."),
    click.option(
        "--concurrency", type=click.IntRange(min=1), default=4, show_default=True, metavar="N", help="Calls at once."
    ),
    click.option("--keep-going", is_flag=True, help="Ask for all, and write what was made though some failed."),
    click.option("--dry-run", is_flag=True, help="Print what would be asked, and ask nobody."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)


def _with_shared(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_SHARED):
        function = option(function)
    return function


@click.group()
def command() -> None:
    """Let a model write requirements for cases that have none, or cases from your documents and logged questions."""


@command.command("rubrics")
@click.argument("file", type=_EXISTING)
@click.option("--case", "case_globs", multiple=True, metavar="GLOB", help="Only cases whose id matches.")
@_with_shared
def rubrics(file: Path, case_globs: tuple[str, ...], **given: Any) -> int:
    """Add `rubrics` to every case of the eval file FILE that has none.

    Comments, order, quotes and everything else in the file stay as they are, and cases with `rubrics` are left alone.
    When a case fails nothing is written. The target is --target, else the file's own, as in `agentv run`. Exits with
    3 when something could not be made, with 4 for wrong usage or files, with 5 when no case matches.
    """
    from agentv.cli.evals.generate_rubrics import generate_rubrics
    from agentv.cli.evals.generating import GenerateOptions

    return generate_rubrics(file, case_globs, GenerateOptions(**given))


@command.command("evals")
@click.option("--in", "data", type=_EXISTING, required=True, metavar="DATA", help="Documents or logged questions.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), required=True, metavar="FILE", help="Eval file."
)
@click.option(
    "--count", type=click.IntRange(1, 50), default=3, show_default=True, metavar="N", help="Most cases for a record."
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N records of DATA.")
@click.option("--append", is_flag=True, help="Add to FILE when there is one; what stands in it stays as it is.")
@_with_shared
def evals(data: Path, out: Path, count: int, limit: int | None, append: bool, **given: Any) -> int:  # noqa: FBT001 - click passes a flag so
    """Write eval cases made from DATA to FILE (.yaml, .yml or .jsonl).

    DATA is JSON Lines or a table (.csv, .tsv), each line or row a record, or any other text, which is cut into pieces
    of at most 6,000 characters. When a record fails nothing is written. Exits with 3 when something could not be made,
    with 4 for wrong usage or files, with 5 when DATA is empty.
    """
    from agentv.cli.evals.generate_evals import Source, generate_evals
    from agentv.cli.evals.generating import GenerateOptions

    return generate_evals(Source(data=data, out=out, count=count, limit=limit, append=append), GenerateOptions(**given))
