"""A comparison as Markdown for a pull request or job summary, with the finding first."""

from collections.abc import Iterator

from agentv.reports.compare.words import (
    HEAD,
    FindReasons,
    case_label,
    case_lists,
    difference_text,
    measure_cells,
    side_title,
    summary_sentences,
    verdict_text,
)
from agentv.reports.text.amounts import score_text
from agentv.reports.text.markup import cell_code, inline_code
from agentv.scoring.comparison.circumstances import find_circumstances
from agentv.scoring.comparison.compare import Change, Comparison, finding_text
from agentv.scoring.comparison.sides import Side
from agentv.types.results import RunVerdict

_NAMED = 20
_LONGEST = 300


def comparison_markdown(
    comparison: Comparison, reasons: FindReasons, *, listed: int, verdict: RunVerdict | None = None
) -> str:
    """Return the comparison as Markdown; at most `listed` improved and regressed cases are listed with reasons."""
    lines = [
        f"**{finding_text(comparison)}**",
        *([] if verdict is None else ["", inline_code(verdict_text(verdict))]),
        "",
        f"{inline_code(side_title(comparison.before))} -> {inline_code(side_title(comparison.after))}",
        "",
        *table_lines(comparison),
        f"{'. '.join(summary_sentences(comparison))}.",
        *_changed(comparison, "regressed", reasons, listed),
        *_changed(comparison, "improved", reasons, listed),
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


def _changed(comparison: Comparison, change: Change, reasons: FindReasons, listed: int) -> Iterator[str]:
    cases = comparison.changed(change)
    if not cases:
        return
    yield from ("", f"### {change}: {len(cases):,}", "")
    for case in cases[:listed]:
        note = ", content changed" if case.is_changed else ""
        moved = f"{score_text(case.before)} -> {score_text(case.after)} ({difference_text(case.difference)}{note})"
        yield f"- {inline_code(case_label(case.pair.after, comparison))} {moved}"
        why = reasons(case)
        for side, reason in (("before", why.before), ("after", why.after)):
            if reason is not None:
                yield f"  - {side}: {inline_code(reason, longest=_LONGEST)}"
    if len(cases) > listed:
        yield f"- and {len(cases) - listed:,} more"


def circumstance_lines(before: Side, after: Side) -> Iterator[str]:
    """Yield a list of what differs between the setups of two sides, under a heading."""
    found = find_circumstances(before, after)
    if found:
        yield from ("", "### differences in setup", "")
    for each in found:
        was, is_now = (
            "none" if value is None else inline_code(value, longest=_LONGEST) for value in (each.before, each.after)
        )
        yield f"- {inline_code(each.name)}: {was} -> {is_now}"


def _case_lists(comparison: Comparison) -> Iterator[str]:
    for what, names in case_lists(comparison):
        shown = ", ".join(inline_code(case_label(name, comparison)) for name in names[:_NAMED])
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        yield from ("", f"{what}: {len(names):,}: {shown}{more}")
