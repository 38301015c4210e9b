"""The simulation of gates about a baseline decides as agentv does, and its tables are on the page."""

import random
import re

import pytest

from agentv.scoring.comparison.compare import compare_sides
from bench.gates import AGENTS, END, HEAD, MARK, PAGE, SETTINGS, Setting, heading, rates, side, simulate, table


@pytest.mark.parametrize("setting", [Setting(20, 1), Setting(20, 3)])
def test_its_decisions_are_those_of_a_comparison(setting: Setting) -> None:
    for seed in range(12):
        chances = AGENTS[seed % len(AGENTS)].chances(setting.cases)
        later = [*chances[:-6], *[0.0] * 6] if seed % 2 else chances
        found = simulate(chances, later, setting, random.Random(seed))
        rng = random.Random(seed)
        before = side("before", chances, setting.trials_before, rng)
        comparison = compare_sides(before, side("after", later, 1, rng), rng=rng)
        change = comparison.score_change()
        assert change is not None
        assert found.worse is bool(change.worse)
        assert found.regressions is bool(comparison.regressions())


def test_a_broken_case_is_found_and_a_steady_agent_passes() -> None:
    steady, broken = (rates(AGENTS[0], Setting(20, 3), 40, broken=share) for share in (0.0, 1.0))
    assert steady.confirmed <= 0.05
    assert broken.confirmed >= 0.8


def test_the_page_has_the_tables_of_all_settings() -> None:
    text = PAGE.read_text("utf-8").partition(MARK)[2].partition(END)[0]
    assert re.findall("^(.*:)$", text, re.MULTILINE) == [heading(each) for each in SETTINGS]
    columns, _, *rows = table(Setting(10, 1), runs=1)
    assert text.count(columns) == len(SETTINGS)
    for row in rows:
        assert text.count(f"{row.split(' | ')[0]} |") == len(SETTINGS)
    assert len(HEAD) == columns.count("|") - 1
