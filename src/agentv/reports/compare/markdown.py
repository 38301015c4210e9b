"""A comparison as Markdown for a pull request or job summary, with the finding first."""

from collections.abc import Iterator

from agentv.reports.compare.words import (
    HEAD,
    FindReasons,
    case_label,
    case_lists,
    measure_cells,
    side_title,
    summary_sentences,
    verdict_text,
)
from agentv.reports.text.amounts import difference_text, score_text
from agentv.reports.text.markup import cell_code, inline_code
from agentv.scoring.comparison.circumstances import find_circumstances
from agentv.scoring.comparison.compare import Change, Comparison, finding_text
from agentv.scoring.comparison.sides import Side
from agentv.types.results import RunVerdict

_MAX_NAMES = 20
_MAX_TEXT_CHARS = 300


def comparison_markdown(
    comparison: Comparison, find_reasons: FindReasons, *, max_listed: int, verdict: RunVerdict | None = None
) -> str:
    """Return the comparison as Markdown, with at most `max_listed` improved and regressed cases each."""
    lines = [
        f"**{finding_text(comparison)}**",
        *([] if verdict is None else ["", inline_code(verdict_text(verdict))]),
        "",
        f"{inline_code(side_title(comparison.before))} -> {inline_code(side_title(comparison.after))}",
        "",
        *table_lines(comparison),
        f"{'. '.join(summary_sentences(comparison))}.",
        *_changed(comparison, "regressed", find_reasons, max_listed),
        *_changed(comparison, "improved", find_reasons, max_listed),
        *circumstance_lines(comparison.before, comparison.after),
        *_case_lists(comparison),
    ]
    return "\n".join(lines) + "\n"


def table_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the table of measures, and an empty line; nothing if nothing could be compared."""
    rows = measure_cells(comparison)
    if rows:
        yield f"| {' | '.join(HEAD)} |"
        yield f"|{' --- |' + ' ---: |' * (len(HEAD) - 1)}"
        for name, *cells in rows:
            yield f"| {cell_code(name)} | {' | '.join(cells)} |"
        yield ""


def _changed(comparison: Comparison, change: Change, find_reasons: FindReasons, max_listed: int) -> Iterator[str]:
    cases = comparison.changed(change)
    if not cases:
        return
    yield from ("", f"### {change}: {len(cases):,}", "")
    for case in cases[:max_listed]:
        note = ", content changed" if case.is_content_changed else ""
        change_text = (
            f"{score_text(case.before)} -> {score_text(case.after)} ({difference_text(case.difference)}{note})"
        )
        yield f"- {inline_code(case_label(case.pair.after, comparison))} {change_text}"
        reasons = find_reasons(case)
        for side, reason in (("before", reasons.before), ("after", reasons.after)):
            if reason is not None:
                yield f"  - {side}: {inline_code(reason, max_chars=_MAX_TEXT_CHARS)}"
    if len(cases) > max_listed:
        yield f"- and {len(cases) - max_listed:,} more"


def circumstance_lines(before: Side, after: Side) -> Iterator[str]:
    """Yield a list of the differences between the setups of two sides, under a heading."""
    found = find_circumstances(before, after)
    if found:
        yield from ("", "### differences in setup", "")
    for each in found:
        before_text, after_text = (
            "none" if value is None else inline_code(value, max_chars=_MAX_TEXT_CHARS)
            for value in (each.before, each.after)
        )
        yield f"- {inline_code(each.name)}: {before_text} -> {after_text}"


def _case_lists(comparison: Comparison) -> Iterator[str]:
    for heading, names in case_lists(comparison):
        shown = ", ".join(inline_code(case_label(name, comparison)) for name in names[:_MAX_NAMES])
        more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
        yield from ("", f"{heading}: {len(names):,}: {shown}{more}")
