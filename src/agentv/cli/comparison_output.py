"""Comparisons as `agentv compare` prints them, in each of its formats."""

from collections.abc import Sequence
from typing import NamedTuple

from agentv.cli.terminal import terminal_style
from agentv.reports.comparison_json import COMPARE_SCHEMA, comparison_to_json, older_json
from agentv.reports.comparison_markdown import comparison_markdown
from agentv.reports.comparison_matrix import matrix_markdown, matrix_text
from agentv.reports.comparison_text import ComparisonView
from agentv.reports.comparison_words import FindReasons
from agentv.reports.printable import printable_json
from agentv.scoring.comparison.compare import Comparison
from agentv.types.json_value import JsonObject
from agentv.types.messages_json import pretty_json
from agentv.types.results import RunVerdict

FORMATS = ("text", "json", "markdown", "agentv")


class ToldComparison(NamedTuple):
    """A comparison with what tells its reasons, and the verdict of the gates where some were asked for."""

    comparison: Comparison
    reasons: FindReasons
    verdict: RunVerdict | None


def comparisons_text(told: Sequence[ToldComparison], format: str, listed: int) -> str:  # noqa: A002 - the option's name
    """Return one comparison, or the matrix of several; `listed` improved and regressed cases come with reasons."""
    match format:
        case "agentv":
            return _json(older_json(told[0].comparison))
        case "json":
            shown = [comparison_to_json(*each) for each in told]
            return _json(shown[0] if len(shown) == 1 else {"schema": COMPARE_SCHEMA, "comparisons": shown})
        case "markdown":
            return _markdown(told, listed)
        case _:
            return _text(told, listed)


def _markdown(told: Sequence[ToldComparison], listed: int) -> str:
    if len(told) == 1:
        comparison, reasons, verdict = told[0]
        return comparison_markdown(comparison, reasons, listed=listed, verdict=verdict)
    return matrix_markdown([each.comparison for each in told], [each.verdict for each in told])


def _text(told: Sequence[ToldComparison], listed: int) -> str:
    style = terminal_style()
    if len(told) == 1:
        comparison, reasons, verdict = told[0]
        return ComparisonView(style.width, style.signs, style.paint, listed).render(comparison, reasons, verdict)
    return matrix_text(
        [each.comparison for each in told],
        [each.verdict for each in told],
        width=style.width,
        signs=style.signs,
        paint=style.paint,
    )


def _json(told: JsonObject) -> str:
    return f"{printable_json(pretty_json(told))}\n"
