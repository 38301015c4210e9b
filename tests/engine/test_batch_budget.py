"""Batches under `--budget-usd`: as many requests are submitted as the longest replies leave room for."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.fake_server import serving_fake

from agentv import ConfigError, EvalCase, EvaluatorConfig, Message, RunReport, TargetConfig, evaluate
from agentv.fake import FakeServer
from agentv.fake.answers import answer
from agentv.fake.api import Question, Reply
from agentv.types.events import Observer, RowBegun, RowFinished, RowLeft, RunEvent
from agentv.types.json_value import JsonObject

ANY = EvaluatorConfig("any", "length", {"min": 1})
LONGEST = 10
"""Tokens of a reply: five dollars in a batch, where a token costs half a dollar."""


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A server whose replies have the maximum length if the prompt says `long`, else one token."""

    def as_long_as_requested(question: Question) -> Reply:
        reply = answer(question)
        return replace(reply, text="word" * LONGEST if "long" in reply.text else "word")

    with serving_fake(batch_polls=1, answer=as_long_as_requested) as found:
        yield found


def run(
    server: FakeServer,
    folder: Path,
    *questions: str,
    budget_usd: float,
    observers: Sequence[Observer] = (),
    judged_by: EvaluatorConfig = ANY,
    fail_fast: int | None = None,
    **settings: Any,
) -> RunReport:
    price: JsonObject = {"input_per_million": 0, "output_per_million": 1_000_000}
    model: JsonObject = {"model": "m", "base_url": f"{server.url}/v1", "price": price, "batch_api": True}
    target = TargetConfig("t", "openai", {**model, "max_output_tokens": LONGEST, **settings})
    cases = [
        EvalCase(f"c{number}", (Message("user", f"{said} {number}"),), expected_outcome="an answer")
        for number, said in enumerate(questions)
    ]
    return evaluate(
        cases,
        target=target,
        evaluators=[judged_by],
        folder=folder,
        budget_usd=budget_usd,
        observers=observers,
        fail_fast=fail_fast,
        gates="none",
    )


class RecordedReport:
    """An observer that records which cases were started, finished and left."""

    def __init__(self) -> None:
        self.slots: dict[type, list[str]] = {RowBegun: [], RowLeft: [], RowFinished: []}

    def notify(self, event: RunEvent) -> None:
        if isinstance(event, RowBegun | RowLeft):
            self.slots[type(event)].append(event.slot.eval_id)
        elif isinstance(event, RowFinished):
            self.slots[RowFinished].append(event.result.eval_id)

    def close(self) -> None:
        """Do nothing: nothing is open."""


def batches(report: RunReport) -> list[int]:
    assert report.folder is not None
    lines = (Path(report.folder) / "events.jsonl").read_text().splitlines()
    return [len(json.loads(line)["keys"]) for line in lines if '"batch_submitted"' in line]


def spent(report: RunReport) -> float:
    return sum(target.target_cost_usd or 0 for target in report.targets)


def test_a_budget_that_is_enough_for_all_makes_one_batch(server: FakeServer, tmp_path: Path) -> None:
    report = run(server, tmp_path, *["long"] * 4, budget_usd=20)
    assert (report.exit_code, batches(report), spent(report)) == (0, [4], 20)


def test_no_more_is_handed_in_than_the_longest_replies_leave_room_for(server: FakeServer, tmp_path: Path) -> None:
    report = run(server, tmp_path, *["long"] * 6, budget_usd=17)
    assert (report.exit_code, report.state) == (2, "stopped")
    assert (batches(report), len(report.results), spent(report)) == ([3], 3, 15)
    assert "$15.0000 of the budget of $17 is spent" in report.verdict.sentence
    assert all(call.batch for call in server.calls if call.billed)


def test_row_beyond_the_budget_is_reported_as_left(server: FakeServer, tmp_path: Path) -> None:
    notes = RecordedReport()
    run(server, tmp_path, *["long"] * 3, budget_usd=12, observers=[notes])
    assert notes.slots == {RowBegun: ["c0", "c1", "c2"], RowLeft: ["c2"], RowFinished: ["c0", "c1"]}


def test_rows_left_by_a_stop_during_a_batch_are_reported(server: FakeServer, tmp_path: Path) -> None:
    notes, nothing_passes = RecordedReport(), EvaluatorConfig("any", "contains", {"value": "never said"})
    run(server, tmp_path, *["long"] * 3, budget_usd=20, observers=[notes], judged_by=nothing_passes, fail_fast=1)
    assert notes.slots == {RowBegun: ["c0", "c1", "c2"], RowLeft: ["c1", "c2"], RowFinished: ["c0"]}


def test_what_short_replies_leave_is_for_further_batches(server: FakeServer, tmp_path: Path) -> None:
    report = run(server, tmp_path, *["short"] * 6, budget_usd=17)
    assert (report.exit_code, batches(report), spent(report)) == (0, [3, 3], 3)


def test_a_budget_too_small_for_one_hands_in_nothing(server: FakeServer, tmp_path: Path) -> None:
    report = run(server, tmp_path, "short", "short", budget_usd=4.9)
    assert (report.exit_code, batches(report), report.results, server.calls) == (2, [], (), [])


def test_a_batch_that_is_paid_for_already_is_taken_up_whatever_the_budget(server: FakeServer, tmp_path: Path) -> None:
    first = run(server, tmp_path, "long", "long", budget_usd=10)
    assert first.folder is not None
    events = Path(first.folder) / "events.jsonl"
    events.write_text(
        "".join(line for line in events.read_text().splitlines(keepends=True) if "batch_fetched" not in line)
    )  # as after a kill
    again = run(server, tmp_path, "long", "long", budget_usd=7)
    assert (again.exit_code, batches(again), spent(again)) == (0, [2], 10)
    assert len([call for call in server.calls if call.billed]) == 2


def test_lost_batch_answer_is_called_singly_within_the_budget(server: FakeServer, tmp_path: Path) -> None:
    report = run(server, tmp_path, "short", "short", budget_usd=12, model="m@batch-lost")
    assert (report.exit_code, batches(report), spent(report)) == (0, [2], 2)


def test_batch_budget_requires_max_output_tokens(server: FakeServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"limit the length of replies in the target: `max_output_tokens: 1000`"):
        run(server, tmp_path, "short", budget_usd=17, max_output_tokens=None)
    assert server.calls == []
