"""Stored runs of one suite and target, day after day, for tests of trends."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from tests.support.stored import NOON, make_result, make_run

from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder
from agentv.types.failures import Failure
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult

SUITE = "evals/refunds.yaml"
TARGET = "agent-v2"


def row(eval_id: str, score: float | None, *, target: str = TARGET, trial: int = 0, **changes: Any) -> CaseResult:
    """Return a row: judged with a score, or with an error where there is none."""
    slot = ResultKey(SUITE, eval_id, target, trial)
    if score is None:
        failure = Failure("server_error", "HTTP 503")
        return make_result(slot=slot, status="error", score=None, verdict=None, error=failure, **changes)
    verdict = "pass" if score == 1 else "fail"
    return make_result(slot=slot, status=verdict, score=score, verdict=verdict, **changes)


def begin_run(home: Path, day: int, scores: Sequence[float | None], *, sha256: str = "aa", **about: Any) -> RunFolder:
    """Begin the run of a day, with a row for each score; the caller closes it."""
    run_id = f"20260131T12{day:02}00.000-{day:06x}"
    when = NOON + timedelta(days=day)
    plan = {
        "rows": len(scores),
        "suites": [{"path": SUITE, "sha256": sha256, "cases": len(scores)}],
        "targets": [{"name": TARGET}],
        **about.pop("plan", {}),
    }
    store = RunFolder(runs_folder(home), run_id, clock=lambda: when)
    store.begin(replace(make_run(run_id=run_id, created_at=when, plan=plan, name=None), **about))
    for number, score in enumerate(scores):
        store.append(row(f"case-{number}", score, run_id=run_id))
    return store


def keep_run(home: Path, day: int, scores: Sequence[float | None], *, state: str = "finished", **about: Any) -> str:
    """Store the run of a day; return its id."""
    store = begin_run(home, day, scores, **about)
    store.close(state)
    return store.run_id


def passing(passed: int, of: int = 40) -> list[float]:
    """Return the scores of `of` cases, of which `passed` pass."""
    return [1.0] * passed + [0.0] * (of - passed)
