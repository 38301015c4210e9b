"""Comparisons as documents: two runs, several runs compared with a first one, or the groups of two runs."""

import re
from collections.abc import Iterator, Sequence
from shlex import quote

from agentv.reports.compare.changed_cases import changed_sections
from agentv.reports.compare.compared import Compared, ExplainedComparison, GroupedComparison
from agentv.reports.compare.groups import groups_document
from agentv.reports.compare.shared_blocks import TONES, circumstances, gates_verdict, named, uncompared
from agentv.reports.compare.words import (
    MEASURE_HEADS,
    bounds_text,
    cases_text,
    measure_cells,
    pairing_text,
    side_marks,
    side_title,
    summary_sentences,
)
from agentv.reports.document.blocks import (
    Block,
    Cell,
    Details,
    Document,
    Facts,
    Lines,
    Phrase,
    Quote,
    Section,
    Sentence,
    Table,
    Verdict,
)
from agentv.reports.text.amounts import count_text, difference_text, p_value_text, score_text
from agentv.scoring.comparison.compare import Comparison, finding_text
from agentv.scoring.comparison.sides import Side
from agentv.scoring.comparison.suites import renamed_suites, renamed_text

MAX_LISTED = 10
"""The default maximum of listed cases, separately for those that fell and rose."""

_MAX_NAMES = 20
_RUN_ID = re.compile(r"\d{8}T\d{6}\.\d{3}-(\w+)")
"""A generated run id; the group is the suffix that commands accept as an abbreviation."""

_MATRIX_HEADS = ("run", "mean", "difference", "95 % CI", "p", "wins", "losses", "regressed", "cases")


def comparison_summary(comparison: Comparison) -> Document:
    """Return the document of two runs without the cases whose score changed."""
    verdict = _findings_verdict((ExplainedComparison(comparison, lambda _cases: ()),), [""])
    return Document("compare", (_sides(comparison), *_numbers(comparison), verdict))


def comparison_document(compared: Compared, max_listed: int = MAX_LISTED) -> Document:
    """Return the document, with at most `max_listed` cases of a comparison that fell, and as many that rose."""
    if isinstance(compared, GroupedComparison):
        return groups_document(compared, max_listed)
    if len(compared) > 1:
        return _matrix_document(compared, max_listed)
    blocks = (
        _sides(compared[0].comparison),
        *_comparison_blocks(compared[0], max_listed),
        gates_verdict(compared, [""]),
        _findings_verdict(compared, [""]),
    )
    return Document("compare", blocks, is_titled=False)


def _sides(comparison: Comparison) -> Facts:
    renamed = renamed_text(renamed_suites(comparison.before.suites, comparison.after.suites))
    facts: list[tuple[str, Phrase]] = [
        ("before", Quote(side_title(comparison.before))),
        ("after", Quote(side_title(comparison.after))),
        ("paired" if comparison.is_paired else "cases", pairing_text(comparison)),
    ]
    if comparison.is_paired and renamed:
        facts.append(("files", Quote(renamed)))
    return Facts(tuple(facts))


def _comparison_blocks(explained: ExplainedComparison, max_listed: int) -> Iterator[Block]:
    yield from changed_sections(explained, max_listed)
    yield from _numbers(explained.comparison)


def _numbers(comparison: Comparison) -> Iterator[Block]:
    """Yield the measures, and what differs between the runs or could not be compared."""
    yield Table(MEASURE_HEADS, measure_cells(comparison))
    yield Lines(summary_sentences(comparison))
    yield from circumstances(comparison.before, comparison.after)
    yield from uncompared(comparison)


def _findings_verdict(
    explained: Sequence[ExplainedComparison], names: Sequence[str], *, with_marks: bool = False
) -> Verdict:
    """Return the finding of each named comparison, on request with the marks of the later run."""
    return Verdict(
        tuple(
            Sentence(
                (*named(name), ", ".join((finding_text(each), *(side_marks(each.after) if with_marks else ())))),
                TONES[each.finding],
            )
            for name, (each, _, _) in zip(names, explained, strict=True)
        )
    )


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
        gates_verdict(comparisons, names),
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
