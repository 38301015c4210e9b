"""A comparison as one self-contained HTML file, which makes no requests and needs no script."""

from collections.abc import Iterator, Sequence

from agentv.reports.compare.words import (
    HEAD,
    FindReasons,
    case_label,
    case_lists,
    measure_cells,
    pairing_text,
    side_title,
    summary_sentences,
    verdict_text,
)
from agentv.reports.html.parts import asset, page_head, scrolled_table
from agentv.reports.text.amounts import difference_text, score_text
from agentv.reports.text.markup import Html, element
from agentv.reports.text.printable import one_line
from agentv.scoring.comparison.circumstances import find_circumstances
from agentv.scoring.comparison.compare import Change, Comparison, finding_text
from agentv.scoring.comparison.sides import Side
from agentv.types.results import RunVerdict

_MAX_NAMES = 20
_TONES = {"better": "good", "worse": "bad", "no significant difference": "unsure"}


def finding_tone(comparison: Comparison) -> str:
    """Return the CSS class that colours the finding of a comparison."""
    return _TONES[comparison.finding]


def comparisons_html(compared: Sequence[tuple[Comparison, FindReasons, RunVerdict | None]], *, max_listed: int) -> str:
    """Return comparisons with the same first run as a page, each with its changed cases."""
    first = compared[0][0]
    if len(compared) == 1:
        return html_page(
            finding_text(first), first.before, first.after, list(_comparison_parts(*compared[0], max_listed))
        )
    sections = [
        element(
            "section",
            element("h2", f"{side_title(comparison.after)}: {finding_text(comparison)}"),
            *_comparison_parts(comparison, find_reasons, verdict, max_listed),
        )
        for comparison, find_reasons, verdict in compared
    ]
    return html_page(f"{len(compared):,} runs compared", first.before, None, sections)


def html_page(heading: str, before: Side, after: Side | None, parts: Sequence[Html]) -> str:
    """Return a page with a heading, the two compared sides, `parts`, and the differences in setup.

    `after` is None for several comparisons: the page then names only `before`, which they share, and no differences.
    """
    sides = {"before": side_title(before)} | ({} if after is None else {"after": side_title(after)})
    facts = [element("div", element("dt", name), element("dd", value)) for name, value in sides.items()]
    body = element(
        "body",
        element(
            "main",
            element(
                "header",
                element("p", "agentv compare", class_="eyebrow"),
                element("h1", heading, dir="auto"),
                element("dl", *facts, class_="facts"),
                class_="verdict",
            ),
            *parts,
            None if after is None else _circumstances(before, after),
        ),
    )
    head = page_head(f"{heading} · agentv", style=asset("report.css"))
    return f"<!doctype html>\n{element('html', head, body, lang='en').markup}\n"


def measures_table(comparison: Comparison) -> Html | None:
    """Return the table of measures; None if nothing could be compared."""
    cells = measure_cells(comparison)
    return scrolled_table(HEAD, [[one_line(cell) for cell in row] for row in cells]) if cells else None


def verdict_item(verdict: RunVerdict | None) -> Html | None:
    """Return the verdict of the gates; None without gates."""
    if verdict is None:
        return None
    return element("p", verdict_text(verdict), class_="bad" if verdict.exit_code else "good")


def _comparison_parts(
    comparison: Comparison, find_reasons: FindReasons, verdict: RunVerdict | None, max_listed: int
) -> Iterator[Html]:
    found = [verdict_item(verdict), measures_table(comparison)]
    yield from (each for each in found if each is not None)
    yield element("p", f"{'. '.join((pairing_text(comparison), *summary_sentences(comparison)))}.")
    changes: tuple[Change, ...] = ("regressed", "improved")
    for change in changes:
        yield from _changed(comparison, change, find_reasons, max_listed)
    for heading, names in case_lists(comparison):
        shown = ", ".join(case_label(name, comparison) for name in names[:_MAX_NAMES])
        more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
        yield element("p", f"{heading}: {len(names):,}: {shown}{more}")


def _changed(comparison: Comparison, change: Change, find_reasons: FindReasons, max_listed: int) -> Iterator[Html]:
    cases = comparison.changed(change)
    if not cases:
        return
    rows = []
    for case in cases[:max_listed]:
        reasons = find_reasons(case)
        change_text = f"{score_text(case.before)} -> {score_text(case.after)} ({difference_text(case.difference)})"
        rows.append([case_label(case.pair.after, comparison), change_text, reasons.before or "", reasons.after or ""])
    rest = len(cases) - max_listed
    yield element(
        "section",
        element("h3", f"{change}: {len(cases):,}"),
        scrolled_table(("case", "score", "reason before", "reason after"), rows),
        element("p", f"and {rest:,} more") if rest > 0 else None,
    )


def _circumstances(before: Side, after: Side) -> Html | None:
    rows = [
        [each.name, *("none" if value is None else one_line(value) for value in (each.before, each.after))]
        for each in find_circumstances(before, after)
    ]
    if not rows:
        return None
    return element("section", element("h2", "Differences in setup"), scrolled_table(("", "before", "after"), rows))
