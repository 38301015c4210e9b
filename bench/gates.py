"""How often the gates about a baseline fail when nothing changed, and when cases are broken, over 2,000 runs each.

    ./run python -m bench.gates            # print the tables, about ten minutes on one idle core
    ./run python -m bench.gates --write    # write them to docs/reference/gates.md
    ./run python -m bench.gates --runs 50  # fewer runs, to check that it works

Agents are simulated in process: a case passes with its own chance, independently in each trial. The rules are those of
`agentv run`; no target is called. The seed is fixed, so that the tables can be made again.
"""

import argparse
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from agentv.scoring.comparison.case_differences import CaseDifferences
from agentv.scoring.comparison.confirmations import suspected_cases
from agentv.scoring.comparison.pairs import align
from agentv.scoring.comparison.sides import PASSED, SCORE, ScoredRow, Side
from agentv.scoring.gates.confirmed import is_confirmed
from agentv.scoring.statistics.paired import paired_procedure
from agentv.scoring.statistics.power import SIGNIFICANCE
from agentv.types.cases import DEFAULT_CONFIRM_RERUNS
from agentv.types.records.answer import ResultKey

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "gates.md"
MARK, END = "<!-- measured by bench.gates -->", "<!-- end -->"
RUNS = 2_000

Chances: TypeAlias = list[float]
"""The chance of each case to pass."""


class Agent(NamedTuple):
    """An agent: most cases pass with the chance `steady`, a `share` of them with another one."""

    name: str
    steady: float
    share: float = 0.0
    other: float = 1.0

    def chances(self, cases: int) -> Chances:
        """Return the chance of each case."""
        others = round(self.share * cases)
        return [self.other] * others + [self.steady] * (cases - others)


AGENTS = (
    Agent("each case passes 99 %", 0.99),
    Agent("each case passes 97 %", 0.97),
    Agent("each case passes 95 %", 0.95),
    Agent("99 %, one case in ten 80 %", 0.99, 0.1, 0.8),
    Agent("100 %, one case in twenty a coin flip", 1.0, 0.05, 0.5),
    Agent("100 %, one case in ten a coin flip", 1.0, 0.1, 0.5),
)


class Setting(NamedTuple):
    """The numbers of cases, and of trials of the baseline and of the run."""

    cases: int
    trials_before: int
    trials_after: int = 1


SETTINGS = (Setting(50, 3), Setting(50, 1), Setting(200, 3), Setting(200, 1), Setting(50, 3, 3))


class Outcome(NamedTuple):
    """What each gate says of one run. `calls` are the re-runs of suspected cases."""

    regressions: bool
    confirmed: bool
    worse: bool
    calls: int


def side(label: str, chances: Chances, trials: int, rng: random.Random) -> Side:
    """Return the results of one run, in which a case passes with its chance in each trial."""
    made = Side(label)
    for number, chance in enumerate(chances):
        for trial in range(trials):
            passed = rng.random() < chance
            slot = ResultKey("suite", f"case-{number}", "agent", trial)
            made.add(ScoredRow(slot, "pass" if passed else "fail", {SCORE: float(passed), PASSED: float(passed)}))
    return made


def simulate(before: Chances, after: Chances, setting: Setting, rng: random.Random) -> Outcome:
    """Run the baseline and a later run once, and check the gates."""
    old, new = side("before", before, setting.trials_before, rng), side("after", after, setting.trials_after, rng)
    cases = list(CaseDifferences(align(old, new).pairs))
    procedure = paired_procedure([[case.difference] for case in cases], rng)
    mean = sum(case.difference for case in cases)
    suspects = [int(name.eval_id.removeprefix("case-")) for name in suspected_cases(old, new)]
    reruns = [[rng.random() < after[number] for _ in range(DEFAULT_CONFIRM_RERUNS)] for number in suspects]
    return Outcome(
        regressions=any(case.change == "regressed" for case in cases),
        confirmed=any(is_confirmed(each) for each in reruns),
        worse=mean < 0 and procedure.p <= SIGNIFICANCE,
        calls=DEFAULT_CONFIRM_RERUNS * len(suspects),
    )


class Rates(NamedTuple):
    """The shares of runs that each gate fails, and the mean number of re-runs."""

    regressions: float
    confirmed: float
    worse: float
    calls: float


def rates(agent: Agent, setting: Setting, runs: int, *, broken: float = 0.0) -> Rates:
    """Return the rates over `runs` runs: with `broken` 1 one case always fails in them, below 1 that share of cases."""
    rng = random.Random(f"{agent.name} {setting} {broken}")  # noqa: S311 - a simulation
    before = agent.chances(setting.cases)
    count = 1 if broken == 1 else round(broken * setting.cases)
    # The broken cases are steady ones, which come last.
    after = [*before[: len(before) - count], *[0.0] * count]
    found = [simulate(before, after, setting, rng) for _ in range(runs)]
    return Rates(*(sum(map(float, each)) / runs for each in zip(*found, strict=True)))


HEAD = (
    "agent",
    "`regressions <= 0` fails",
    "`confirmed_regressions <= 0` fails",
    "finds a broken case",
    "more calls",
    "`not worse` fails",
    "finds one case in ten broken",
)


def table(setting: Setting, runs: int) -> Iterator[str]:
    """Yield the lines of the Markdown table of one setting."""
    yield f"| {' | '.join(HEAD)} |"
    yield f"| --- |{' ---: |' * (len(HEAD) - 1)}"
    for agent in AGENTS:
        same, one, tenth = (rates(agent, setting, runs, broken=broken) for broken in (0.0, 1.0, 0.1))
        cells = (
            percent(same.regressions),
            percent(same.confirmed),
            percent(one.confirmed),
            f"{same.calls:.1f}",
            percent(same.worse),
            percent(tenth.worse),
        )
        yield f"| {agent.name} | {' | '.join(cells)} |"


def percent(share: float) -> str:
    """Return a share in percent, with a decimal below 10 %."""
    return f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"  # noqa: PLR2004 - 10 %


def heading(setting: Setting) -> str:
    """Return the sentence above a table."""
    before, after = ("one trial" if each == 1 else f"{each} trials" for each in setting[1:])
    of_run = "" if setting.trials_after == 1 else f", a run with {after}"
    return f"{setting.cases} cases, a baseline with {before}{of_run}:"


def tables(settings: Sequence[Setting], runs: int) -> str:
    """Return all tables as Markdown."""
    made: Mapping[str, str] = {heading(each): "\n".join(table(each, runs)) for each in settings}
    return "\n\n".join(f"{head}\n\n{body}" for head, body in made.items())


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, and print or write the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.gates", description="Simulate the gates about a baseline.")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"runs for each number (default: {RUNS:,})")
    parser.add_argument("--write", action="store_true", help="write the tables to docs/reference/gates.md")
    options = parser.parse_args(arguments)
    text = tables(SETTINGS, options.runs)
    print(text)
    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARK)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{MARK}\n\n{text}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
