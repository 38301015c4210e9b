"""Tables of groups: pass rates and means by tag, target or another key."""

from collections.abc import Collection, Iterator, Sequence

from agentv.reports.document.blocks import INTERVAL
from agentv.reports.text.amounts import percent_interval_text, percent_text, score_interval_text, score_text
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import UNICODE, Paint, Signs, without_colour
from agentv.reports.text.width import table
from agentv.types.summaries import GroupSummary


def group_tables(
    groups: Sequence[GroupSummary], *, width: int | None = 80, signs: Signs = UNICODE, paint: Paint = without_colour
) -> str:
    """Return the groups in their order, with pass rates, means and confidence intervals.

    Groups of one kind share a table if each has a single row. Otherwise each group has a table of its own, with a row
    for each target and prompt.
    """
    tables = list(group_table_rows(groups))
    return signs.escape_unsupported(
        "\n\n".join("\n".join(table(rows, width, paint, mark=signs.ellipsis)) for rows in tables) + "\n"
    )


def group_table_rows(groups: Sequence[GroupSummary]) -> Iterator[list[list[str]]]:
    """Yield the tables of groups as rows of cells, the head first."""
    for kind in dict.fromkeys(group.by for group in groups):
        yield from _tables(kind, [group for group in groups if group.by == kind])


def _tables(kind: str, groups: Sequence[GroupSummary]) -> list[list[list[str]]]:
    names = dict.fromkeys(group.name for group in groups)
    targets, prompts = {group.target for group in groups}, {group.prompt for group in groups}
    if len(names) == len(groups) and (len(targets) == len(prompts) == 1 or kind in ("target", "prompt")):
        return [[[one_line(kind), *_GROUP_HEAD], *([one_line(each.name), *_group_cells(each)] for each in groups)]]
    return [
        [
            [one_line(f"{kind} {name}"), *_GROUP_HEAD],
            *([_variant(each, targets, prompts), *_group_cells(each)] for each in groups if each.name == name),
        ]
        for name in names
    ]


def _variant(group: GroupSummary, targets: Collection[str | None], prompts: Collection[str | None]) -> str:
    """Return the name of a group's row: its prompt and target, each only if the table has several of them."""
    names = []
    if len(prompts) > 1 and group.by != "prompt":
        names.append(group.prompt or "no prompt")
    if len(targets) > 1 and group.by != "target" and group.target is not None:
        names.append(group.target)
    return one_line(", ".join(names) or group.name)


_GROUP_HEAD = ("pass rate", INTERVAL, "mean", INTERVAL, "errors")


def _group_cells(group: GroupSummary) -> list[str]:
    return [
        f"{percent_text(group.pass_rate)} of {group.judged:,}" if group.judged else "none judged",
        percent_interval_text(group.pass_rate_interval),
        score_text(group.mean_score),
        score_interval_text(group.mean_interval),
        f"{group.counts.get('error', 0):,}",
    ]
