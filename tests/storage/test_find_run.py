"""A reference finds the run it names, or the error lists the runs."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.stored import NOON, make_run

from agentv.storage.run.find import find_run, list_runs, runs_folder
from agentv.storage.run.folder import RunFolder
from agentv.types.errors import ConfigError

OLD, MIDDLE, NEW = "20260130T120000-7f3a2b", "20260131T090000-7f99aa", "20260131T120000.125-00c0de"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / ".agentv"
    for number, (run_id, name) in enumerate([(OLD, "first"), (MIDDLE, None), (NEW, "nightly")]):

        def clock(hours: int = number) -> datetime:
            return NOON + timedelta(hours=hours)

        store = RunFolder(runs_folder(home), run_id, clock=clock)
        store.begin(make_run(run_id=run_id, name=name, created_at=clock()))
        store.close("finished")
    (runs_folder(home) / "20270101T000000-notrun").mkdir()
    return home


@pytest.mark.parametrize(
    ("reference", "run_id"),
    [
        ("latest", NEW),
        ("latest~0", NEW),
        ("20260131T120000", NEW),
        ("latest~2", OLD),
        (OLD, OLD),
        ("20260130", OLD),
        ("7f3a", OLD),
        ("00", NEW),
        ("nightly", NEW),
    ],
)
def test_a_reference_finds_its_run(home: Path, reference: str, run_id: str) -> None:
    assert find_run(home, reference).name == run_id


@pytest.mark.parametrize("reference", ["the old one", OLD, "20260130", "7f3a", "first"])
def test_a_renamed_folder_is_found_by_both_names(home: Path, reference: str) -> None:
    (runs_folder(home) / OLD).rename(runs_folder(home) / "the old one")
    assert find_run(home, reference).name == "the old one"


@pytest.mark.parametrize("name", ["zz old", "a copy", "0"])
def test_the_latest_run_is_the_one_that_was_started_last_whatever_its_folder_is_called(home: Path, name: str) -> None:
    (runs_folder(home) / OLD).rename(runs_folder(home) / name)
    assert [find_run(home, each).name for each in ("latest", "latest~1", "latest~2")] == [NEW, MIDDLE, name]
    (runs_folder(home) / NEW).rename(runs_folder(home) / f"{name} new")
    assert [find_run(home, each).name for each in ("latest", "latest~1")] == [f"{name} new", MIDDLE]


def test_a_run_with_an_id_of_another_program_is_sorted_by_its_time(home: Path) -> None:
    store = RunFolder(runs_folder(home), "an id", clock=lambda: NOON)
    created_at = datetime(2026, 1, 31, 10, tzinfo=UTC)
    store.begin(make_run(run_id="an id", created_at=created_at))
    store.close("finished")
    assert [find_run(home, each).name for each in ("latest", "latest~1", "latest~2")] == [NEW, "an id", MIDDLE]


def test_a_copy_in_the_same_project_is_not_later_than_the_run(home: Path) -> None:
    shutil.copytree(runs_folder(home) / NEW, runs_folder(home) / "zz copy")
    assert [find_run(home, each).name for each in ("latest", "latest~1")] == [NEW, "zz copy"]


def test_an_id_that_several_folders_have_asks_for_a_folder(home: Path) -> None:
    (runs_folder(home) / OLD).rename(runs_folder(home) / "one")
    shutil.copytree(runs_folder(home) / "one", runs_folder(home) / "two")
    with pytest.raises(ConfigError, match=f"'{OLD}' is the id of 2 runs; give a folder: two, one"):
        find_run(home, OLD)


def test_a_name_counts_more_than_the_start_of_another_runs_id(home: Path) -> None:
    _add(home, "20260201T120000-123456", "7f3a")
    assert find_run(home, "7f3a").name == "20260201T120000-123456"


def test_a_name_of_several_runs_asks_for_the_id_of_one(home: Path) -> None:
    _add(home, "20260201T120000-123456", "nightly")
    with pytest.raises(ConfigError) as refused:
        find_run(home, "nightly")
    ids = f"20260201T120000-123456, {NEW}"
    assert str(refused.value) == f"'nightly' is the name of 2 runs; give an id: {ids}"


def _add(home: Path, run_id: str, name: str) -> None:
    store = RunFolder(runs_folder(home), run_id, clock=lambda: NOON)
    store.begin(make_run(run_id=run_id, name=name, created_at=NOON))
    store.close("finished")


def test_a_path_finds_its_run_wherever_it_lies(home: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    (runs_folder(home) / OLD).rename(moved)
    assert find_run(home, str(moved)) == moved


def test_an_ambiguous_reference_lists_what_fits(home: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        find_run(home, "7f")
    assert str(refused.value) == f"'7f' matches 2 runs; give more characters of an id: {MIDDLE}, {OLD}"


def test_an_unknown_reference_lists_what_there_is(home: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        find_run(home, "nigthly")
    known = f"known, latest first: {NEW} (nightly), {MIDDLE}, {OLD} (first). Did you mean 'nightly'?"
    assert str(refused.value) == f"there is no run 'nigthly'; {known}"


def test_too_far_back_is_said(home: Path) -> None:
    with pytest.raises(ConfigError, match="there is no run 'latest~3'; known, latest first"):
        find_run(home, "latest~3")


@pytest.mark.parametrize("reference", ["latest", "x", ""])
def test_before_the_first_run_there_is_none(tmp_path: Path, reference: str) -> None:
    with pytest.raises(ConfigError, match="no run is stored yet"):
        find_run(tmp_path / ".agentv", reference)


def test_runs_are_listed_oldest_first_without_folders_that_are_none(home: Path) -> None:
    assert [run.run_id for run in list_runs(home)] == [OLD, MIDDLE, NEW]


@pytest.mark.parametrize(
    ("file", "line", "problem"),
    [
        ("run.json", "{", "run.json: Input data was truncated"),
        ("run.json", "[" * 100_000, "run.json: JSON is nested too deeply"),
        ("events.jsonl", "{}", "events.jsonl:3: object missing required field `type`"),
        (
            "events.jsonl",
            '{"schema":"agentv-event-1","type":"x","time":"2026-01-31T12:00:00Z","seq":1e999}',
            "events.jsonl:3",
        ),
        ("results.jsonl", "not json", "results.jsonl:1: JSON is malformed"),
        ("results.jsonl", '{"slot": 7}', "results.jsonl:1: Expected `object`, got `int`"),
        ("results.jsonl", '{"x":' + "[" * 100_000, "results.jsonl:1: JSON is nested too deeply"),
        ("results.jsonl", b"\xff", "results.jsonl:1: JSON is malformed"),
    ],
)
def test_a_run_that_cannot_be_read_says_why_and_hides_no_other(
    home: Path, file: str, line: str | bytes, problem: str
) -> None:
    path = runs_folder(home) / MIDDLE / file
    data = line if isinstance(line, bytes) else line.encode()
    path.write_bytes(data if file == "run.json" else path.read_bytes() + data + b"\n")
    old, middle, new = list_runs(home)
    assert [run.run_id for run in (old, middle, new)] == [OLD, MIDDLE, NEW]
    assert (old.state, middle.state, new.state) == ("finished", "unreadable", "finished")
    assert problem in (middle.problem or "")
    assert (old.problem, new.problem) == (None, None)


def test_what_a_fetch_that_was_killed_left_is_no_run(home: Path) -> None:
    store = RunFolder(runs_folder(home), ".20280101T000000-abc.part-7", clock=lambda: NOON)
    store.begin(make_run(run_id="20280101T000000-abc"))
    store.close("finished")
    assert find_run(home, "latest").name == NEW
    assert len(list_runs(home)) == 3
