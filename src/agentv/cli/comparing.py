"""What `agentv compare` does: find the runs, read their scores, compare, print."""

import random
from pathlib import Path

import click

from agentv.cli.terminal import terminal_style
from agentv.loading import find_home
from agentv.reports.comparison_text import ComparisonView
from agentv.scoring.comparison.compare import compare_sides
from agentv.storage.find_run import find_run
from agentv.storage.run_scores import load_side
from agentv.storage.stored_run import open_run


def compare(before: str, after: str, *, threshold: float, seed: int) -> int:
    """Compare two runs; returns the exit code."""
    home = find_home(Path.cwd())
    sides = [load_side(open_run(find_run(home, reference))) for reference in (before, after)]
    rng = random.Random(seed)  # noqa: S311 - draws sign patterns, keeps no secret
    comparison = compare_sides(sides[0], sides[1], rng=rng, threshold=threshold)
    style = terminal_style()
    view = ComparisonView(style.width, style.signs, style.paint)
    click.echo(view.render(comparison), nl=False)
    return 0
