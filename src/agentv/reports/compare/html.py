"""A comparison as one self-contained HTML file, which makes no requests and needs no script."""

from collections.abc import Iterator, Sequence

from agentv.reports.compare.words import (
    HEAD,
    FindReasons,
    case_label,
    case_lists,
    difference_text,
    measure_cells,
    pairing_text,
    side_title,
    summary_sentences,
    verdict_text,
)
from agentv.reports.html.parts import asset, page_head, scrolled_table
from agentv.reports.text.amounts import score_text
from agentv.reports.text.markup import Html, element
from agentv.reports.text.printable import one_line
from agentv.scoring.comparison.circumstances import find_circumstances
from agentv.scoring.comparison.compare import Change, Comparison, finding_text
from agentv.scoring.comparison.sides import Side
from agentv.types.results import RunVerdict

_NAMED = 20
_TONES = {"better": "good", "worse": "bad", "no evidence": "unsure"}


def finding_tone(comparison: Comparison) -> str:
    """Return the class of a finding in the page's style."""
    return _TONES[comparison.finding]


def comparisons_html(compared: Sequence[tuple[Comparison, FindReasons, RunVerdict | None]], *, listed: int) -> str:
    """Return comparisons with the same first run as a page, each with its changed cases."""
    first = compared[0][0]
    if len(compared) == 1:
        return html_page(finding_text(first), first.before, first.after, list(_parts(*compared[0], listed)))
    sections = [
        element(
            "section",
            element("h2", f"{side_title(comparison.after)}: {finding_text(comparison)}"),
            *_parts(comparison, reasons, verdict, listed),
        )
        for comparison, reasons, verdict in compared
    ]
    return html_page(f"{len(compared):,} runs compared", first.before, None, sections)


def html_page(heading: str, before: Side, after: Side | None, parts: Sequence[Html]) -> str:
    """Return a page with a heading, the two compared sides, and the differences in their setup."""
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


def _parts(comparison: Comparison, reasons: FindReasons, verdict: RunVerdict | None, listed: int) -> Iterator[Html]:
    found = [verdict_item(verdict), measures_table(comparison)]
    yield from (each for each in found if each is not None)
    yield element("p", f"{'. '.join((pairing_text(comparison), *summary_sentences(comparison)))}.")
    changes: tuple[Change, ...] = ("regressed", "improved")
    for change in changes:
        yield from _changed(comparison, change, reasons, listed)
    for what, names in case_lists(comparison):
        shown = ", ".join(case_label(name, comparison) for name in names[:_NAMED])
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        yield element("p", f"{what}: {len(names):,}: {shown}{more}")


def _changed(comparison: Comparison, change: Change, reasons: FindReasons, listed: int) -> Iterator[Html]:
    cases = comparison.changed(change)
    if not cases:
        return
    rows = []
    for case in cases[:listed]:
        why = reasons(case)
        moved = f"{score_text(case.before)} -> {score_text(case.after)} ({difference_text(case.difference)})"
        rows.append([case_label(case.pair.after, comparison), moved, why.before or "", why.after or ""])
    rest = len(cases) - listed
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
