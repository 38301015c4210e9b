"""A project of stored runs for tests of the viewer's pages, and the pages that every test of all pages opens."""

from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from tests.support.hostile_texts import HOSTILE_TEXTS, RUNNING

from agentv import (
    EvalCase,
    EvaluationContext,
    EvaluationScore,
    EvaluatorConfig,
    Message,
    ProviderRequest,
    ProviderResponse,
    ToolCall,
    evaluate,
)
from agentv.engine.labels.reviews import ReviewPlan, open_queue
from agentv.scoring.judges.reviewing import Reviewed, make_label
from agentv.storage.run.find import runs_folder
from agentv.storage.run.labels import append_labels
from agentv.storage.run.stored import StoredRun
from agentv.types.records.answer import AnswerRef
from agentv.types.records.label import Label
from agentv.types.records.review import ReviewQueue

_NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
CASES = 130
"""More than a page of results."""
PATHS = (
    "/",
    "/?q=nothing+like+this",
    "/r/{run}",
    "/r/{run}/rows?state=error&tag=odd&q=sum&sort=-score",
    "/r/{run}/rows?q=nothing+like+this",
    "/r/{run}/rows?page=2",
    "/r/{run}/row/1",
    "/r/{run}/case/sum-7",
    "/r/{hostile}",
    "/r/{hostile}/rows",
    "/r/{hostile}/row/3",
    "/r/{run}/rows?page=none",
    "/r/{run}/grid?sort=state",
    "/r/{hostile}/grid?diff=no",
    "/compare/{before}..{run}",
    "/compare/{before}..{run}?only=same",
    "/trend/{suite}",
    "/judge/short?run={run}",
    "/q/overall@{run}",
    "/categories/{run}",
    "/categories/{hostile}",
    "/r/none",
)
"""Each kind of page, with a run of each kind in braces: add the paths of a new page here."""


class ViewedRuns(Struct, frozen=True):
    """The ids of the stored runs, and the folder that they are in."""

    home: Path
    before: str
    """An earlier run of the same cases."""
    run: str
    hostile: str
    suite: str
    """The path of the suite of the first two runs, quoted."""

    def path(self, template: str) -> str:
        """Return a path of `PATHS` with the ids of the runs."""
        return template.format(before=self.before, run=self.run, hostile=self.hostile, suite=self.suite)


def store_runs(home: Path) -> ViewedRuns:
    """Store the runs below a `.agentv` folder."""
    cases = [EvalCase(f"sum-{n}", f"What is {n} + 2?", tags=("even" if n % 2 == 0 else "odd",)) for n in range(CASES)]
    short = EvaluatorConfig("short", "length", {"max": 20, "unit": "characters"})
    before, run = (
        evaluate(cases, task=_sum_or_not, evaluators=[short, _evidence], folder=home, name=name).run_id
        for name in ("monday", "nightly")
    )
    stored = StoredRun(runs_folder(home) / run)
    _label(stored, open_queue(stored, ReviewPlan(n=20, reviewers=("ada", "bob"), overlap=1.0), now=_NOON))
    return ViewedRuns(home, before, run, _store_hostile_run(home), stored.suites[0])


def _label(stored: StoredRun, queue: ReviewQueue) -> None:
    """Store the labels of two reviewers who disagree about some answers, with a category and a note."""
    for number, item in enumerate(queue.items):
        for name in item.reviewers:
            is_good = number % 3 != 0 and (name == "ada" or number % 5 != 0)
            reviewed = Reviewed(
                label_id=f"{name}-{number}",
                verdict="pass" if is_good else "fail",
                category=None if is_good else "says nothing",
                note=None if is_good else "It does not answer.",
            )
            label = make_label(queue, item, reviewed, annotator=name, time=_NOON)
            append_labels(stored.folder, [label], run_id=stored.run_id)


def _sum_or_not(request: ProviderRequest) -> ProviderResponse:
    number = int(request.question.split()[2])
    if number % 10 == 1:
        raise RuntimeError("model overloaded")
    call = ToolCall("add", {"a": number, "b": 2}, number + 2)
    text = f"It is {number + 2}." if number % 3 else "I do not know what the sum of the two might be."
    return ProviderResponse(
        text, output_messages=(Message("assistant", "Let me see.", tool_calls=(call,)), Message("assistant", text))
    )


def _evidence(_: EvaluationContext) -> EvaluationScore:
    return EvaluationScore(0.8, hits=("is polite",), misses=("is short",), reasoning="A whole sentence.")


def _store_hostile_run(home: Path) -> str:
    """Store a run in which every text that others write tries to run, and labels like it."""
    cases = [EvalCase(text, text, tags=(text,), metadata={text: text}) for text in HOSTILE_TEXTS]
    everything = "\n".join(RUNNING)
    run_id = evaluate(
        cases, task=_echo, evaluators=[_echoed], folder=home, name=everything, tags=HOSTILE_TEXTS[:3]
    ).run_id
    folder = runs_folder(home) / run_id
    labels = [
        Label(
            slot=result.slot,
            answer_key=result.answer_key or "",
            answer_ref=result.answer_ref or AnswerRef(0),
            criterion=result.candidate_answer,
            score=result.candidate_answer,
            annotator=result.candidate_answer,
            time=_NOON,
            reasoning=result.candidate_answer,
        )
        for result in StoredRun(folder).results()
    ]
    append_labels(folder, labels, run_id=run_id)
    return run_id


def _echo(request: ProviderRequest) -> ProviderResponse:
    text = request.question
    call = ToolCall(text, {text: text}, text)
    return ProviderResponse(text, output_messages=(Message("assistant", text, tool_calls=(call,)),))


def _echoed(context: EvaluationContext) -> EvaluationScore:
    text = context.candidate
    return EvaluationScore(0.2, hits=(text,), misses=(text,), reasoning=text)
