"""What `agentv compare` does: find the runs, compare each with the first, print, and let gates decide."""

import random
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import Struct

from agentv.cli.comparison_output import ToldComparison, comparisons_text
from agentv.cli.comparison_reasons import reasons_of
from agentv.loading.places import find_home
from agentv.reports.comparison_words import unfinished_text
from agentv.reports.printable import one_line
from agentv.scoring.comparison.compare import Comparison, compare_sides
from agentv.scoring.comparison.gated import ComparedPairs
from agentv.scoring.comparison.matrix import corrected
from agentv.scoring.comparison.rows import evaluator_of
from agentv.scoring.gate_metrics import COMPARE_METRICS
from agentv.scoring.gates import parse_gate
from agentv.scoring.run_verdict import AskedGate, Ending, run_verdict
from agentv.storage.find_scores import FoundScores, find_scores
from agentv.types.errors import ConfigError, UnknownNameError
from agentv.types.results import RunVerdict

_TWO = 2
_BY_WEIGHT = (4, 5, 1, 3, 2, 0)


class Asked(Struct, frozen=True, kw_only=True):
    """How runs are compared and shown; `gates` None: nothing decides about the exit code but that cases were paired."""

    threshold: float
    seed: int
    format: str
    listed: int
    gates: tuple[str, ...] | None
    max_errors: int
    targets: tuple[str, str] | None
    baseline: str | None


def compare(references: Sequence[str], asked: Asked) -> int:
    """Compare runs with the first of them; returns the exit code."""
    gates = _gates(asked)
    runs = _load(find_home(Path.cwd()), references, asked)
    _check_names(gates or (), runs)
    first, *others = runs
    comparisons = [_compare(first, other, asked) for other in others]
    if len(others) > 1:
        comparisons = list(corrected(comparisons))
    verdicts = [_verdict(each, gates, asked.max_errors) for each in comparisons]
    told = [
        ToldComparison(each, reasons_of(first, run), verdict if gates is not None or verdict.exit_code else None)
        for each, run, verdict in zip(comparisons, others, verdicts, strict=True)
    ]
    click.echo(comparisons_text(told, asked.format, asked.listed), nl=False)
    if asked.format == "agentv" and comparisons[0].cases:
        return 0 if comparisons[0].mean_of_pairs >= 0 else 1
    return min((each.exit_code for each in verdicts), key=_BY_WEIGHT.index)


def _gates(asked: Asked) -> tuple[AskedGate, ...] | None:
    if asked.gates is None:
        return None
    if asked.format == "agentv":
        raise ConfigError("--format agentv has an exit code of its own; give --gate with another format")
    return tuple(AskedGate(parse_gate(gate, COMPARE_METRICS)) for gate in asked.gates)


def _check_names(gates: Sequence[AskedGate], runs: Sequence[FoundScores]) -> None:
    """Refuse a gate on an evaluator that judged in none of the runs, where any did."""
    known = {name for run in runs for measure in run.side.measures if (name := evaluator_of(measure)) is not None}
    for gate in (asked.gate for asked in gates):
        if known and gate.name == "evaluator" and gate.argument not in known:
            raise gate.wrong_argument(str(UnknownNameError("evaluator", gate.argument or "", known=known)))


def _load(home: Path, references: Sequence[str], asked: Asked) -> list[FoundScores]:
    """Return the runs, the one that the others are compared with first. Raises ConfigError for too few of them."""
    named = list(references)
    if asked.baseline is not None:
        named = [asked.baseline, *(named or ["latest"])]
    if asked.targets is not None:
        if len(named) > _TWO or not named:
            raise ConfigError("--targets A B compares two targets of one run, or target A of one with B of another")
        return [
            find_scores(home, reference, target=target)
            for reference, target in zip((named[0], named[-1]), asked.targets, strict=True)
        ]
    if len(named) < _TWO:
        raise ConfigError("compare takes two runs or more, or one with --baseline or --targets")
    if len(named) > _TWO and asked.format == "agentv":
        raise ConfigError("--format agentv is for two runs")
    return [find_scores(home, reference) for reference in named]


def _compare(before: FoundScores, after: FoundScores, asked: Asked) -> Comparison:
    rng = random.Random(asked.seed)  # noqa: S311 - draws sign patterns, keeps no secret
    return compare_sides(before.side, after.side, rng=rng, threshold=asked.threshold)


def _verdict(comparison: Comparison, gates: tuple[AskedGate, ...] | None, max_errors: int) -> RunVerdict:
    pairs = ComparedPairs(comparison)
    ending = Ending("finished", reason=_nothing(comparison), noun="case")
    if gates is None:
        return run_verdict(pairs, ending, gates=(), max_errors=pairs.all.rows)
    unfinished = _unfinished(comparison)
    if unfinished is not None and pairs.all.rows:
        ending = Ending("failed", reason=unfinished, noun="case")
    return run_verdict(pairs, ending, gates=gates, max_errors=max_errors)


def _unfinished(comparison: Comparison) -> str | None:
    """Return which of the runs may lack cases, so that no gate can be believed to hold; None for none of them."""
    told = [
        f"{one_line(side.label)} is {state}" if side.state == "running" else f"{one_line(side.label)} was {state}"
        for side in (comparison.before, comparison.after)
        if (state := unfinished_text(side.state))
    ]
    return ", and ".join(told) or None


def _nothing(comparison: Comparison) -> str:
    before, after = (", ".join(side.targets) or "none" for side in (comparison.before, comparison.after))
    return f"the runs have no case in common (targets {before} and {after}; --targets A B pairs two of them)"
