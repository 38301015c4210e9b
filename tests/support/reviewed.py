"""Stored runs whose true verdicts are known, and scripted reviewers who label them over HTTP."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.support.served import serving_in_thread
from tests.support.stored import RUN, at_noon, make_answer, make_case, make_result, make_run
from tests.support.viewer import Client, Reply, Viewer, post

from agentv.engine.labels.reviews import ReviewPlan, open_queue
from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.evaluation import EvaluatorResult, verdict_of
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.view.access import Access
from agentv.view.library import Library
from agentv.view.reviews import Reviews, ReviewSession
from agentv.view.server import ViewServer

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TARGET = "secret-model"
REASON = "the judge's own reasoning"


def is_good(number: int) -> bool:
    """Return True for 75 % of the answers, which people pass."""
    return number % 4 != 0


def store_run(
    home: Path,
    *,
    cases: int = 40,
    note: str = "",
    answer_note: str | None = None,
    run_id: str = RUN.run_id,
    key: str = "v1:",
    first: int = 0,
    **case: Any,
) -> StoredRun:
    """Store a run with a judge that passes 70 % of the good answers and 10 % of the bad ones."""
    store = RunFolder(runs_folder(home), run_id, clock=at_noon)
    store.begin(make_run(run_id=run_id))
    for number in range(first, first + cases):
        slot = ResultKey("evals/a.yaml", f"c-{number}", TARGET)
        texts = {
            "question": f"Question {number}{note}",
            "reference_answer": f"Reference {number}{note}",
            "criteria": (),
        }
        store.append_case(make_case(**{"eval_id": slot.eval_id, "suite": slot.suite, **texts, **case}))
        text = (
            f"Answer {number} is {'good' if is_good(number) else 'bad'}{note if answer_note is None else answer_note}"
        )
        answer = store.append_answer(make_answer(slot=slot, text=text, answer_key=f"{key}{number}"))
        score = 0.9 if number % 40 == 0 or (is_good(number) and number % 10 < 7) else 0.2
        result = EvaluatorResult(
            name="helpful", type="llm_judge", score=score, verdict=verdict_of(score), reasoning=REASON
        )
        store.append(
            make_result(
                slot=slot,
                answer_key=f"{key}{number}",
                answer_ref=AnswerRef(answer.seq or 0),
                candidate_answer=text,
                score=score,
                verdict=verdict_of(score),
                status="fail",
                evaluator_results=(result,),
            )
        )
    store.close("finished")
    return open_run(Path(store.folder))


@contextmanager
def serving_review(
    run: StoredRun, plan: ReviewPlan, *, timer: Callable[[], float] = time.monotonic
) -> Iterator[tuple[Viewer, ReviewSession]]:
    """Serve the queue of a plan until the end of the block."""
    session = ReviewSession(run, open_queue(run, plan, now=NOON), timer=timer)
    with serving_session(session) as viewer:
        yield viewer, session


@contextmanager
def serving_session(session: ReviewSession) -> Iterator[Viewer]:
    """Serve a queue until the end of the block."""
    access = Access.create(reviewers=session.queue.reviewers)
    library = Library(session.stored.folder.parent.parent)
    with serving_in_thread(ViewServer(library, access, reviews=Reviews([session]))) as server:
        yield Viewer(server, access, library)


class ScriptedReviewer(Struct):
    """A reviewer without a browser."""

    client: Client
    queue: str

    @property
    def path(self) -> str:
        return f"/q/{self.queue}/next"

    def next(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"{self.path}.json").json()
        return found

    def send(self, item: dict[str, Any], *fields: tuple[str, str], path: str | None = None) -> Reply:
        known = (("item", str(item["item"])), ("label_id", item["label_id"]))
        return post(self.client, f"{path or self.path}.json", *known, *fields)

    def review(self, *, limit: int | None = None) -> list[int]:
        """Label what is left by the truth; return the numbers of the items."""
        done: list[int] = []
        item: dict[str, Any] | None = self.next()
        while item is not None and item["item"] is not None and len(done) != limit:
            done.append(item["item"])
            reply = self.send(item, ("verdict", "pass" if "is good" in item["answer"] else "fail"))
            assert reply.status == 200, reply.text
            item = reply.json()["next"]
        return done
