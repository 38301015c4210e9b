"""Runs of a store, found for a comparison from one list of them."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.stored import NOON, make_run

from agentv.storage.pulled_runs import PulledRuns
from agentv.storage.run.find import runs_folder
from agentv.storage.shared_runs import Pulled, Pushed, SharedRun
from agentv.types.errors import ConfigError


class ThreeRuns:
    """A store with three runs, of which `first` has the tag `good`. It counts how often it is listed."""

    def __init__(self) -> None:
        self.lists = 0

    def list(self) -> tuple[SharedRun, ...]:
        self.lists += 1
        tags = {"first": ("good",)}
        return tuple(
            SharedRun(
                run_id=name,
                name=None,
                created_at=NOON,
                state="finished",
                pushed_at=datetime(2026, 1, 1, tzinfo=UTC),
                record=make_run(run_id=name, tags=tags.get(name, ())),
            )
            for name in ("first", "second", "third")
        )

    def find(self, reference: str) -> str:
        if reference not in ("first", "second", "third"):
            raise ConfigError(f"no run {reference!r}")
        return reference

    def push(self, folder: Path) -> Pushed:
        raise NotImplementedError

    def pull(self, run_id: str, runs_folder: Path, *, files: Collection[str] | None = None) -> Pulled:
        assert files is None
        return Pulled(runs_folder / run_id, 0)

    def remove(self, run_ids: Sequence[str]) -> tuple[str, ...]:
        raise NotImplementedError


def test_runs_of_a_comparison_are_found_from_one_list(tmp_path: Path) -> None:
    store = ThreeRuns()
    runs = PulledRuns(store, tmp_path / ".agentv")
    assert (runs.find_compared("second").name, store.lists) == ("second", 0)
    found = [runs.find_compared(reference) for reference in ("second", "latest~1", "good", "latest~2")]
    assert [folder.name for folder in found] == ["second", "second", "first", "first"]
    assert {folder.parent for folder in found} == {runs_folder(runs.home)}
    with pytest.raises(ConfigError, match="no run 'bad'"):
        runs.find_compared("bad")
    assert len(runs.listed()) == 3
    assert store.lists == 1
