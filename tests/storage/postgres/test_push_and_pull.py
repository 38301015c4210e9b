"""A run that is pushed to the database and pulled on another machine is unchanged."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace
from tests.support.postgres_server import upgraded_database
from tests.support.stored import NOON, RUN, at_noon, make_answer, make_case, make_result, make_run, rerun_results
from tests.support.strategies import answers, case_results

from agentv.engine.labels.reviews import ReviewPlan, open_queue
from agentv.storage.files.segment_writer import SegmentRules
from agentv.storage.postgres.connection import connect
from agentv.storage.postgres.copying import RunPuller, RunPusher
from agentv.storage.postgres.run_rows import find_shared_run, list_shared_runs
from agentv.storage.run.categories import append_category_events
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.labels import append_labels
from agentv.storage.run.stored import open_run
from agentv.storage.shared_runs import Pulled
from agentv.templating.store_url import StoreUrl, parse_store_url
from agentv.types.errors import ConfigError, StorageError
from agentv.types.records.answer import AnswerRef
from agentv.types.records.category import CategoryEvent
from agentv.types.records.label import Label


@pytest.fixture
def url() -> StoreUrl:
    return parse_store_url(upgraded_database())


def write_run(
    runs: Path,
    run_id: str = RUN.run_id,
    *,
    rows: int = 3,
    close: bool = True,
    segments: Path | None = None,
    **changes: Any,
) -> Path:
    place, rules = (None if segments is None else str(segments)), SegmentRules(most_bytes=1000)
    store = RunFolder(runs, run_id, clock=at_noon, segments=place, segment_rules=rules)
    store.begin(make_run(run_id=run_id, **changes))
    store.append_case(make_case())
    for number in range(rows):
        kept = store.append_answer(make_answer(text=f"answer {number}"))
        seq = kept.seq or 0
        slot = replace(make_result().slot, trial=seq)
        store.append(
            make_result(run_id=run_id, slot=slot, answer_ref=AnswerRef(seq), candidate_answer=f"answer {number}")
        )
    store.close("finished" if close else "interrupted")
    return Path(store.folder)


def push(folder: Path, url: StoreUrl) -> int:
    with connect(url) as connection:
        return RunPusher(folder, connection, url).push()


def pull(url: StoreUrl, runs: Path, run_id: str = RUN.run_id) -> Pulled:
    with connect(url) as connection:
        return RunPuller(connection, url, run_id).pull(runs)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of all files of a run that are not empty, without locks."""
    files = (path for path in folder.rglob("*") if path.is_file() and "lock" not in path.name)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.stat().st_size}


def test_a_pulled_run_is_the_pushed_one_byte_for_byte(tmp_path: Path, url: StoreUrl) -> None:
    ours = write_run(tmp_path / "here")
    with (ours / "events.jsonl").open("ab") as events:
        events.write(b'  {"type": "odd \\u0000 spacing",   "time": "2026-01-31T12:00:00Z"}\n')
    append_labels(
        ours,
        [
            Label(
                slot=make_result().slot,
                answer_key="v1:aa",
                answer_ref=AnswerRef(0),
                criterion="polite",
                score=0.5,
                annotator="ann",
                time=NOON,
            )
        ],
        run_id=RUN.run_id,
    )
    assert push(ours, url) == 1 + 3 + 3 + 1 + 3
    pulled = pull(url, tmp_path / "there")
    assert pulled.lines == 11
    assert contents(pulled.folder) == contents(ours)


def test_a_run_with_segments_is_pushed_whole_and_pulled_without_them(tmp_path: Path, url: StoreUrl) -> None:
    ours = write_run(tmp_path / "here", segments=tmp_path / "place")
    assert push(ours, url) == 2 + 1 + 3 + 3
    pulled = pull(url, tmp_path / "there")
    assert list(open_run(pulled.folder).all_results()) == list(open_run(ours).all_results())
    write_run(tmp_path / "here", segments=tmp_path / "place")
    assert push(ours, url) == 2 + 3 + 3
    shutil.rmtree(tmp_path / "place")
    with pytest.raises(StorageError, match=r"segments\.jsonl:\d+: cannot read"):
        push(ours, url)


def test_large_values_and_binaries_travel_with_the_run(tmp_path: Path, url: StoreUrl) -> None:
    store = RunFolder(tmp_path / "here", RUN.run_id, clock=at_noon)
    store.begin(make_run())
    text = "long \0 and wide ✓ " * 400_000
    store.append_answer(make_answer(text=text))
    store.close("finished")
    folder = Path(store.folder)
    push(folder, url)
    pulled = pull(url, tmp_path / "there").folder
    assert contents(pulled) == contents(folder)
    assert [answer.text for answer in open_run(pulled).answers()] == [text]


def test_only_wanted_files_and_their_large_values_are_pulled(tmp_path: Path, url: StoreUrl) -> None:
    store = RunFolder(tmp_path / "here", RUN.run_id, clock=at_noon)
    store.begin(make_run())
    store.append_answer(make_answer(text="answer" * 50_000))
    store.append(make_result(candidate_answer="result" * 50_000))
    store.close("finished")
    push(Path(store.folder), url)
    with connect(url) as connection:
        puller = RunPuller(connection, url, RUN.run_id)
        folder = puller.pull(tmp_path / "there", files=("results.jsonl",)).folder
        assert set(contents(folder)).isdisjoint({"answers.jsonl", "events.jsonl"})
        assert len(list((folder / "blobs").iterdir())) == 1
        assert [row.candidate_answer for row in open_run(folder).results()] == ["result" * 50_000]
        puller.pull(tmp_path / "there")
    assert contents(folder) == contents(Path(store.folder))


def test_large_values_of_two_runs_are_kept_once(tmp_path: Path, url: StoreUrl) -> None:
    for run_id in ("first", "second"):
        store = RunFolder(tmp_path / "here", run_id, clock=at_noon)
        store.begin(make_run(run_id=run_id))
        store.append_answer(make_answer(text="x" * 300_000))
        store.close("finished")
        push(Path(store.folder), url)
    with connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM agentv.blobs").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM agentv.run_blobs").fetchone() == (2,)


def test_a_changed_large_value_of_the_database_is_refused(tmp_path: Path, url: StoreUrl) -> None:
    store = RunFolder(tmp_path / "here", RUN.run_id, clock=at_noon)
    store.begin(make_run())
    store.append_answer(make_answer(text="x" * 300_000))
    store.close("finished")
    push(Path(store.folder), url)
    with connect(url) as connection:
        connection.execute("UPDATE agentv.blobs SET data = 'changed'")
    with pytest.raises(StorageError, match="is damaged"):
        pull(url, tmp_path / "there")
    assert not list((tmp_path / "there").iterdir())


def test_pushing_again_writes_nothing_twice_and_brings_what_is_new(tmp_path: Path, url: StoreUrl) -> None:
    folder = write_run(tmp_path / "here")
    assert (push(folder, url), push(folder, url)) == (9, 0)
    write_run(tmp_path / "here", rows=1)
    assert push(folder, url) == 4
    assert contents(pull(url, tmp_path / "there").folder) == contents(folder)


def test_two_pushers_at_once_write_nothing_twice(tmp_path: Path, url: StoreUrl) -> None:
    folder = write_run(tmp_path / "here")
    with connect(url) as one, connect(url) as other:
        both = RunPusher(folder, one, url), RunPusher(folder, other, url)
        assert [pusher.push() for pusher in both] == [9, 0]
        assert one.execute("SELECT count(*) FROM agentv.results").fetchone() == (3,)


def test_pulling_again_brings_what_is_new_and_leaves_the_rest(tmp_path: Path, url: StoreUrl) -> None:
    folder = write_run(tmp_path / "here")
    push(folder, url)
    pulled = pull(url, tmp_path / "there").folder
    before = contents(pulled)
    assert pull(url, tmp_path / "there").lines == 0
    assert contents(pulled) == before
    write_run(tmp_path / "here", rows=2)
    push(folder, url)
    assert pull(url, tmp_path / "there").lines == 6
    assert contents(pulled) == contents(folder)


def test_pulling_into_the_folder_that_has_more_changes_nothing(tmp_path: Path, url: StoreUrl) -> None:
    folder = write_run(tmp_path / "here")
    push(folder, url)
    write_run(tmp_path / "here", rows=2)
    before = contents(folder)
    assert pull(url, tmp_path / "here").lines == 0
    assert contents(folder) == before


def other_start(runs: Path) -> Path:
    return write_run(runs, created_at=NOON.replace(year=2025))


def other_plan(runs: Path) -> Path:
    return write_run(runs, plan={"planned": 3})


def other_rows(runs: Path) -> Path:
    folder = write_run(runs, rows=2)
    lines = (folder / "answers.jsonl").read_bytes().replace(b"answer 1", b"answer X")
    (folder / "answers.jsonl").write_bytes(lines)
    return folder


@pytest.mark.parametrize("make_other", [other_start, other_plan, other_rows])
def test_another_run_of_the_same_id_is_overwritten_on_neither_side(
    tmp_path: Path, url: StoreUrl, make_other: Callable[[Path], Path]
) -> None:
    push(write_run(tmp_path / "here"), url)
    other = make_other(tmp_path / "there")
    before = contents(other)
    with pytest.raises(StorageError, match=r"different line|different run"):
        pull(url, tmp_path / "there")
    with pytest.raises(StorageError, match=r"different line|different run"):
        push(other, url)
    assert contents(other) == before
    assert contents(pull(url, tmp_path / "third").folder) == contents(tmp_path / "here" / RUN.run_id)


def test_a_push_from_a_folder_that_lost_lines_suggests_to_pull_first(tmp_path: Path, url: StoreUrl) -> None:
    folder = write_run(tmp_path / "here")
    push(folder, url)
    lines = (folder / "results.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "results.jsonl").write_bytes(b"".join(lines[:2]))
    with pytest.raises(StorageError, match=f"agentv store pull {RUN.run_id}"):
        push(folder, url)
    assert pull(url, tmp_path / "here").lines == 1
    assert push(folder, url) == 0


def test_a_torn_last_line_stays_here(tmp_path: Path, url: StoreUrl) -> None:
    folder = write_run(tmp_path / "here")
    with (folder / "answers.jsonl").open("ab") as file:
        file.write(b'{"torn')
    assert push(folder, url) == 9
    assert b"torn" not in contents(pull(url, tmp_path / "there").folder)["answers.jsonl"]


def test_a_run_whose_id_is_a_path_is_not_pulled(tmp_path: Path, url: StoreUrl) -> None:
    push(write_run(tmp_path / "here"), url)
    with connect(url) as connection:
        connection.execute("UPDATE agentv.runs SET run_id = '../../evil' WHERE false")
        connection.execute(
            "INSERT INTO agentv.runs (run_id, record) SELECT '../../evil', record FROM agentv.runs LIMIT 1"
        )
    with pytest.raises(StorageError, match="not a valid folder name"):
        pull(url, tmp_path / "there", "../../evil")


def test_lines_that_cannot_be_read_are_kept_too(tmp_path: Path, url: StoreUrl) -> None:
    folder = write_run(tmp_path / "here")
    odd = (
        b"no json",
        b"[1]",
        b'{"slot": {"eval_id": "a\\u0000b", "trial": 1e400}, "score": "x"}',
        b"\xff\x00\xfe",
        b"",
    )
    with (folder / "results.jsonl").open("ab") as file:
        file.write(b"".join(line + b"\n" for line in odd))
    push(folder, url)
    assert contents(pull(url, tmp_path / "there").folder) == contents(folder)
    with connect(url) as connection:
        found = connection.execute("SELECT eval_id, trial, score FROM agentv.results WHERE seq = 5").fetchone()
    assert found is None or found[0] in (None, "a�b")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(answers(), case_results()), min_size=1, max_size=3), st.integers(0, 10**9))
def test_whatever_is_kept_of_a_run_comes_back(tmp_path: Path, rows: list[Any], number: int) -> None:
    shutil.rmtree(tmp_path, ignore_errors=True)
    url = kept_url()
    run_id = f"run-{number}-{next(NUMBERS)}"
    store = RunFolder(tmp_path / "here", run_id, clock=at_noon)
    store.begin(make_run(run_id=run_id))
    for trial, (answer, result) in enumerate(rows):
        store.append_answer(answer)
        store.append(replace(result, run_id=run_id, slot=replace(result.slot, trial=trial)))
    store.close("finished")
    push(Path(store.folder), url)
    assert contents(pull(url, tmp_path / "there", run_id).folder) == contents(Path(store.folder))
    with connect(url) as connection:
        as_json = connection.execute(
            "SELECT count(agentv.as_json(line)) FROM agentv.results WHERE run_id = %s", [run_id]
        )
        assert as_json.fetchone() == (len(rows),)


def test_nul_characters_are_readable_in_queries(tmp_path: Path, url: StoreUrl) -> None:
    store = RunFolder(tmp_path / "here", RUN.run_id, clock=at_noon)
    store.begin(make_run(name="a\0b"))
    said = ["a\0b", "\0\0", "c:\\u0000", "\\\0"]
    for text in said:
        store.append_answer(make_answer(text=text))
    store.close("finished")
    push(Path(store.folder), url)
    with connect(url) as connection:
        rows = connection.execute("SELECT agentv.as_json(line)->>'text' FROM agentv.answers ORDER BY seq").fetchall()
        assert connection.execute("SELECT name FROM agentv.runs").fetchone() == ("a�b",)
    assert [row[0] for row in rows] == ["a�b", "��", "c:\\u0000", "\\�"]


def test_the_list_shows_current_counts_and_states_of_runs(tmp_path: Path, url: StoreUrl) -> None:
    store = RunFolder(tmp_path / "here", RUN.run_id, clock=at_noon)
    store.begin(make_run())
    slot = make_result().slot
    store.append(make_result())
    store.append(make_result(status="pass", verdict="pass", generation=1))
    store.append(make_result(slot=replace(slot, trial=1)))
    store.append(make_result(slot=replace(slot, trial=2), status="error", verdict=None, score=None))
    for trial, events in ((3, ["case_retired"]), (4, ["case_retired", "case_returned"])):
        store.append(make_result(slot=replace(slot, trial=trial)))
        for event in events:
            store.note(event, {"slot": asdict(replace(slot, trial=trial))})
    store.close("stopped")
    push(Path(store.folder), url)
    push(write_run(tmp_path / "here", "later", close=False, created_at=NOON.replace(month=3), name=None), url)
    with connect(url) as connection:
        first, second = list_shared_runs(connection, url)
    assert (first.run_id, first.name, first.state) == (RUN.run_id, "nightly", "stopped")
    assert first.counts == {"pass": 1, "fail": 2, "error": 1} == open_run(Path(store.folder)).counts()
    assert (second.run_id, second.name, second.state, second.counts) == ("later", None, "interrupted", {"fail": 3})


def test_the_first_answers_count_as_in_the_run_folder(tmp_path: Path, url: StoreUrl) -> None:
    store = RunFolder(tmp_path / "here", RUN.run_id, clock=at_noon)
    store.begin(make_run())
    for row in rerun_results():
        store.append(row)
    store.close("finished")
    push(Path(store.folder), url)
    run = open_run(Path(store.folder))
    expected = sorted((row.eval_id, row.generation) for row in run.results())
    assert expected == [("a", 0), ("b", 1), ("c", 2), ("d", 1), ("e", 0), ("f", 0)]
    with connect(url) as connection:
        query = "SELECT eval_id, generation FROM agentv.counted_results ORDER BY eval_id"
        assert connection.execute(query).fetchall() == expected
        (listed,) = list_shared_runs(connection, url)
    assert listed.counts == run.counts() == {"fail": 1, "pass": 2, "borderline": 1, "skipped": 2}


def test_the_planned_number_of_results_is_a_column_of_a_run(tmp_path: Path, url: StoreUrl) -> None:
    push(write_run(tmp_path / "here", plan={**RUN.plan, "rows": 12}), url)
    push(write_run(tmp_path / "here", "stream", plan={**RUN.plan, "rows": None}), url)
    with connect(url) as connection:
        query = "SELECT run_id, planned FROM agentv.runs"
        assert dict(connection.execute(query).fetchall()) == {RUN.run_id: 12, "stream": None}


def test_a_run_is_found_by_id_start_suffix_name_and_age(tmp_path: Path, url: StoreUrl) -> None:
    push(write_run(tmp_path / "here"), url)
    push(write_run(tmp_path / "here", "20260201T120000-aa", created_at=NOON.replace(month=3), name=None), url)
    with connect(url) as connection:
        found = {name: find_shared_run(connection, url, name) for name in ("latest", "latest~1", "7f3a", "nightly")}
        assert found == dict(zip(found, ["20260201T120000-aa", *[RUN.run_id] * 3], strict=True))
        for reference, message in (
            ("2026", "matches 2 runs"),
            ("none such", "known, latest first: 2026"),
            ("", "no run"),
        ):
            with pytest.raises(ConfigError, match=message):
                find_shared_run(connection, url, reference)


def test_runs_are_ordered_by_their_start_on_the_clock_of_the_server(tmp_path: Path, url: StoreUrl) -> None:
    now = datetime.now(UTC)
    day = timedelta(days=1)
    # By the clock of its machine: the start of each run, and the time of its push.
    runs = {
        "now": (now, now),
        "ahead": (now + day, now + day),
        "later": (now, now),
        "behind": (now - 3 * day, now - 3 * day),
        "of-last-week": (now - 7 * day, now),
        "set-back": (now + day, now),
    }
    with connect(url) as connection:
        for run_id, (start, pushed) in runs.items():
            folder = write_run(tmp_path, run_id, created_at=start)
            RunPusher(folder, connection, url, clock=partial(lambda time: time, pushed)).push()
        assert [run.run_id for run in list_shared_runs(connection, url)] == [
            "of-last-week",
            "now",
            "ahead",
            "later",
            "behind",
            "set-back",
        ]
        assert find_shared_run(connection, url, "latest") == "set-back"


NUMBERS = iter(range(10**9))


@cache
def kept_url() -> StoreUrl:
    """Return one database for all examples of a property."""
    return parse_store_url(upgraded_database())


def write_results(runs: Path, *trials: int) -> Path:
    """Write a run with one result for each trial."""
    store = RunFolder(runs, RUN.run_id, clock=at_noon)
    store.begin(make_run())
    for trial in trials:
        store.append(make_result(slot=replace(make_result().slot, trial=trial)))
    store.close("finished")
    return Path(store.folder)


def test_two_pushers_of_a_repeated_result_write_it_once(tmp_path: Path, url: StoreUrl) -> None:
    folder = write_results(tmp_path / "here", 0, 0)
    with connect(url) as one, connect(url) as other:
        both = RunPusher(folder, one, url), RunPusher(folder, other, url)
        assert [pusher.push() for pusher in both] == [2 + 2, 0]
    assert contents(pull(url, tmp_path / "there").folder) == contents(folder)


def test_a_second_writer_with_another_result_is_refused(tmp_path: Path, url: StoreUrl) -> None:
    ours, theirs = write_results(tmp_path / "here", 0), write_results(tmp_path / "there", 1, 0)
    with connect(url) as one, connect(url) as other:
        both = RunPusher(ours, one, url), RunPusher(theirs, other, url)
        both[0].push()
        with pytest.raises(StorageError, match=r"different line 1 in results\.jsonl"):
            both[1].push()
        assert one.execute("SELECT trial, count(*) FROM agentv.results GROUP BY trial").fetchall() == [(0, 1)]


def test_a_result_that_a_folder_has_twice_is_stored_once_and_pushed_again(tmp_path: Path, url: StoreUrl) -> None:
    folder = write_results(tmp_path / "here", 0, 0, 1)
    push(folder, url)
    assert push(folder, url) == 0
    with connect(url) as connection:
        query = "SELECT seq, trial FROM agentv.results ORDER BY seq"
        assert connection.execute(query).fetchall() == [(0, 0), (2, 1)]


def test_a_run_with_a_repeated_result_is_pulled_byte_for_byte(tmp_path: Path, url: StoreUrl) -> None:
    folder = write_results(tmp_path / "here", 0, 0, 1, 0)
    push(folder, url)
    pulled = pull(url, tmp_path / "there")
    assert contents(pulled.folder) == contents(folder)
    assert push(pulled.folder, url) == 0
    assert pull(url, tmp_path / "there").lines == 0


def test_later_generations_and_other_prompts_are_other_results(tmp_path: Path, url: StoreUrl) -> None:
    store = RunFolder(tmp_path / "here", RUN.run_id, clock=at_noon)
    store.begin(make_run())
    slot = make_result().slot
    store.append(make_result())
    store.append(make_result(generation=1))
    store.append(make_result(slot=replace(slot, prompt="v2")))
    store.append(make_result(slot=replace(slot, target="other")))
    store.close("finished")
    push(Path(store.folder), url)
    with connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM agentv.results").fetchone() == (4,)


def draw(folder: Path, *, seed: int = 0, name: str = "helpful") -> None:
    plan = ReviewPlan(name=name, criterion="overall", n=2, seed=seed, reviewers=("ann",), stratify="none")
    open_queue(open_run(folder), plan, now=NOON)


def change_category(folder: Path, name: str) -> None:
    append_category_events(folder, [CategoryEvent(time=NOON, by="ann", type="added", name=name)])


def test_reviews_and_categories_travel_with_the_run(tmp_path: Path, url: StoreUrl) -> None:
    ours = write_run(tmp_path / "here")
    push(ours, url)
    theirs = pull(url, tmp_path / "there").folder
    assert not (theirs / "reviews").exists()
    draw(ours)
    change_category(ours, "too long")
    assert (push(ours, url), push(ours, url)) == (2, 0)
    assert pull(url, tmp_path / "there").lines == 2
    assert contents(theirs) == contents(ours)
    draw(theirs, name="more")
    change_category(theirs, "rude")
    assert push(theirs, url) == 2
    assert pull(url, tmp_path / "here").lines == 2
    assert contents(pull(url, tmp_path / "third").folder) == contents(ours) == contents(theirs)
    with connect(url) as connection:
        rows = connection.execute("SELECT type, name, by FROM agentv.categories ORDER BY seq").fetchall()
        assert rows == [("added", "too long", "ann"), ("added", "rude", "ann")]


def test_a_running_push_takes_queues_that_are_drawn_later(tmp_path: Path, url: StoreUrl) -> None:
    folder = write_run(tmp_path / "here")
    with connect(url) as connection:
        pusher = RunPusher(folder, connection, url)
        pusher.push()
        draw(folder)
        assert (pusher.push(), pusher.push()) == (1, 0)


def test_another_queue_of_the_same_name_is_refused_with_its_place(tmp_path: Path, url: StoreUrl) -> None:
    ours = write_run(tmp_path / "here")
    push(ours, url)
    theirs = pull(url, tmp_path / "there").folder
    draw(ours, seed=1)
    draw(theirs, seed=2)
    push(ours, url)
    before = contents(theirs)
    with pytest.raises(StorageError, match=r"different reviews/helpful\.json .*--queue NAME"):
        push(theirs, url)
    with pytest.raises(StorageError, match=r"different reviews/helpful\.json .*Nothing was changed"):
        pull(url, tmp_path / "there")
    assert contents(theirs) == before


def test_categories_that_two_copies_changed_are_refused_with_advice(tmp_path: Path, url: StoreUrl) -> None:
    ours = write_run(tmp_path / "here")
    push(ours, url)
    theirs = pull(url, tmp_path / "there").folder
    for folder in (ours, theirs):
        change_category(folder, folder.parent.name)
    push(ours, url)
    with pytest.raises(StorageError, match=r"line 1 in categories\.jsonl .*another copy of the run; pull it"):
        push(theirs, url)


def test_a_queue_whose_name_leads_elsewhere_is_not_written(tmp_path: Path, url: StoreUrl) -> None:
    push(write_run(tmp_path / "here"), url)
    with connect(url) as connection:
        connection.execute("INSERT INTO agentv.reviews VALUES (%s, '../../evil', 'x')", [RUN.run_id])
    with pytest.raises(StorageError, match="bad review queue"):
        pull(url, tmp_path / "there")
    assert not list(tmp_path.rglob("evil*"))
