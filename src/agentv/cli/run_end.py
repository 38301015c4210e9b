"""What `agentv run` says at its end."""

import os
import shutil
from collections.abc import Sequence
from typing import TextIO

from agentv.cli.screen_options import Screen
from agentv.pipeline.plan import RunPlan
from agentv.reports.end_table import end_report
from agentv.reports.github import harmless, is_github
from agentv.reports.observers import choose_display
from agentv.reports.paint import choose_paint
from agentv.reports.row_text import RowLabels
from agentv.reports.signs import UNICODE, signs_for
from agentv.types.results import RunReport


def end_text(report: RunReport, plan: RunPlan, files: Sequence[str], screen: Screen, stdout: TextIO) -> str:
    """Return the report at the end: laid out for a terminal, or in plain lines where progress is plain too."""
    stream = screen.stream(stdout)
    is_terminal = stream.isatty()
    is_live = is_terminal and choose_display(screen.display, is_terminal=is_terminal, env=os.environ) == "live"
    text = end_report(
        report,
        width=shutil.get_terminal_size().columns if is_live else None,
        unicode=signs_for(stream.encoding) is UNICODE,
        paint=choose_paint(is_terminal=is_live, env=os.environ),
        files=files,
        labels=RowLabels(with_suite=len(plan.suites) > 1, trials=plan.trials, with_target=len(plan.targets) > 1),
    )
    return "".join(map(harmless, text.splitlines(keepends=True))) if is_github(os.environ) else text
