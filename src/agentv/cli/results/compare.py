"""`agentv compare`: compare runs, with significance tests."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from msgspec import Struct

from agentv.cli.screen import terminal_style
from agentv.loading.files.places import find_home
from agentv.reports.compare.json import COMPARE_SCHEMA, comparison_to_json, older_json
from agentv.reports.compare.markdown import comparison_markdown
from agentv.reports.compare.matrix import matrix_markdown, matrix_text
from agentv.reports.compare.text import ComparisonView
from agentv.reports.compare.words import FindReasons, Reasons, reason_of, unfinished_text
from agentv.reports.text.printable import one_line, printable_json
from agentv.scoring.comparison.compare import CaseDifference, Comparison, compare_sides, corrected
from agentv.scoring.comparison.gated import ComparedPairs
from agentv.scoring.comparison.rows import evaluator_of
from agentv.scoring.comparison.sides import CaseName
from agentv.scoring.gates.gates import parse_gate
from agentv.scoring.gates.metrics import COMPARE_METRICS
from agentv.scoring.gates.run_verdict import Ending, ScopedGate, run_verdict
from agentv.storage.run.checksums import edit_warnings
from agentv.storage.run.scores import FoundScores, find_scores
from agentv.types.errors import ConfigError, UnknownNameError
from agentv.types.json_value import JsonObject
from agentv.types.messages_json import pretty_json
from agentv.types.results import RunVerdict

FORMATS = ("text", "json", "markdown", "agentv")


class ExplainedComparison(NamedTuple):
    """A comparison with the reasons for its scores, and the verdict of the gates if there are any."""

    comparison: Comparison
    reasons: FindReasons
    verdict: RunVerdict | None


def comparisons_text(explained: Sequence[ExplainedComparison], format: str, listed: int) -> str:  # noqa: A002 - the option's name
    """Return one comparison, or the matrix of several. At most `listed` improved and regressed cases get reasons."""
    match format:
        case "agentv":
            return _json(older_json(explained[0].comparison))
        case "json":
            shown = [comparison_to_json(*each) for each in explained]
            return _json(shown[0] if len(shown) == 1 else {"schema": COMPARE_SCHEMA, "comparisons": shown})
        case "markdown":
            return _markdown(explained, listed)
        case _:
            return _text(explained, listed)


def _markdown(explained: Sequence[ExplainedComparison], listed: int) -> str:
    if len(explained) == 1:
        comparison, reasons, verdict = explained[0]
        return comparison_markdown(comparison, reasons, listed=listed, verdict=verdict)
    return matrix_markdown([each.comparison for each in explained], [each.verdict for each in explained])


def _text(explained: Sequence[ExplainedComparison], listed: int) -> str:
    style = terminal_style()
    if len(explained) == 1:
        comparison, reasons, verdict = explained[0]
        return ComparisonView(style.width, style.signs, style.paint, listed).render(comparison, reasons, verdict)
    return matrix_text(
        [each.comparison for each in explained],
        [each.verdict for each in explained],
        width=style.width,
        signs=style.signs,
        paint=style.paint,
    )


def _json(output: JsonObject) -> str:
    return f"{printable_json(pretty_json(output))}\n"


def reasons_of(before: FoundScores, after: FoundScores) -> FindReasons:
    """Return a function that finds the reasons for a case's scores on both sides, from its lowest-scored results."""

    def find(case: CaseDifference) -> Reasons:
        return Reasons(_reason(before, case.pair.before), _reason(after, case.pair.after))

    return find


def _reason(found: FoundScores, name: CaseName) -> str | None:
    place = found.side.worst_row(name)
    if found.stored is None or place is None:
        return None
    return reason_of(next(found.stored.results_at([place])))


_TWO = 2
_BY_WEIGHT = (4, 5, 1, 3, 2, 0)


class CompareOptions(Struct, frozen=True, kw_only=True):
    """The options of `agentv compare`. `gates` None: the exit code depends only on whether cases could be paired."""

    threshold: float
    seed: int
    format: str
    listed: int
    gates: tuple[str, ...] | None
    max_errors: int
    targets: tuple[str, str] | None
    baseline: str | None


def compare(references: Sequence[str], options: CompareOptions) -> int:
    """Compare runs with the first of them; return the exit code."""
    gates = _gates(options)
    runs = _load(find_home(Path.cwd()), references, options)
    _check_names(gates or (), runs)
    _warn_of_edits(runs)
    first, *others = runs
    comparisons = [_compare(first, other, options) for other in others]
    if len(others) > 1:
        comparisons = list(corrected(comparisons))
    verdicts = [_verdict(each, gates, options.max_errors) for each in comparisons]
    explained = [
        ExplainedComparison(each, reasons_of(first, run), verdict if gates is not None or verdict.exit_code else None)
        for each, run, verdict in zip(comparisons, others, verdicts, strict=True)
    ]
    click.echo(comparisons_text(explained, options.format, options.listed), nl=False)
    if options.format == "agentv" and comparisons[0].cases:
        return 0 if comparisons[0].mean_of_pairs >= 0 else 1
    return min((each.exit_code for each in verdicts), key=_BY_WEIGHT.index)


def _gates(options: CompareOptions) -> tuple[ScopedGate, ...] | None:
    if options.gates is None:
        return None
    if options.format == "agentv":
        raise ConfigError("--format agentv sets its own exit code; use --gate with another format")
    return tuple(ScopedGate(parse_gate(gate, COMPARE_METRICS)) for gate in options.gates)


def _check_names(gates: Sequence[ScopedGate], runs: Sequence[FoundScores]) -> None:
    """Refuse a gate on an evaluator that none of the runs has, unless no evaluator is known at all."""
    known = {name for run in runs for measure in run.side.measures if (name := evaluator_of(measure)) is not None}
    for gate in (scoped.gate for scoped in gates):
        if known and gate.name == "evaluator" and gate.argument not in known:
            raise gate.wrong_argument(str(UnknownNameError("evaluator", gate.argument or "", known=known)))


def _load(home: Path, references: Sequence[str], options: CompareOptions) -> list[FoundScores]:
    """Return the runs; the first is the one to compare with. Raises ConfigError for too few or too many."""
    named = list(references)
    if options.baseline is not None:
        named = [options.baseline, *(named or ["latest"])]
    if options.targets is not None:
        if len(named) > _TWO or not named:
            raise ConfigError("--targets A B needs one run with both targets, or two runs")
        return [
            find_scores(home, reference, target=target)
            for reference, target in zip((named[0], named[-1]), options.targets, strict=True)
        ]
    if len(named) < _TWO:
        raise ConfigError("compare needs at least two runs, or one with --baseline or --targets")
    if len(named) > _TWO and options.format == "agentv":
        raise ConfigError("--format agentv compares exactly two runs")
    return [find_scores(home, reference) for reference in named]


def _warn_of_edits(runs: Sequence[FoundScores]) -> None:
    stored = {run.stored.folder: run.stored for run in runs if run.stored is not None}
    for each in stored.values():
        for warning in edit_warnings(each):
            click.echo(f"warning: {one_line(warning)}", err=True)


def _compare(before: FoundScores, after: FoundScores, options: CompareOptions) -> Comparison:
    rng = random.Random(options.seed)  # noqa: S311 - a permutation test, not security
    return compare_sides(before.side, after.side, rng=rng, threshold=options.threshold)


def _verdict(comparison: Comparison, gates: tuple[ScopedGate, ...] | None, max_errors: int) -> RunVerdict:
    pairs = ComparedPairs(comparison)
    ending = Ending("finished", reason=_nothing(comparison), noun="case")
    if gates is None:
        return run_verdict(pairs, ending, gates=(), max_errors=pairs.all.rows)
    unfinished = _unfinished(comparison)
    if unfinished is not None and pairs.all.rows:
        ending = Ending("failed", reason=unfinished, noun="case")
    return run_verdict(pairs, ending, gates=gates, max_errors=max_errors)


def _unfinished(comparison: Comparison) -> str | None:
    """Return which runs are unfinished and may lack cases, so that gates cannot be trusted; None if all finished."""
    unfinished = [
        f"{one_line(side.label)} is {state}" if side.state == "running" else f"{one_line(side.label)} was {state}"
        for side in (comparison.before, comparison.after)
        if (state := unfinished_text(side.state))
    ]
    return ", and ".join(unfinished) or None


def _nothing(comparison: Comparison) -> str:
    before, after = (", ".join(side.targets) or "none" for side in (comparison.before, comparison.after))
    return f"the runs have no case in common (targets {before} and {after}; --targets A B pairs two of them)"


@click.command("compare")
@click.argument("runs", nargs=-1, metavar="RUN...")
@click.option("--baseline", metavar="RUN", help="Compare with this run instead of the first one.")
@click.option(
    "--targets",
    nargs=2,
    metavar="A B",
    help="Compare results of the target named A with those of B, in one run or across two.",
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
    help="With --gate: errors allowed before the exit code is 3.",
)
@click.option(
    "--list",
    "listed",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of improved and of regressed cases to list.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Seed of the permutation tests.")
@click.option(
    "--format",
    type=click.Choice(["text", "json", "markdown", "agentv"]),
    default="text",
    show_default=True,
    help="Output format; agentv: an older JSON format that sets its own exit codes.",
)
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
def command(runs: tuple[str, ...], *, gates: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Compare each run with the first one, case by case, with significance tests.

    RUN is a run id or its prefix, a name, a path, a tag, 'latest' or 'latest~1', or a file: a baseline, or results
    exported with -o results.jsonl.

    Exit codes without --gate: 0 compared, 3 no case has a score in both runs, 5 no case is in both runs. With --format
    agentv: 0 if the mean did not fall, else 1.
    """
    if as_json:
        given["format"] = "json"
    return compare(runs, CompareOptions(gates=gates or None, **given))
