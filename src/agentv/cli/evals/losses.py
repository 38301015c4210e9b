"""The list of what a conversion does not carry over."""

from collections.abc import Iterable

import click

from agentv.reports.text.printable import printable
from agentv.types.problems import Problem


def report_losses(losses: Iterable[Problem]) -> None:
    """Print what was not carried over to standard error, a line each."""
    for problem in losses:
        click.echo(printable(problem.render()), err=True)
