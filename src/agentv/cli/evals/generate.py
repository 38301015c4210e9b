"""`agentv generate`: generate rubrics for cases, or cases from documents and logged questions, with a model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)

_SHARED = (
    click.option("--target", metavar="NAME", help="Model that writes; use a strong one."),
    click.option(
        "--targets", "targets_file", metavar="FILE", help="Targets file or folder (default: the nearest one)."
    ),
    click.option(
        "--prompt-path", type=_EXISTING, metavar="FILE", help="Prompt template to use instead of the built-in one."
    ),
    click.option(
        "--concurrency", type=click.IntRange(min=1), default=4, show_default=True, metavar="N", help="Concurrent calls."
    ),
    click.option("--keep-going", is_flag=True, help="Continue after failures and write what succeeded."),
    click.option("--dry-run", is_flag=True, help="Print the requests without sending them."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)


def _with_shared(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_SHARED):
        function = option(function)
    return function


@click.group()
def command() -> None:
    """Let a model write cases (from documents or logged questions) or rubrics (for existing cases).

    A rubric is a list of requirements by which a model judges the answer to a case.
    """


@command.command("rubrics")
@click.argument("file", type=_EXISTING)
@click.option("--case", "case_globs", multiple=True, metavar="GLOB", help="Only cases whose id matches; repeatable.")
@_with_shared
def rubrics(file: Path, case_globs: tuple[str, ...], **given: Any) -> int:
    """Add rubrics to the cases of eval file FILE that have no rubrics.

    Everything else in FILE stays unchanged, including comments and quotes. If the rubrics of a case cannot be written,
    FILE does not change. Without --target, the target that `agentv run FILE` calls writes them.

    Exit codes: 0 done, 3 generation failed, 4 invalid usage or files, 5 no case matches.
    """
    from agentv.cli.evals.generate_rubrics import generate_rubrics
    from agentv.cli.evals.generating import GenerateOptions

    return generate_rubrics(file, case_globs, GenerateOptions(**given))


@command.command("evals")
@click.option("--in", "data", type=_EXISTING, required=True, metavar="FILE", help="Documents or logged questions.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="Eval file to write (.yaml, .yml or .jsonl).",
)
@click.option(
    "--count",
    type=click.IntRange(1, 50),
    default=3,
    show_default=True,
    metavar="N",
    help="Maximum number of cases per record.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Use only the first N records.")
@click.option("--append", is_flag=True, help="If the file --out exists, add the cases to it.")
@_with_shared
def evals(data: Path, out: Path, count: int, limit: int | None, append: bool, **given: Any) -> int:  # noqa: FBT001 - click passes flags like this
    """Write cases from the file --in into the eval file --out.

    The file --in is JSON Lines or a table (.csv, .tsv), with one record per line or row. Any other text is split into
    records of at most 6,000 characters. If a record fails, nothing is written.

    Exit codes: 0 done, 3 generation failed, 4 invalid usage or files, 5 the file --in is empty.
    """
    from agentv.cli.evals.generate_evals import Source, generate_evals
    from agentv.cli.evals.generating import GenerateOptions

    return generate_evals(Source(data=data, out=out, count=count, limit=limit, append=append), GenerateOptions(**given))
