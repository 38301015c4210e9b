"""Several runs compared with a first one: a table with a row per run, and the finding of each."""

import re
from collections.abc import Sequence
from typing import TypeAlias

from agentv.reports.compare.words import bounds_text, cases_text, side_marks, side_title, verdict_text
from agentv.reports.text.amounts import count_text, difference_text, p_value_text, score_text
from agentv.reports.text.markup import cell_code, inline_code
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import Paint, Signs
from agentv.reports.text.width import clip, table, wrap
from agentv.scoring.comparison.compare import Comparison, finding_text
from agentv.scoring.comparison.sides import Side
from agentv.types.results import RunVerdict

_RUN_ID = re.compile(r"\d{8}T\d{6}\.\d{3}-(\w+)")
"""A generated run id; the group is the suffix that commands accept as an abbreviation."""

_HEAD = ("run", "mean", "difference", "95 % CI", "p", "wins", "losses", "regressed", "cases")


Verdicts: TypeAlias = Sequence[RunVerdict | None]
"""The verdict of the gates on each comparison; None without gates."""


def matrix_text(
    comparisons: Sequence[Comparison], verdicts: Verdicts, *, width: int | None, signs: Signs, paint: Paint
) -> str:
    """Return the matrix of at least two comparisons that have the same first run."""
    first = comparisons[0].before
    names = _names(comparisons)
    head = [
        f"before  {side_title(first)}",
        f"after   {count_text(len(comparisons), 'run')}, each compared separately",
    ]
    rows = ([name, *_cells(each)] for name, each in zip(names, comparisons, strict=True))
    blocks = [
        [line if width is None else clip(line, width, mark=signs.ellipsis) for line in head],
        table([_HEAD, *rows], width, paint),
        _wrapped(_verdict_lines(names, verdicts), width),
        _wrapped(_findings(names, comparisons), width),
    ]
    return signs.escape_unsupported("\n\n".join("\n".join(block) for block in blocks if block) + "\n")


def matrix_markdown(comparisons: Sequence[Comparison], verdicts: Verdicts) -> str:
    """Return the matrix as Markdown."""
    names = _names(comparisons)
    rows = ([cell_code(name), *_cells(each)] for name, each in zip(names, comparisons, strict=True))
    lines = [
        *(f"- {inline_code(line)}" for line in (*_findings(names, comparisons), *_verdict_lines(names, verdicts))),
        "",
        f"compared with {inline_code(side_title(comparisons[0].before))}",
        "",
        f"| {' | '.join(_HEAD)} |",
        f"|{' --- |' + ' ---: |' * (len(_HEAD) - 1)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _wrapped(texts: Sequence[str], width: int | None) -> list[str]:
    return [line for text in texts for line in ([text] if width is None else wrap(text, width))]


def _names(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a short label for each later run: its name if unique, else the suffix of its id; for a file, its path."""
    run_names = [each.after.run_json.get("name") for each in comparisons]

    def name(side: Side) -> str:
        id_match, own_name = _RUN_ID.fullmatch(side.label), side.run_json.get("name")
        if id_match is None:
            return side.label
        return own_name if isinstance(own_name, str) and run_names.count(own_name) == 1 else id_match[1]

    return [one_line(name(each.after)) for each in comparisons]


def _findings(names: Sequence[str], comparisons: Sequence[Comparison]) -> list[str]:
    return [
        f"{name}: {', '.join([finding_text(each), *side_marks(each.after)])}"
        for name, each in zip(names, comparisons, strict=True)
    ]


def _verdict_lines(names: Sequence[str], verdicts: Verdicts) -> list[str]:
    return [
        f"{name}: {verdict_text(verdict)}" for name, verdict in zip(names, verdicts, strict=True) if verdict is not None
    ]


def _cells(comparison: Comparison) -> list[str]:
    score = comparison.score
    if score is None:
        return [*["-"] * (len(_HEAD) - 2), "0"]
    return [
        score_text(score.after),
        difference_text(score.difference),
        bounds_text(score),
        p_value_text(score.p),
        *_outcomes(comparison),
        cases_text(score),
    ]


def _outcomes(comparison: Comparison) -> list[str]:
    if not comparison.is_paired:
        return ["-"] * 3
    numbers = (comparison.outcomes("win"), comparison.outcomes("loss"), comparison.changed_count("regressed"))
    return [f"{number:,}" for number in numbers]
