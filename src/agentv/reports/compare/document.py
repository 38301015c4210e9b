"""Comparisons as documents: two runs, several runs compared with a first one, or the groups of two runs."""

import re
from collections.abc import Iterator, Sequence
from shlex import quote

from agentv.reports.compare.compared import Compared, ExplainedComparison, GroupedComparison
from agentv.reports.compare.words import (
    MEASURE_HEADS,
    bounds_text,
    case_label,
    case_lists,
    cases_text,
    measure_cells,
    pairing_text,
    side_marks,
    side_title,
    summary_sentences,
    verdict_text,
)
from agentv.reports.document.blocks import (
    Block,
    Cell,
    Change,
    Changes,
    Details,
    Document,
    Facts,
    Item,
    Items,
    Lines,
    Names,
    Phrase,
    Quote,
    Section,
    Sentence,
    Table,
    Tone,
    Verdict,
    joined,
)
from agentv.reports.text.amounts import count_text, difference_text, p_value_text, score_text
from agentv.scoring.comparison.circumstances import find_circumstances
from agentv.scoring.comparison.compare import CaseDifference, Comparison, Finding, finding_text
from agentv.scoring.comparison.compare import Change as Direction
from agentv.scoring.comparison.grouping import GroupKey
from agentv.scoring.comparison.sides import Side
from agentv.types.results import CaseName

MAX_LISTED = 10
"""The default maximum of listed cases, separately for improved and regressed ones."""

_MAX_NAMES = 20
_TONES: dict[Finding, Tone] = {"better": "good", "worse": "bad", "no significant difference": "unsure"}
_RUN_ID = re.compile(r"\d{8}T\d{6}\.\d{3}-(\w+)")
"""A generated run id; the group is the suffix that commands accept as an abbreviation."""

_MATRIX_HEADS = ("run", "mean", "difference", "95 % CI", "p", "wins", "losses", "regressed", "cases")


def comparison_document(compared: Compared, max_listed: int = MAX_LISTED) -> Document:
    """Return the document, with at most `max_listed` improved and regressed cases of a comparison each."""
    if isinstance(compared, GroupedComparison):
        return _groups_document(compared)
    if len(compared) > 1:
        return _matrix_document(compared, max_listed)
    blocks = (
        _sides(compared[0].comparison),
        *_comparison_blocks(compared[0], max_listed),
        _gates_verdict(compared, [""]),
        _findings_verdict(compared, [""]),
    )
    return Document("compare", blocks, is_titled=False)


def _sides(comparison: Comparison) -> Facts:
    return Facts(
        (
            ("before", Quote(side_title(comparison.before))),
            ("after", Quote(side_title(comparison.after))),
            ("paired" if comparison.is_paired else "cases", pairing_text(comparison)),
        )
    )


def _comparison_blocks(explained: ExplainedComparison, max_listed: int) -> Iterator[Block]:
    comparison = explained.comparison
    yield _measures(comparison)
    yield Lines(summary_sentences(comparison))
    yield from _circumstances(comparison.before, comparison.after)
    directions: tuple[Direction, ...] = ("regressed", "improved")
    for direction in directions:
        yield from _changed(explained, direction, max_listed)
    if lists := tuple(_names(heading, names, comparison) for heading, names in case_lists(comparison)):
        yield Section("", lists)


def _names(heading: str, names: Sequence[CaseName], comparison: Comparison) -> Names:
    shown = names[:_MAX_NAMES]
    return Names(heading, tuple(case_label(name, comparison) for name in shown), len(names))


def _measures(comparison: Comparison) -> Table:
    return Table(MEASURE_HEADS, measure_cells(comparison))


def _circumstances(before: Side, after: Side) -> Iterator[Block]:
    found = tuple(Change(each.name, each.before, each.after) for each in find_circumstances(before, after))
    if found:
        yield Section("differences in setup", (Changes(found),))


def _changed(explained: ExplainedComparison, direction: Direction, max_listed: int) -> Iterator[Block]:
    cases = explained.comparison.changed(direction)
    if not cases:
        return
    rest = len(cases) - max_listed
    more = f"and {rest:,} more: --list {len(cases)}" if rest > 0 else ""
    items = tuple(_changed_case(each, explained) for each in cases[:max_listed])
    yield Section(f"{direction}: {len(cases):,}", (Items(items, more),))


def _changed_case(case: CaseDifference, explained: ExplainedComparison) -> Item:
    scores = f"{score_text(case.before)} -> {score_text(case.after)}"
    marks = ("content changed",) if case.is_content_changed else ()
    reasons = explained.find_reasons(case)._asdict().items()
    return Item(
        Quote(case_label(case.pair.after, explained.comparison)),
        facts=(scores, difference_text(case.difference), *marks),
        mark="fail" if case.change == "regressed" else "pass",
        comments=tuple((side, reason) for side, reason in reasons if reason is not None),
    )


def _gates_verdict(explained: Sequence[ExplainedComparison], names: Sequence[str]) -> Verdict:
    """Return the verdict of the gates on each named comparison; empty without gates."""
    return Verdict(
        tuple(
            Sentence((*_named(name), Quote(verdict_text(each.verdict))), "bad" if each.verdict.exit_code else "good")
            for name, each in zip(names, explained, strict=True)
            if each.verdict is not None
        )
    )


def _findings_verdict(
    explained: Sequence[ExplainedComparison], names: Sequence[str], *, with_marks: bool = False
) -> Verdict:
    """Return the finding of each named comparison, on request with the marks of the later run."""
    return Verdict(
        tuple(
            Sentence(
                (*_named(name), ", ".join((finding_text(each), *(side_marks(each.after) if with_marks else ())))),
                _TONES[each.finding],
            )
            for name, (each, _, _) in zip(names, explained, strict=True)
        )
    )


def _named(name: str) -> tuple[str | Quote, ...]:
    return (Quote(name), ": ") if name else ()


def _groups_document(grouped: GroupedComparison) -> Document:
    names = [_group_title(grouped.by, each.key) for each in grouped.groups]
    explained = [each.explained for each in grouped.groups]
    nothing = Sentence(("NOTHING SELECTED: no group is on both sides (grouped by ", Quote(grouped.by), ")."), "bad")
    facts: tuple[tuple[str, Phrase], ...] = (
        ("before", Quote(side_title(grouped.before))),
        ("after", Quote(side_title(grouped.after))),
        ("groups", (f"{len(names):,} by ", Quote(grouped.by), ", each compared separately")),
    )
    blocks = (
        Facts(facts),
        *map(_group_section, names, explained),
        *_circumstances(grouped.before, grouped.after),
        Lines(tuple(_unmatched(grouped))),
        _gates_verdict(explained, names),
        _findings_verdict(explained, names) if explained else Verdict((nothing,)),
    )
    title = (f"compare, {count_text(len(names), 'group')} by ", Quote(grouped.by))
    return Document(title, blocks, is_titled=False)


def _group_title(by: str, key: GroupKey) -> str:
    """Return `tag refunds`, with target and prompt if groups are separated by them."""
    target = f", target {key.target}" if key.target else ""
    prompt = "" if key.prompt is None else f", prompt {key.prompt}"
    return f"{by} {key.name}{prompt}{target}"


def _unmatched(grouped: GroupedComparison) -> Iterator[Phrase]:
    for heading, keys in (("groups only before", grouped.only_before), ("groups only after", grouped.only_after)):
        if keys:
            titles = tuple(Quote(_group_title(grouped.by, key)) for key in keys)
            yield (f"{heading}: ", *joined(titles, ", "))


def _group_section(name: str, explained: ExplainedComparison) -> Section:
    comparison = explained.comparison
    one_sided = ((comparison.alignment.only_before, "before"), (comparison.alignment.only_after, "after"))
    counts = [f"{len(names):,} only {when}" for names, when in one_sided if comparison.is_paired and names]
    pairing = ", ".join((pairing_text(comparison), *counts))
    lines = Lines((pairing, *summary_sentences(comparison)))
    return Section(Quote(name), (_measures(comparison), lines, *_changed_names(comparison)))


def _changed_names(comparison: Comparison) -> Iterator[Names]:
    """Yield the names of the cases that got worse, and of those that got better."""
    directions: tuple[Direction, ...] = ("regressed", "improved")
    for direction in directions:
        if cases := comparison.changed(direction):
            yield _names(direction, [each.pair.after for each in cases], comparison)


def _matrix_document(comparisons: Sequence[ExplainedComparison], max_listed: int) -> Document:
    first = comparisons[0].comparison.before
    names = _run_names([each.comparison.after for each in comparisons])
    rows: list[tuple[Cell, ...]] = [
        (Quote(name), *_matrix_cells(each.comparison)) for name, each in zip(names, comparisons, strict=True)
    ]
    blocks: tuple[Block, ...] = (
        Facts(
            (
                ("before", Quote(side_title(first))),
                ("after", f"{count_text(len(comparisons), 'run')}, each compared separately"),
            )
        ),
        Table(_MATRIX_HEADS, tuple(rows)),
        Section("", tuple(_details(each, max_listed) for each in comparisons)),
        _gates_verdict(comparisons, names),
        _findings_verdict(comparisons, names, with_marks=True),
    )
    return Document(f"{len(comparisons):,} runs compared", blocks, is_titled=False)


def _details(explained: ExplainedComparison, max_listed: int) -> Details:
    """Return all that the row of a comparison in the matrix does not say."""
    comparison = explained.comparison
    blocks = (_sides(comparison), *_comparison_blocks(explained, max_listed))
    runs = f"{quote(comparison.before.label)} {quote(comparison.after.label)}"
    return Details(Quote(side_title(comparison.after)), blocks, f"agentv compare {runs}")


def _run_names(sides: Sequence[Side]) -> list[str]:
    """Return a short label for each later run: its name if unique, else the suffix of its id; for a file, its path."""
    run_names = [side.run_json.get("name") for side in sides]

    def name(side: Side) -> str:
        id_match, own_name = _RUN_ID.fullmatch(side.label), side.run_json.get("name")
        if id_match is None:
            return side.label
        return own_name if isinstance(own_name, str) and run_names.count(own_name) == 1 else id_match[1]

    return [name(side) for side in sides]


def _matrix_cells(comparison: Comparison) -> tuple[str, ...]:
    score = comparison.score
    if score is None:
        return (*["-"] * (len(_MATRIX_HEADS) - 2), "0")
    outcomes = (comparison.outcomes("win"), comparison.outcomes("loss"), comparison.changed_count("regressed"))
    return (
        score_text(score.after),
        difference_text(score.difference),
        bounds_text(score),
        p_value_text(score.p),
        *((f"{number:,}" for number in outcomes) if comparison.is_paired else ("-",) * len(outcomes)),
        cases_text(score),
    )
