"""The blocks that comparisons of runs and of groups share: differences in setup, cases left out, and verdicts."""

from collections.abc import Iterator, Sequence

from agentv.reports.compare.compared import ExplainedComparison
from agentv.reports.compare.words import case_label, case_lists, verdict_text
from agentv.reports.document.blocks import Change, Changes, Names, Quote, Section, Sentence, Tone, Verdict
from agentv.scoring.comparison.circumstances import find_circumstances
from agentv.scoring.comparison.compare import Comparison, Finding
from agentv.scoring.comparison.sides import Side

_MAX_NAMES = 20
TONES: dict[Finding, Tone] = {"better": "good", "worse": "bad", "no significant difference": "unsure"}


def circumstances(before: Side, after: Side) -> Iterator[Section]:
    """Yield the settings that differ between the runs, if any do."""
    found = tuple(Change(each.name, each.before, each.after) for each in find_circumstances(before, after))
    if found:
        yield Section("differences in setup", (Changes(found),))


def uncompared(comparison: Comparison) -> Iterator[Section]:
    """Yield the cases that could not be compared or whose content changed, if there are any."""
    lists = [
        Names(heading, tuple(case_label(name, comparison) for name in names[:_MAX_NAMES]), len(names))
        for heading, names in case_lists(comparison)
    ]
    if lists:
        yield Section("", tuple(lists))


def gates_verdict(explained: Sequence[ExplainedComparison], names: Sequence[str]) -> Verdict:
    """Return the verdict of the gates on each named comparison; empty without gates."""
    return Verdict(
        tuple(
            Sentence((*named(name), Quote(verdict_text(each.verdict))), "bad" if each.verdict.exit_code else "good")
            for name, each in zip(names, explained, strict=True)
            if each.verdict is not None
        )
    )


def named(name: str) -> tuple[str | Quote, ...]:
    """Return `name: ` as the start of a sentence; nothing without a name."""
    return (Quote(name), ": ") if name else ()
