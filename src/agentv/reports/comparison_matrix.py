"""Several runs against a first one, as text: a line a run, and last what each amounts to."""

from collections.abc import Sequence
from typing import TypeAlias

from agentv.reports.amounts import count_text, score_text
from agentv.reports.comparison_rows import chance_text, difference_text
from agentv.reports.comparison_words import side_title, verdict_text
from agentv.reports.markdown_code import cell_code, inline_code
from agentv.reports.paint import Paint
from agentv.reports.printable import one_line
from agentv.reports.signs import Signs
from agentv.reports.table import table
from agentv.reports.text_width import wrap
from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.finding import finding_text
from agentv.types.results import RunVerdict

_HEAD = ("run", "mean", "difference", "95 % interval", "p", "wins", "losses", "regressed", "cases")


Verdicts: TypeAlias = Sequence[RunVerdict | None]
"""What the gates say of each comparison; None where none were asked for."""


def matrix_text(
    comparisons: Sequence[Comparison], verdicts: Verdicts, *, width: int | None, signs: Signs, paint: Paint
) -> str:
    """Return the matrix; there are two comparisons or more, all with the same first run."""
    first = comparisons[0].before
    blocks = [
        _within(
            [f"before  {side_title(first)}", f"after   {count_text(len(comparisons), 'run')}, each by itself"], width
        ),
        table([_HEAD, *([one_line(name), *cells] for name, *cells in map(_cells, comparisons))], width, paint),
        _within(_said(comparisons, verdicts), width),
        _within(_findings(comparisons), width),
    ]
    return signs.within("\n\n".join("\n".join(block) for block in blocks if block) + "\n")


def matrix_markdown(comparisons: Sequence[Comparison], verdicts: Verdicts) -> str:
    """Return the matrix as Markdown."""
    rows = ([cell_code(name), *cells] for name, *cells in map(_cells, comparisons))
    lines = [
        *(f"- {inline_code(line)}" for line in (*_findings(comparisons), *_said(comparisons, verdicts))),
        "",
        f"against {inline_code(side_title(comparisons[0].before))}",
        "",
        f"| {' | '.join(_HEAD)} |",
        f"|{' --- |' + ' ---: |' * (len(_HEAD) - 1)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _within(texts: Sequence[str], width: int | None) -> list[str]:
    return [line for text in texts for line in ([text] if width is None else wrap(text, width))]


def _findings(comparisons: Sequence[Comparison]) -> list[str]:
    return [f"{one_line(each.after.label)}: {finding_text(each)}" for each in comparisons]


def _said(comparisons: Sequence[Comparison], verdicts: Verdicts) -> list[str]:
    return [
        f"{one_line(each.after.label)}: {verdict_text(verdict)}"
        for each, verdict in zip(comparisons, verdicts, strict=True)
        if verdict is not None
    ]


def _cells(comparison: Comparison) -> list[str]:
    score = comparison.score
    if score is None:
        return [comparison.after.label, *["-"] * (len(_HEAD) - 2), "0"]
    found = score.interval
    bounds = "-" if found is None else f"{difference_text(found.low)} to {difference_text(found.high)}"
    return [
        comparison.after.label,
        score_text(score.after),
        difference_text(score.difference),
        bounds,
        chance_text(score.p),
        f"{comparison.outcomes('win'):,}",
        f"{comparison.outcomes('loss'):,}",
        f"{len(comparison.changed('regressed')):,}",
        f"{score.cases:,}",
    ]
