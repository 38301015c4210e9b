"""A comparison by group: one table per group, and the findings of all."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from agentv.reports.compare.html import finding_tone, html_page, measures_table, verdict_item
from agentv.reports.compare.json import COMPARE_SCHEMA, comparison_to_json, side_to_json
from agentv.reports.compare.markdown import circumstance_lines, table_lines
from agentv.reports.compare.text import ComparisonView
from agentv.reports.compare.words import (
    HEAD,
    FindReasons,
    measure_cells,
    pairing_text,
    side_title,
    summary_sentences,
    verdict_text,
)
from agentv.reports.text.amounts import count_text
from agentv.reports.text.markup import element, inline_code
from agentv.reports.text.printable import one_line
from agentv.reports.text.width import table
from agentv.scoring.comparison.circumstances import find_circumstances
from agentv.scoring.comparison.compare import Comparison, finding_text
from agentv.scoring.comparison.grouping import GroupKey
from agentv.scoring.comparison.sides import Side
from agentv.types.json_value import JsonObject
from agentv.types.results import RunVerdict


class ComparedGroup(NamedTuple):
    """The comparison of one group; `verdict` is the verdict of the gates, None without gates."""

    key: GroupKey
    comparison: Comparison
    find_reasons: FindReasons
    verdict: RunVerdict | None


class GroupedComparison(Struct, frozen=True):
    """The comparisons of the groups of kind `by` that both sides have, and the groups of one side only."""

    by: str
    before: Side
    after: Side
    groups: tuple[ComparedGroup, ...]
    only_before: tuple[GroupKey, ...] = ()
    only_after: tuple[GroupKey, ...] = ()

    def title(self, key: GroupKey) -> str:
        """Return `tag refunds`, with target and prompt if groups are separated by them."""
        target = f", target {key.target}" if key.target else ""
        prompt = "" if key.prompt is None else f", prompt {key.prompt}"
        return one_line(f"{self.by} {key.name}{prompt}{target}")

    def findings(self) -> list[str]:
        """Return the finding of each group, or one line if no group is on both sides."""
        if not self.groups:
            return [f"NOTHING SELECTED: no group is on both sides (grouped by {one_line(self.by)})."]
        return [f"{self.title(each.key)}: {finding_text(each.comparison)}" for each in self.groups]

    def verdicts(self) -> list[str]:
        """Return the verdicts of the gates on each group."""
        return [
            f"{self.title(each.key)}: {verdict_text(each.verdict)}" for each in self.groups if each.verdict is not None
        ]

    def unmatched(self) -> list[tuple[str, Sequence[str]]]:
        """Return pairs of a heading, such as `groups only before`, and the titles of these groups."""
        found = (("groups only before", self.only_before), ("groups only after", self.only_after))
        return [(heading, [self.title(key) for key in keys]) for heading, keys in found if keys]


def groups_text(grouped: GroupedComparison, view: ComparisonView) -> str:
    """Return the groups as text; the last lines are their findings."""
    head = [
        view.clipped(f"before  {side_title(grouped.before)}"),
        view.clipped(f"after   {side_title(grouped.after)}"),
        f"groups  {len(grouped.groups):,} by {one_line(grouped.by)}, each compared separately",
    ]
    blocks = [
        head,
        *(_group_lines(grouped, each, view) for each in grouped.groups),
        view.circumstances(find_circumstances(grouped.before, grouped.after)),
        [line for heading, titles in grouped.unmatched() for line in view.wrapped(f"{heading}: {', '.join(titles)}")],
        [line for text in grouped.verdicts() for line in view.wrapped(text)],
        [line for text in grouped.findings() for line in view.wrapped(text)],
    ]
    return view.signs.escape_unsupported("\n\n".join("\n".join(block) for block in blocks if block) + "\n")


def _pairing(group: ComparedGroup) -> str:
    """Return the number of compared cases, and of the cases that are in this group on one side only."""
    comparison, alignment = group.comparison, group.comparison.alignment
    one_sided = ((alignment.only_before, "before"), (alignment.only_after, "after"))
    counts = [f"{len(names):,} only {when}" for names, when in one_sided if comparison.is_paired and names]
    return ", ".join((pairing_text(comparison), *counts))


def _group_lines(grouped: GroupedComparison, group: ComparedGroup, view: ComparisonView) -> list[str]:
    cells = [[one_line(cell) for cell in row] for row in measure_cells(group.comparison)]
    texts = [_pairing(group), *summary_sentences(group.comparison)]
    return [
        view.paint(view.clipped(grouped.title(group.key)), "bold"),
        *(table([HEAD, *cells], view.width, view.paint) if cells else []),
        *(line for text in texts for line in view.wrapped(text)),
    ]


def groups_markdown(grouped: GroupedComparison) -> str:
    """Return the groups as Markdown, with the findings first."""
    lines = [
        *(f"- {inline_code(line)}" for line in (*grouped.findings(), *grouped.verdicts())),
        "",
        f"{inline_code(side_title(grouped.before))} -> {inline_code(side_title(grouped.after))}",
        *(line for each in grouped.groups for line in _group_markdown(grouped, each)),
        *circumstance_lines(grouped.before, grouped.after),
    ]
    for heading, titles in grouped.unmatched():
        lines += ["", f"{heading}: {', '.join(map(inline_code, titles))}"]
    return "\n".join(lines) + "\n"


def _group_markdown(grouped: GroupedComparison, group: ComparedGroup) -> Iterator[str]:
    yield from ("", f"### {inline_code(grouped.title(group.key))}", "")
    yield from table_lines(group.comparison)
    yield f"{'. '.join((_pairing(group), *summary_sentences(group.comparison)))}."


def groups_to_json(grouped: GroupedComparison) -> JsonObject:
    """Return the groups as JSON, each with its whole comparison."""
    return {
        "schema": COMPARE_SCHEMA,
        "by": grouped.by,
        "before": side_to_json(grouped.before),
        "after": side_to_json(grouped.after),
        "groups": [
            {**_key(each.key), **comparison_to_json(each.comparison, each.find_reasons, each.verdict)}
            for each in grouped.groups
        ],
        "groups_only_before": [_key(key) for key in grouped.only_before],
        "groups_only_after": [_key(key) for key in grouped.only_after],
    }


def _key(key: GroupKey) -> JsonObject:
    target: JsonObject = {"target": key.target} if key.target else {}
    prompt: JsonObject = {} if key.prompt is None else {"prompt": key.prompt}
    return {"group": key.name, **prompt, **target}


def groups_html(grouped: GroupedComparison) -> str:
    """Return the groups as an HTML page."""
    sections = [
        element(
            "section",
            element("h2", grouped.title(each.key)),
            element("p", element("b", finding_text(each.comparison)), class_=finding_tone(each.comparison)),
            verdict_item(each.verdict),
            measures_table(each.comparison),
            element("p", f"{'. '.join((_pairing(each), *summary_sentences(each.comparison)))}."),
        )
        for each in grouped.groups
    ]
    unmatched = [element("p", f"{heading}: {', '.join(titles)}") for heading, titles in grouped.unmatched()]
    title = f"{count_text(len(grouped.groups), 'group')} by {one_line(grouped.by)}"
    return html_page(title, grouped.before, grouped.after, [*sections, *unmatched])
