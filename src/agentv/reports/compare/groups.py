"""The groups of two runs: one table with a row for each, then the cases that changed, and the finding."""

from collections.abc import Iterator, Sequence

from agentv.reports.compare.changed_cases import changed_sections
from agentv.reports.compare.compared import ComparedGroup, GroupedComparison
from agentv.reports.compare.shared_blocks import TONES, circumstances, gates_verdict, uncompared
from agentv.reports.compare.words import bounds_text, cases_text, has_pairs, side_title
from agentv.reports.document.blocks import (
    Block,
    Cell,
    Document,
    Facts,
    Lines,
    Phrase,
    Quote,
    Sentence,
    Table,
    Verdict,
    joined,
)
from agentv.reports.run.row_text import cell_text
from agentv.reports.text.amounts import count_text, difference_text, level_text, p_value_text, score_text
from agentv.scoring.comparison.case_differences import CaseDifference
from agentv.scoring.comparison.compare import Finding, changes_text, needed_text
from agentv.scoring.comparison.grouping import GroupKey
from agentv.types.summaries import LEVEL

_HEADS = ("cases", "before", "after", "difference", "CI", "p", "fell", "rose")
_MAX_NAMES = 20
_MAX_NEEDED = 5
_IN_LABELS = ("prompt", "suite", "target")
"""The kinds of groups that the label of a case names if there are several."""
_FINDINGS: tuple[Finding, ...] = ("worse", "better")


def groups_document(grouped: GroupedComparison, max_listed: int) -> Document:
    """Return the document, with at most `max_listed` cases that fell, and as many that rose."""
    whole = grouped.whole.comparison
    names = [_group_title(grouped.by, each.key) for each in grouped.groups]
    facts: tuple[tuple[str, Phrase], ...] = (
        ("before", Quote(side_title(whole.before))),
        ("after", Quote(side_title(whole.after))),
        ("groups", (f"{len(names):,} by ", Quote(grouped.by), f"{_separated_by(grouped)}, each compared separately")),
    )

    def groups_of(case: CaseDifference) -> tuple[Phrase, ...]:
        if grouped.by in _IN_LABELS:
            return ()
        found = dict.fromkeys(each.key.name for each in grouped.groups if _has_case(each, case))
        return tuple(map(Quote, found))

    blocks: tuple[Block, ...] = (
        Facts(facts),
        *changed_sections(grouped.whole, max_listed, groups_of),
        _table(grouped),
        *circumstances(whole.before, whole.after),
        *uncompared(whole),
        Lines(tuple(_unmatched(grouped))),
        gates_verdict([each.explained for each in grouped.groups], names),
        Verdict((_finding(grouped),)),
    )
    title = (f"compare, {count_text(len(names), 'group')} by ", Quote(grouped.by))
    return Document(title, blocks, is_titled=False)


def _has_case(group: ComparedGroup, case: CaseDifference) -> bool:
    return bool(group.explained.comparison.after.row_count(case.pair.after))


def _table(grouped: GroupedComparison) -> Table:
    """Return a row for each group with its mean score; the head has the level of the intervals if all share it."""
    scores = [each.explained.comparison.score for each in grouped.groups]
    levels = {each.interval.level for each in scores if each is not None and each.interval is not None}
    level = levels.pop() if len(levels) == 1 else None
    heads = [f"{level_text(level or LEVEL)} CI" if head == "CI" else head for head in _HEADS]
    rows = (_row(grouped.by, each, shown_level=level or LEVEL) for each in grouped.groups)
    return Table((Quote(grouped.by), *heads), tuple(rows))


def _row(by: str, group: ComparedGroup, *, shown_level: float) -> tuple[Cell, ...]:
    name, score = Quote(_group_name(by, group.key)), group.explained.comparison.score
    if score is None:
        return (name, "0", *["-"] * (len(_HEADS) - 1))
    moved = (score.lower, score.higher) if score.independent is None else (None, None)
    return (
        name,
        cases_text(score),
        score_text(score.before),
        score_text(score.after),
        difference_text(score.difference),
        bounds_text(score, without_level=shown_level),
        p_value_text(score.p),
        *("-" if each is None else f"{each:,}" for each in moved),
    )


def _finding(grouped: GroupedComparison) -> Sentence:
    """Return how many cases fell and rose, then the groups that are worse and better."""
    if not grouped.groups:
        return Sentence(("NOTHING SELECTED: no group is on both sides (grouped by ", Quote(grouped.by), ")."), "bad")
    whole = grouped.whole.comparison
    noun = "pair" if has_pairs(whole) else "case"
    texts: list[Phrase] = [changes_text(len(whole.fell()), len(whole.rose()), noun)] if whole.is_paired else []
    found = {each: _names_of(grouped, each) for each in _FINDINGS}
    texts += [(f"{finding}: ", *_first(names)) for finding, names in found.items() if names]
    texts += _undecided(grouped)
    if not whole.is_paired:
        texts.append("unpaired")
    tone = next((TONES[finding] for finding, names in found.items() if names), TONES["no significant difference"])
    return Sentence(joined(tuple(texts), "; "), tone)


def _undecided(grouped: GroupedComparison) -> Iterator[Phrase]:
    """Yield the groups without a significant difference, each with the number of cases that it would need.

    They are counted if all need the same number, or none was compared.
    """
    undecided = [each for each in grouped.groups if each.explained.comparison.finding not in _FINDINGS]
    scores = ((each.key, each.explained.comparison.score) for each in undecided)
    needed = {_group_name(grouped.by, key): needed_text(score) for key, score in scores if score is not None}
    if len(set(needed.values())) > 1:
        texts = [(Quote(name), f" (n needed: {text})") for name, text in needed.items()]
        rest = len(undecided) - len(texts[:_MAX_NEEDED])
        more = f" and {rest:,} more" if rest else ""
        yield ("no significant difference: ", *joined(tuple(texts[:_MAX_NEEDED]), ", "), more)
    elif undecided:
        is_all = len(undecided) == len(grouped.groups)
        which = "any group" if is_all else count_text(len(undecided), "other group")
        needs = "".join(f" (n needed: {text})" for text in set(needed.values()))
        yield f"no significant difference in {which}{needs}"


def _first(names: Sequence[str]) -> tuple[str | Quote, ...]:
    """Return the first names with commas, and how many are left out."""
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return (*joined(tuple(map(Quote, names[:_MAX_NAMES])), ", "), more)


def _names_of(grouped: GroupedComparison, finding: Finding) -> list[str]:
    groups = (each for each in grouped.groups if each.explained.comparison.finding == finding)
    return [_group_name(grouped.by, each.key) for each in groups]


def _group_name(by: str, key: GroupKey) -> str:
    """Return `refunds`, with target and prompt if groups are separated by them."""
    return _group_title(by, key).removeprefix(f"{by} ")


def _group_title(by: str, key: GroupKey) -> str:
    """Return `tag refunds`, with target and prompt if groups are separated by them: `tag refunds · small · short`."""
    if by == "prompt":
        return f"{by} {cell_text(key.target, key.name)}"
    return f"{by} {cell_text(key.name, cell_text(key.target, key.prompt))}"


def _separated_by(grouped: GroupedComparison) -> str:
    """Return what separates the groups besides their kind: ` and target`, ` and prompt`, or both."""
    keys = [each.key for each in grouped.groups]
    kinds = {"target": any(key.target for key in keys), "prompt": any(key.prompt is not None for key in keys)}
    return "".join(f" and {kind}" for kind, is_used in kinds.items() if is_used)


def _unmatched(grouped: GroupedComparison) -> Iterator[Phrase]:
    for heading, keys in (("groups only before", grouped.only_before), ("groups only after", grouped.only_after)):
        if keys:
            titles = tuple(Quote(_group_title(grouped.by, key)) for key in keys)
            yield (f"{heading}: ", *joined(titles, ", "))
