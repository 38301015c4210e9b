"""The contract of every ResultStore."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.postgres_server import upgraded_database
from tests.support.stored import RUN, at_noon, make_answer, make_case, make_result, make_run

from agentv.storage.postgres.connection import connect
from agentv.storage.postgres.copying import RunPuller, RunPusher
from agentv.storage.postgres.store import MirroredRun
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.memory import MemoryStore
from agentv.storage.run.stored import open_run
from agentv.templating.store_url import parse_store_url
from agentv.types.messages import Message
from agentv.types.protocols import ResultStore
from agentv.types.records.answer import Answer, AnswerRef
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, EventRecord


@dataclass
class Opened:
    """A store that a test writes to, and a function that reads back its records."""

    store: ResultStore
    events: Callable[[], list[EventRecord]]
    cases: Callable[[], list[CaseRecord]]
    answers: Callable[[], list[Answer]]
    results: Callable[[], list[CaseResult]]


def open_memory(_: Path) -> Opened:
    store = MemoryStore(RUN.run_id, clock=at_noon)
    return Opened(store, lambda: store.events, lambda: store.cases, lambda: store.answers, lambda: store.results)


def open_folder(tmp_path: Path) -> Opened:
    store = RunFolder(tmp_path / ".agentv" / "runs", RUN.run_id, clock=at_noon)
    folder = Path(store.folder)
    return Opened(
        store,
        lambda: list(open_run(folder).events()),
        lambda: list(open_run(folder).cases()),
        lambda: list(open_run(folder).answers()),
        lambda: list(open_run(folder).results()),
    )


def open_shared(tmp_path: Path) -> Opened:
    """A run that is pushed to the team database, read back from the database."""
    url = parse_store_url(upgraded_database())
    store = MirroredRun(url, lambda: RunFolder(tmp_path / ".agentv" / "runs", RUN.run_id, clock=at_noon))

    def read(kind: str) -> list[Any]:
        with connect(url) as connection:
            RunPusher(Path(store.folder), connection, url).push()
            shutil.rmtree(tmp_path / "elsewhere", ignore_errors=True)
            folder = RunPuller(connection, url, RUN.run_id).pull(tmp_path / "elsewhere" / "runs").folder
        return list(getattr(open_run(folder), kind)())

    return Opened(store, *(partial(read, kind) for kind in ("events", "cases", "answers", "results")))


@pytest.fixture(params=[open_memory, open_folder, open_shared], ids=["memory", "folder", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    made: Opened = request.param(tmp_path)
    made.store.begin(make_run())
    yield made
    made.store.close("finished")


def test_rows_come_back_numbered_in_the_order_of_writing(opened: Opened) -> None:
    slot = make_result().slot
    kept = [
        opened.store.append(make_result(slot=replace(slot, trial=trial), candidate_answer=text))
        for trial, text in enumerate(("a", "b", "c"))
    ]
    assert [row.seq for row in kept] == [0, 1, 2]
    assert opened.results() == kept


def test_answers_come_back_numbered_and_whole(opened: Opened) -> None:
    kept = [opened.store.append_answer(make_answer(text=text)) for text in ("a", "b")]
    assert [answer.seq for answer in kept] == [0, 1]
    assert opened.answers() == kept
    assert kept[0] == make_answer(text="a", seq=0, run_id=opened.store.run_id)


def test_what_another_store_numbered_is_left_as_it_is(opened: Opened) -> None:
    answer, row = make_answer(seq=7), make_result(answer_ref=AnswerRef(0), seq=8)
    assert (opened.store.append_answer(answer).seq, opened.store.append(row).seq) == (0, 0)
    assert (answer.seq, row.seq) == (7, 8)


def test_the_second_write_of_a_case_is_dropped(opened: Opened) -> None:
    for case in (make_case(), make_case(), make_case(eval_id="other"), make_case(case_key="v1:changed")):
        opened.store.append_case(case)
    assert opened.cases() == [make_case(), make_case(eval_id="other"), make_case(case_key="v1:changed")]


def test_events_are_kept_with_time_and_number(opened: Opened) -> None:
    opened.store.note("budget_stop", {"spent_usd": 5.0})
    first, second = opened.events()
    assert (first.type, first.seq) == ("started", 0)
    assert second == EventRecord("budget_stop", at_noon(), {"spent_usd": 5.0}, 1)


@pytest.mark.parametrize("number", [nan, inf, -inf])
def test_a_number_that_says_nothing_does_not_stop_a_run(opened: Opened, number: float) -> None:
    opened.store.append(make_result(duration_ms=number))
    odd = Message("assistant", "hi", metadata={"x": [0, number]})
    opened.store.append_answer(make_answer(output_messages=(odd,)))
    assert len(opened.results()) == len(opened.answers()) == 1


def test_a_lone_surrogate_does_not_stop_a_run(opened: Opened) -> None:
    opened.store.append(make_result(candidate_answer="half a \ud83d character"))
    assert len(opened.results()) == 1


def test_the_end_is_noted_with_its_state(tmp_path: Path) -> None:
    for opened in (open_memory(tmp_path), open_folder(tmp_path / "folder"), open_shared(tmp_path / "shared")):
        opened.store.begin(make_run())
        opened.store.close("interrupted")
        assert opened.events()[-1].fields["state"] == "interrupted"
