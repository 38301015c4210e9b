"""One answer and its evaluators get the same refusal, or the same scores, through every door of agentv.

The doors are an eval file, `evaluate` with dicts and with objects, `run_evaluation`, and `agentv score`.
"""

import copy
import json
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from click.testing import CliRunner
from msgspec import Struct
from msgspec.structs import replace
from tests.support.door_inputs import JUDGE, DoorInput, door_inputs
from tests.support.nightly import sample

from agentv import (
    EvalCase,
    EvaluationCriteria,
    EvaluationRunConfig,
    EvaluatorConfig,
    RubricItem,
    evaluate,
    run_evaluation_sync,
)
from agentv.cli.main import agentv
from agentv.engine.criteria.process_runs import ProcessRun
from agentv.storage.records.decode import RESULTS
from agentv.types.errors import AgentvError
from agentv.types.evaluation import EvaluatorResult
from agentv.types.records.result import CaseResult

# A single evaluator of some types is warned of.
pytestmark = pytest.mark.filterwarnings("ignore:`.*` as the only evaluator")

INPUTS = sample(tuple(door_inputs(300, seed=20260131)), 60, of_each=lambda given: given.fault)


class Refused(Struct, frozen=True):
    """A door refused the input, before anything was judged."""

    message: str


class Judged(Struct, frozen=True):
    """A door judged the answer: the row's status, verdict and score, and the results of its evaluators."""

    status: str
    verdict: str | None
    score: float | None
    evaluators: tuple[EvaluatorResult, ...]


Outcome: TypeAlias = Judged | Refused


def by_file(given: DoorInput, folder: Path) -> CaseResult:
    case = {
        "id": "refund",
        "input_messages": [{"role": "user", "content": given.question}],
        "expected_messages": [{"role": "assistant", "content": given.reference}],
        "evaluators": given.evaluators,
    }
    if given.rubrics:
        case["rubrics"] = given.rubrics
    suite = {"target": "agent", "judge": "judge", "evalcases": [case]}
    if given.criteria:
        suite["criteria"] = given.criteria
    targets = [{"name": "agent", "provider": "mock", "response": given.answer}, {"name": "judge", **JUDGE}]
    (folder / "suite.yaml").write_text(json.dumps(suite, ensure_ascii=False))
    (folder / "targets.yaml").write_text(json.dumps({"targets": targets}, ensure_ascii=False))
    return evaluate(folder / "suite.yaml", folder=folder / "of-file").results[0]


def by_dicts(given: DoorInput, folder: Path) -> CaseResult:
    return by_case(
        {"evaluators": given.evaluators, "rubrics": given.rubrics, "criteria": given.criteria}, given, folder
    )


def by_objects(given: DoorInput, folder: Path) -> CaseResult:
    lists = {
        "evaluators": [as_object(each, evaluator_of) for each in given.evaluators],
        "rubrics": [as_object(each, lambda item: RubricItem(**item)) for each in given.rubrics],
        "criteria": [as_object(each, lambda criterion: EvaluationCriteria(**criterion)) for each in given.criteria],
    }
    return by_case(lists, given, folder)


def by_case(lists: Mapping[str, Any], given: DoorInput, folder: Path) -> CaseResult:
    case = EvalCase("refund", given.question, "", given.reference, **lists)
    target = {"provider": "mock", "response": given.answer}
    return evaluate([case], target=target, judge=JUDGE, folder=folder / "of-case").results[0]


def as_object(given: Any, make: Callable[[dict[str, Any]], object]) -> object:
    """Return an object with the keys of a dict as fields; the dict itself if a class has no such field."""
    if not isinstance(given, Mapping):
        return given
    try:
        return make(dict(given))
    except TypeError:
        return given


def evaluator_of(keys: dict[str, Any]) -> EvaluatorConfig:
    fields = {name: keys.pop(name) for name in EvaluatorConfig.__struct_fields__ if name in keys}
    if "timeout_seconds" in keys:
        fields["timeout_s"] = keys.pop("timeout_seconds")
    if "evaluators" in keys:
        keys["evaluators"] = tuple(evaluator_of(dict(each)) for each in keys["evaluators"])
    return EvaluatorConfig(**fields, settings=keys)


def by_answer(given: DoorInput, folder: Path) -> CaseResult:
    answer = {"response": given.answer, "prompt": given.question, "ground_truth": given.reference}
    config = EvaluationRunConfig(evaluators=given.evaluators, judge=JUDGE, criteria=given.criteria)
    with chdir(folder / "of-answer"):
        run_evaluation_sync(answer, config, store="runs")
        for run in vars(config).values():
            if isinstance(run, ProcessRun):
                run.close()  # else its files stay open until the process ends
    return stored_row(folder / "of-answer")


def by_log(given: DoorInput, folder: Path) -> CaseResult:
    config: dict[str, Any] = {"evaluators": given.evaluators, "judge": JUDGE}
    if given.criteria:
        config["criteria"] = given.criteria
    folder = folder / "of-log"
    (folder / "config.json").write_text(json.dumps(config))
    line = {"id": "refund", "prompt": given.question, "response": given.answer, "ground_truth": given.reference}
    (folder / "log.jsonl").write_text(json.dumps(line) + "\n")
    options = ["--config", "config.json", "--display", "none"]
    with chdir(folder):
        ended = CliRunner().invoke(agentv, ["score", "log.jsonl", *options], catch_exceptions=False)
    if ended.exit_code in (2, 4, 5):
        raise AgentvError(ended.output)
    return stored_row(folder)


def stored_row(folder: Path) -> CaseResult:
    (path,) = folder.glob(".agentv/runs/*/results.jsonl")
    (line,) = path.read_bytes().splitlines()
    return RESULTS.of_line(line)


DOORS = (by_file, by_dicts, by_objects, by_answer, by_log)


ACCEPTED: Mapping[str, set[str]] = {
    # The criteria of a given answer may come with the answer: one that nothing defines is judged on its own.
    "evaluator criterion='undefined'": {"by_answer", "by_log"},
    # The name is needed in files; elsewhere it is derived from the type.
    "evaluator without name": {"by_dicts", "by_objects", "by_answer", "by_log"},
    # Keys of files that are other fields in Python.
    "evaluator timeout_s=3": {"by_objects"},
    "evaluator config={'weight': 2}": {"by_file", "by_dicts", "by_answer", "by_log"},
    # A case without evaluators has the default judge.
    "evaluators: none": {"by_file", "by_dicts", "by_objects"},
}
"""The faults that some doors accept, with these doors, and why."""


@pytest.mark.parametrize("given", INPUTS, ids=lambda given: given.fault or "valid")
def test_every_door_gives_the_same_refusal_or_the_same_scores(given: DoorInput, tmp_path: Path) -> None:
    outcomes = outcomes_of(given, tmp_path)
    refused = {door for door, outcome in outcomes.items() if isinstance(outcome, Refused)}
    accepted = outcomes.keys() - refused
    if not given.fault:
        assert not refused, outcomes
    assert accepted in (set(), outcomes.keys(), ACCEPTED.get(given.fault)), outcomes
    if given.fault in ACCEPTED:
        assert accepted == ACCEPTED[given.fault], outcomes
    judged = [outcomes[door] for door in outcomes if door in accepted]
    assert all(outcome == judged[0] for outcome in judged), outcomes


def outcomes_of(given: DoorInput, folder: Path) -> dict[str, Outcome]:
    (folder / ".git").mkdir()
    for name in ("of-file", "of-case", "of-answer", "of-log"):
        (folder / name / ".agentv").mkdir(parents=True)
    # Rubric items of the case itself have no place in a log or a configuration.
    doors = DOORS[:3] if given.rubrics else DOORS
    return {door.__name__: outcome_of(door, given, folder) for door in doors}


def outcome_of(door: Callable[[DoorInput, Path], CaseResult], given: DoorInput, folder: Path) -> Outcome:
    with chdir(folder):
        try:
            row = door(copy.deepcopy(given), folder)
        except AgentvError as error:
            return Refused(str(error))
    return Judged(row.status, row.verdict, row.score, tuple(map(comparable, row.evaluator_results)))


def comparable(result: EvaluatorResult) -> EvaluatorResult:
    """Return a result without its requests and times.

    Results of criteria and weights are left out, since one evaluator may judge several criteria of a given answer.
    """
    return replace(
        result,
        duration_ms=None,
        evaluator_provider_request=None,
        judge_calls=(),
        results=(),
        weight=1.0,
        evaluator_results=tuple(map(comparable, result.evaluator_results)),
    )
