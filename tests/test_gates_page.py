"""docs/reference/gates.md lists all metrics of gates, for each command, and which of them have an interval."""

import re
from pathlib import Path

import pytest

from agentv.scoring.gates.gates import COMPARE_METRICS, METRICS, STREAM_METRICS, Metrics, parse_gate
from agentv.types.errors import ConfigError

PAGE = (Path(__file__).parent.parent / "docs" / "reference" / "gates.md").read_text("utf-8")
DOORS = {"run": METRICS, "score": STREAM_METRICS, "compare": COMPARE_METRICS}


def documented(door: str) -> dict[str, bool]:
    """Return each metric of a command, and whether the page lists it with an interval."""
    found: dict[str, bool] = {}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == len(DOORS) + 3 and cells[2 + list(DOORS).index(door)] == "yes":
            found |= dict.fromkeys(re.findall("`(.*?)`", cells[0]), cells[-1] in ("yes", door))
    return found


def has_interval(form: str, metrics: Metrics) -> bool:
    try:
        parse_gate(f"{form.replace('(K)', '(2)')} >= 0.5 with 95%", metrics)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("door", DOORS)
def test_the_page_lists_every_metric_and_which_have_an_interval(door: str) -> None:
    metrics = DOORS[door]
    forms = [form for name, metric in metrics.items() for form in metric.forms(name)]
    assert documented(door) == {form: has_interval(form, metrics) for form in forms}
