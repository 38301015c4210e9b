"""`agentv compare`: compare runs, with significance tests."""

import random
from collections.abc import Sequence
from typing import Any

import click
from msgspec import Struct

from agentv.cli.run_sources import READ_STORE_OPTION, ProjectRuns, StoreRuns, open_runs
from agentv.cli.screen import document_text, print_documents, print_pieces, warn_of_edits
from agentv.engine.stored.explanations import ComparedSide, Explainer, StoredSource
from agentv.reports import COMPARISONS, REPORTS, document_formats
from agentv.reports.compare.compared import Compared, ComparedGroup, ExplainedComparison, GroupedComparison
from agentv.reports.compare.document import comparison_document
from agentv.reports.compare.words import unfinished_text
from agentv.reports.text.printable import one_line
from agentv.scoring.comparison.case_numbers import CaseNumbers
from agentv.scoring.comparison.compare import (
    Comparison,
    are_matched,
    compare_sides,
    compare_unpaired,
    correct_comparisons,
)
from agentv.scoring.comparison.gated import ComparedPairs
from agentv.scoring.comparison.grouping import GROUPINGS, RowFilter, grouping_named, pair_groups
from agentv.scoring.comparison.sides import INCOMPLETE, Side, evaluator_of
from agentv.scoring.comparison.unmatched import why_unmatched
from agentv.scoring.counting.groups import no_group_message
from agentv.scoring.gates.gates import COMPARE_METRICS, parse_gate
from agentv.scoring.gates.run_verdict import NOTHING_SELECTED, Ending, ScopedGate, run_verdict
from agentv.storage.run.scores import FoundScores, find_scores
from agentv.types.errors import ConfigError, UnknownNameError
from agentv.types.results import RunVerdict

TEXT = "text"
"""The format of the terminal, which only the command knows."""


class FormatChoice(click.Choice[str]):
    """A format of a comparison, by its name or an alias.

    `agentv`, the former name of `agentv-ts`, is accepted with a warning.
    """

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of the format."""
        if value == "agentv":
            click.echo("warning: --format agentv is deprecated; its name is now agentv-ts", err=True)
        canonical = (registry.aliases.get(value) for registry in (COMPARISONS, REPORTS))
        return super().convert(next(filter(None, canonical), value), param, ctx)


def formats() -> tuple[str, ...]:
    """Return the names of the formats of a comparison."""
    return (TEXT, *(each.name for each in (*COMPARISONS, *document_formats())))


def _print(compared: Compared, options: "CompareOptions") -> None:
    if options.format in COMPARISONS:
        print_pieces(COMPARISONS.get(options.format).load_factory()(compared))
        return
    document = comparison_document(compared, options.max_listed)
    if options.format == TEXT:
        print_documents([document])
    else:
        click.echo(document_text([document], REPORTS.get(options.format)), nl=False)


def _explainer(before: FoundScores, after: FoundScores, sides: tuple[Side, Side] | None = None) -> Explainer:
    """Return the reader of texts of two whole runs, or of two `sides` that are groups of them."""
    old, new = sides or (before.side, after.side)
    return Explainer(ComparedSide(old, _source(before)), ComparedSide(new, _source(after)), has_questions=sides is None)


def _source(found: FoundScores) -> StoredSource | None:
    return None if found.stored is None else StoredSource(found.stored)


_TWO_RUNS = 2
_VERBS = {"running": "is ", INCOMPLETE: ""}
"""The verb before the text of the state of an unfinished run; "was " for others."""
_CODES_BY_WEIGHT = (4, 5, 1, 3, 2, 0)
"""Exit codes of verdicts; of several verdicts, the first one in this order decides."""


class CompareOptions(Struct, frozen=True, kw_only=True):
    """The options of `agentv compare`."""

    threshold: float
    seed: int
    format: str
    max_listed: int
    gates: tuple[str, ...] | None
    """Without any, the exit code depends only on whether cases could be paired."""
    max_errors: int
    targets: tuple[str, str] | None
    prompts: tuple[str, str] | None
    baseline: str | None
    by: str | None
    unpaired: bool
    store: str | None

    @property
    def row_filters(self) -> tuple[RowFilter, RowFilter] | None:
        """The results that --targets or --prompts compare, before and after; None to compare whole runs."""
        if self.targets is not None:
            return RowFilter(target=self.targets[0]), RowFilter(target=self.targets[1])
        if self.prompts is not None:
            return RowFilter(prompt=self.prompts[0]), RowFilter(prompt=self.prompts[1])
        return None

    def refuse_conflicts(self) -> None:
        """Raise ConfigError for options that cannot be combined."""
        if self.targets is not None and self.prompts is not None:
            raise ConfigError("--targets and --prompts cannot be combined; use for example --prompts A B --by target")
        for given, kind in ((self.targets, "target"), (self.prompts, "prompt")):
            if given is not None and self.by == kind:
                raise ConfigError(f"--{kind}s and --by {kind} cannot be combined; group by another KEY")
        if self.format == "agentv-ts" and (self.by is not None or self.unpaired):
            raise ConfigError(
                "--format agentv-ts compares pairs of whole runs only; use --by and --unpaired with another format"
            )


def compare(references: Sequence[str], options: CompareOptions) -> int:
    """Compare runs with the first of them; return the exit code."""
    options.refuse_conflicts()
    gates = _parse_gates(options)
    with open_runs(options.store) as source:
        return _compare_runs(_load_runs(source, references, options), options, gates)


def _compare_runs(runs: Sequence[FoundScores], options: CompareOptions, gates: tuple[ScopedGate, ...] | None) -> int:
    _check_gated_evaluators(gates or (), runs)
    _warn_of_edits(runs)
    first, *others = runs
    if options.by is not None:
        return _compare_groups(first, others[0], options, gates)
    comparisons = [_compare(first, other, options) for other in others]
    if len(others) > 1:
        comparisons = list(correct_comparisons(comparisons))
    verdicts = [_verdict(each, gates, options.max_errors) for each in comparisons]
    explained = tuple(
        ExplainedComparison(each, _explainer(first, run), _shown_verdict(verdict, gates))
        for each, run, verdict in zip(comparisons, others, verdicts, strict=True)
    )
    _print(explained, options)
    if options.format == "agentv-ts" and comparisons[0].cases:
        return 0 if comparisons[0].mean_of_pairs >= 0 else 1
    return min((each.exit_code for each in verdicts), key=_CODES_BY_WEIGHT.index)


def _parse_gates(options: CompareOptions) -> tuple[ScopedGate, ...] | None:
    if options.gates is None:
        return None
    if options.format == "agentv-ts":
        raise ConfigError("--format agentv-ts sets its own exit code; use --gate with another format")
    return tuple(ScopedGate(parse_gate(gate, COMPARE_METRICS)) for gate in options.gates)


def _check_gated_evaluators(gates: Sequence[ScopedGate], runs: Sequence[FoundScores]) -> None:
    """Refuse a gate on an evaluator that none of the runs has, unless no evaluator is known at all."""
    known = {name for run in runs for measure in run.side.measures if (name := evaluator_of(measure)) is not None}
    for scoped in gates:
        gate = scoped.gate
        if known and gate.name == "evaluator" and gate.argument not in known:
            raise gate.wrong_argument(str(UnknownNameError("evaluator", gate.argument or "", known=known)))


def _load_runs(
    source: ProjectRuns | StoreRuns, references: Sequence[str], options: CompareOptions
) -> list[FoundScores]:
    """Return the runs; the others are compared with the first. Raises ConfigError for too few or too many."""
    chosen, numbers = list(references), CaseNumbers()
    if options.baseline is not None:
        chosen = [options.baseline, *(chosen or ["latest"])]
    if options.row_filters is not None:
        chosen = chosen or ["latest"]
        if len(chosen) > _TWO_RUNS:
            raise ConfigError(f"--targets and --prompts take one RUN (default: latest) or two, not {len(chosen)}")
        return [
            find_scores(source.home, source.compared(reference), rows, by=options.by, numbers=numbers)
            for reference, rows in zip((chosen[0], chosen[-1]), options.row_filters, strict=True)
        ]
    chosen = chosen or ["latest~1", "latest"]
    if len(chosen) < _TWO_RUNS:
        raise ConfigError(
            "compare needs two runs, or none for `latest~1 latest`; one is enough with --baseline, --targets or "
            "--prompts"
        )
    if len(chosen) > _TWO_RUNS and (options.format == "agentv-ts" or options.by is not None):
        option = "--by" if options.by is not None else "--format agentv-ts"
        raise ConfigError(f"{option} compares exactly two runs")
    return [find_scores(source.home, source.compared(each), by=options.by, numbers=numbers) for each in chosen]


def _warn_of_edits(runs: Sequence[FoundScores]) -> None:
    """Print a warning of each edited run, once if it is on both sides."""
    found = {run.stored.folder: (run.stored.run_id, run.side.edits) for run in runs if run.stored is not None}
    for run_id, edits in found.values():
        warn_of_edits(run_id, edits)


def _compare(before: FoundScores, after: FoundScores, options: CompareOptions) -> Comparison:
    return _compare_sides(before.side, after.side, options, is_paired=_is_paired(before, after, options))


def _is_paired(before: FoundScores, after: FoundScores, options: CompareOptions) -> bool:
    return options.format == "agentv-ts" or (not options.unpaired and are_matched(before.side, after.side))


def _compare_sides(before: Side, after: Side, options: CompareOptions, *, is_paired: bool) -> Comparison:
    if not is_paired:
        return compare_unpaired(before, after, threshold=options.threshold)
    rng = random.Random(options.seed)  # noqa: S311 - a permutation test, not security
    return compare_sides(before, after, rng=rng, threshold=options.threshold)


def _compare_groups(
    before: FoundScores, after: FoundScores, options: CompareOptions, gates: tuple[ScopedGate, ...] | None
) -> int:
    """Compare each group that both sides have, print them, and return the exit code."""
    by = options.by or ""
    paired = pair_groups(before.grouped, after.grouped)
    if not before.grouped.groups and not after.grouped.groups:
        keys = before.grouped.metadata_keys | after.grouped.metadata_keys
        others = ", ".join(kind for kind in GROUPINGS if kind != by)
        raise ConfigError(f"{no_group_message(by, keys)}; or use one of {others}")
    is_paired = _is_paired(before, after, options)
    comparisons = [_compare_sides(each.before, each.after, options, is_paired=is_paired) for each in paired.pairs]
    groups = []
    for (key, *sides), comparison in zip(paired.pairs, correct_comparisons(comparisons), strict=True):
        verdict = _verdict(comparison, gates, options.max_errors)
        explain = _explainer(before, after, (sides[0], sides[1]))
        groups.append(ComparedGroup(key, ExplainedComparison(comparison, explain, _shown_verdict(verdict, gates))))
    whole = ExplainedComparison(_compare(before, after, options), _explainer(before, after))
    grouped = GroupedComparison(by, whole, tuple(groups), only_before=paired.only_before, only_after=paired.only_after)
    _print(grouped, options)
    verdicts = [each.explained.verdict for each in groups]
    codes = [0 if each is None else each.exit_code for each in verdicts]
    if not codes:
        return NOTHING_SELECTED
    if gates is None and 0 in codes:  # without gates, one compared group is enough
        return 0
    return min(codes, key=_CODES_BY_WEIGHT.index)


def _shown_verdict(verdict: RunVerdict, gates: tuple[ScopedGate, ...] | None) -> RunVerdict | None:
    """Return the verdict, or None without gates if the comparison succeeded."""
    return verdict if gates is not None or verdict.exit_code else None


def _verdict(comparison: Comparison, gates: tuple[ScopedGate, ...] | None, max_errors: int) -> RunVerdict:
    pairs = ComparedPairs(comparison)
    reason = "" if comparison.score is not None else why_unmatched(comparison.before, comparison.after)
    ending = Ending("finished", reason=one_line(reason), noun="case")
    if gates is None:
        return run_verdict(pairs, ending, gates=(), max_errors=pairs.all.rows)
    unfinished = _unfinished_text(comparison)
    if unfinished is not None and pairs.all.rows:
        ending = Ending("failed", reason=unfinished, noun="case")
    return run_verdict(pairs, ending, gates=gates, max_errors=max_errors)


def _unfinished_text(comparison: Comparison) -> str | None:
    """Return which runs may lack cases or were edited, so that no gate can pass; None if both are as recorded."""
    unfinished = [
        f"{one_line(side.label)} {_VERBS.get(side.state, 'was ')}{state}"
        for side in (comparison.before, comparison.after)
        if (state := unfinished_text(side.state))
    ]
    edited = [
        f"{one_line(side.label)}: {one_line('; '.join(side.edits))}"
        for side in (comparison.before, comparison.after)
        if side.edits
    ]
    return ", and ".join([*unfinished, *edited]) or None


def _grouping_of(words: tuple[str, ...]) -> str | None:
    if len(words) > 1:
        raise ConfigError(f"--by is given {len(words)} times ({', '.join(words)}); compare takes one KEY")
    return grouping_named(words[0]) if words else None


@click.command("compare")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option(
    "--baseline",
    metavar="BASE",
    help="Compare every RUN with the run BASE, not with the first RUN; one RUN is then enough.",
)
@click.option(
    "--targets",
    nargs=2,
    metavar="A B",
    help="Compare results of the target named A with those of B, in one run or across two.",
)
@click.option(
    "--prompts",
    nargs=2,
    metavar="A B",
    help="Compare results with the prompt named A with those of B, in one run or across two.",
)
@click.option(
    "--by",
    metavar="KEY",
    multiple=True,
    callback=lambda _context, _option, words: _grouping_of(words),
    help="Compare each group separately: tag, prompt, target, evaluator, suite, dataset, week, or a metadata key.",
)
@click.option(
    "--unpaired",
    is_flag=True,
    help=(
        "Compare as independent samples instead of case by case; results of one session (such as a conversation) "
        "count as one group."
    ),
)
@click.option(
    "--threshold",
    type=click.FloatRange(min=0),
    default=0.1,
    show_default=True,
    metavar="X",
    help="Smallest change of a case's score that counts as a win or loss.",
)
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="EXPR",
    help="Condition for exit code 0, e.g. 'regressions <= 0'; repeatable.",
)
@click.option(
    "--max-errors",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="With --gate: allowed number of compared cases with errors; with more, the exit code is 3.",
)
@click.option(
    "--list",
    "max_listed",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of cases to list that fell, and that rose.",
)
@READ_STORE_OPTION
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Seed of the permutation tests.")
@click.option(
    "--format",
    type=FormatChoice(formats()),
    default=TEXT,
    show_default=True,
    help="Output format; agentv-ts: the JSON and exit codes of AgentV for TypeScript.",
)
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
def command(runs: tuple[str, ...], *, gates: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Compare each run with the first one, case by case, with significance tests.

    Without RUN, the latest run is compared with the one before it of the same eval files.

    RUN is a run id or its prefix, a name, a path, a tag, 'latest' or 'latest~1', or a file: a baseline, or results
    exported with -o results.jsonl. To compare two targets (--targets A B) or two prompts (--prompts A B) of one run,
    one RUN is enough; it is 'latest' by default.

    Runs with fewer than 10 % of their case ids in common are compared as with --unpaired.

    Two runs with one target each are compared even if the targets differ.

    Exit codes without --gate: 0 compared; 3 no shared case has a score in both runs; 5 a run has no results, runs with
    several targets share no target, or no group (--by) is in both runs. With --gate: also 1 if a gate fails, and 3 if
    a run is unfinished, lacks planned results or was edited, or if more compared cases have errors than --max-errors
    allows. With --format agentv-ts: 0 if the mean did not fall, else 1.
    """
    if as_json:
        given["format"] = "json"
    return compare(runs, CompareOptions(gates=gates or None, **given))
