"""The stored runs that a trend uses, and that no others are read."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.stored import make_run

from agentv.engine.stored.trend_runs import WantedPlaces, load_trend_runs
from agentv.scoring.comparison.trend import SuiteTarget
from agentv.scoring.counting.run_sums import RunSums
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.storage.run.find import ListedRun
from agentv.types.json_value import JsonObject

NOTHING = ClusterMoments.of_passes(0, 0)
SUMS = RunSums({"pass": 1}, NOTHING, NOTHING, None)


def listed(name: str, suites: str, *, parents: tuple[str, ...] = (), targets: str = "t") -> ListedRun:
    """List a run of these suites and targets, a letter each."""
    plan: JsonObject = {
        "suites": [{"path": f"evals/{suite}.yaml", "sha256": "aa", "cases": 1} for suite in suites],
        "targets": [{"name": target} for target in targets],
    }
    return ListedRun(Path(name), "finished", make_run(run_id=name, plan=plan, parents=parents))


class Reader:
    """A loader of sums that records which runs were read."""

    def __init__(self, *places: SuiteTarget) -> None:
        self.places = places
        self.read: list[str] = []

    def __call__(self, folder: Path) -> Mapping[SuiteTarget, RunSums]:
        self.read.append(folder.name)
        return dict.fromkeys(self.places, SUMS)


def names(
    runs: list[ListedRun], reader: Reader, *, last: int | None = 2, wanted: WantedPlaces | None = None
) -> list[str]:
    return [run.run_id for run in load_trend_runs(runs, reader, wanted=wanted or WantedPlaces(), last=last)]


def test_of_each_suite_the_last_runs_are_read_and_no_older_ones() -> None:
    runs = [listed("r1", "ab"), listed("r2", "a"), listed("r3", "b"), listed("r4", "a"), listed("r5", "a")]
    reader = Reader()
    assert names(runs, reader) == ["r1", "r3", "r4", "r5"]
    assert sorted(reader.read) == ["r1", "r3", "r4", "r5"]
    assert names(runs, Reader(), last=None) == ["r1", "r2", "r3", "r4", "r5"]


def test_parts_of_a_merged_run_are_not_read() -> None:
    runs = [listed("r1", "a"), listed("p1", "a"), listed("p2", "a"), listed("whole", "a", parents=("p1", "p2"))]
    assert names(runs, Reader()) == ["r1", "whole"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (WantedPlaces(), ["r1", "r2"]),
        (WantedPlaces(suites=("b",)), ["r2"]),
        (WantedPlaces(suites=("evals/a.yaml", "b.yaml")), ["r1", "r2"]),
        (WantedPlaces(targets=("u",)), ["r2"]),
        (WantedPlaces(suites=("a",), targets=("u",)), []),
    ],
)
def test_only_wanted_suites_and_targets_are_read(wanted: WantedPlaces, expected: list[str]) -> None:
    reader = Reader()
    assert names([listed("r1", "a"), listed("r2", "b", targets="u")], reader, wanted=wanted) == expected
    assert sorted(reader.read) == expected


def test_a_run_that_does_not_say_what_it_was_to_do_is_read() -> None:
    bare = ListedRun(Path("bare"), "finished", make_run(run_id="bare", plan={}))
    (run,) = load_trend_runs([bare], Reader(("evals/a.yaml", "t")), wanted=WantedPlaces(), last=2)
    assert list(run.sums) == [("evals/a.yaml", "t")]


def test_trend_run_with_unreadable_rows_has_a_problem() -> None:
    def broken(_: Path) -> Mapping[SuiteTarget, RunSums]:
        raise OSError("disk is gone")

    lost = ListedRun(Path("lost"), "unreadable", None, problem="run.json: not JSON")
    (run,) = load_trend_runs([lost, listed("r1", "a")], broken, wanted=WantedPlaces(), last=2)
    assert (run.run_id, run.problem) == ("r1", "disk is gone")
