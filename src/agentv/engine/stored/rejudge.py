"""Repeated judging of the stored answers of a run: no target is called, and the run is not changed."""

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.calling.fingerprints import Fingerprints
from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.inputs import SuiteInput
from agentv.engine.planning.plan import AnswerToScore, CaseTask, RunPlan
from agentv.engine.running.case import CaseRunner
from agentv.engine.running.recorder import RunRecorder
from agentv.engine.stored.resume import ResumePlan, make_resume_plan
from agentv.evaluators.isolation import config_of
from agentv.registry import Specs
from agentv.scoring.judges.consistency import RepeatedJudgement, repeated_judgement
from agentv.scoring.keys.identity import keys_of, score_key
from agentv.scoring.results.applicable import applicable_evaluators, criteria_of, evaluators_of_turn
from agentv.scoring.results.turns import turn_name
from agentv.storage.run.stored import StoredRun
from agentv.types.cases import BrokenCase, CaseSource, CaseTurn, EvalCase, EvalSuite
from agentv.types.evaluation import EvaluatorResult
from agentv.types.protocols import Clock
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult


class RejudgePlan(ResumePlan):
    """A plan to judge stored answers several times each.

    Answers whose case or target was edited since are skipped.
    """

    chosen: frozenset[ResultKey] = frozenset()
    """The result keys of the answers to judge."""
    repeats: int = 1
    """How often each answer is judged. The trial of a resulting row is `trial * repeats + repeat`."""
    found: set[ResultKey] = field(default_factory=set)
    """Collects the chosen keys whose answer is judged."""

    def remaining_tasks(
        self, tasks: Iterator[CaseTask], runner: CaseRunner, recorder: RunRecorder
    ) -> Iterator[CaseTask | None]:
        """Yield each chosen task that has a usable stored answer `repeats` times."""
        for task in tasks:
            key = task.slot
            if recorder.stop.state == "interrupted":
                return
            if key not in self.chosen or isinstance(task.case, BrokenCase):
                continue
            rescoring = self._with_stored_answer(task, task.case, self.rows.find(key), runner)
            if rescoring is None or rescoring.stored is None:
                continue
            self.found.add(key)
            for repeat in range(self.repeats):
                trial = task.trial * self.repeats + repeat
                answer = replace(rescoring.stored.answer, slot=replace(key, trial=trial))
                yield replace(task, trial=trial, stored=AnswerToScore(answer))

    def finish(self, recorder: RunRecorder) -> None:
        """Do nothing: the stored run is not changed."""


def make_rejudge_plan(plan: RunPlan, run: StoredRun, chosen: Collection[ResultKey], *, repeats: int) -> RejudgePlan:
    """Return the plan to rejudge the chosen answers of a run. Raises StorageError if its rows cannot be read."""
    return RejudgePlan(
        make_resume_plan(plan, run, "rescore").rows, "rescore", chosen=frozenset(chosen), repeats=repeats
    )


class _CasesWithNamedEvaluators(Struct, frozen=True):
    """The cases of a suite with only some of their evaluators; a case that has none of these keeps all its own."""

    cases: CaseSource
    suite: EvalSuite
    names: frozenset[str]
    """The names of the evaluators; the name of a turn selects all its evaluators."""

    @property
    def count(self) -> int | None:
        return self.cases.count

    def __iter__(self) -> Iterator[EvalCase | BrokenCase]:
        for case in self.cases:
            yield case if isinstance(case, BrokenCase) else self._with_named(case)

    def _with_named(self, case: EvalCase) -> EvalCase:
        evaluators, _ = applicable_evaluators(case, self.suite)
        named = tuple(each for each in evaluators if config_of(each).name in self.names)
        turns = tuple(self._turn_with_named(turn, turn_name(number)) for number, turn in enumerate(case.turns, start=1))
        if not named and not any(turn.evaluators for turn in turns):
            return replace(case, evaluators=evaluators, evaluator=None, grader=None, rubrics=())
        return replace(case, evaluators=named, evaluator=None, grader=None, rubrics=(), turns=turns)

    def _turn_with_named(self, turn: CaseTurn, name: str) -> CaseTurn:
        if name in self.names:
            return replace(turn, evaluators=evaluators_of_turn(turn), rubrics=())
        named = tuple(each for each in evaluators_of_turn(turn) if config_of(each).name in self.names)
        if not named:
            return CaseTurn(turn.input)
        return replace(turn, evaluators=named, rubrics=())


def limit_evaluators(names: Collection[str]) -> Callable[[tuple[SuiteInput, ...], Specs], tuple[SuiteInput, ...]]:
    """Return a function that limits the evaluators of suites to those with these names."""

    def limited(suites: tuple[SuiteInput, ...], _specs: Specs) -> tuple[SuiteInput, ...]:
        wanted = frozenset(names)
        return tuple(
            replace(
                item, suite=replace(item.suite, cases=_CasesWithNamedEvaluators(item.suite.cases, item.suite, wanted))
            )
            for item in suites
        )

    return limited


def evaluators_with_judges(row: CaseResult) -> Iterator[tuple[str, int, float | None]]:
    """Yield each evaluator that called a judge: its name, its number of calls, and its cost (None if unknown)."""
    for result in row.evaluator_results:
        calls = _calls(result)
        if calls:
            yield result.name, calls, result.cost_usd


def _calls(result: EvaluatorResult) -> int:
    return sum(call.role != "embedding" for call in result.judge_calls) + sum(map(_calls, result.evaluator_results))


def results_by_evaluator(
    rows: Iterable[CaseResult], names: Collection[str], answer_lengths: Mapping[ResultKey, int], *, repeats: int
) -> dict[str, list[RepeatedJudgement]]:
    """Return the results of each evaluator in `names` for each answer, by evaluator, from the rows of a rejudge.

    `answer_lengths` are in characters. `repeats` is that of the RejudgePlan.
    """
    by_name: dict[str, dict[ResultKey, list[EvaluatorResult]]] = {name: {} for name in names}
    for row in rows:
        key = replace(row.slot, trial=row.slot.trial // repeats)
        for result in row.evaluator_results:
            if result.name in by_name:
                by_name[result.name].setdefault(key, []).append(result)
    return {
        name: [repeated_judgement(key, answer_lengths[key], results) for key, results in by_key.items()]
        for name, by_key in by_name.items()
    }


class JudgeSetups(Struct, frozen=True):
    """The setups with which an evaluator judged rows of a stored run."""

    setups: tuple[str, ...]
    """The setups as digests, if the files still describe them."""
    unmatched_rows: int
    """The number of rows that were judged with a setup that the files no longer describe: a file was edited since, or
    the case or its evaluator was removed.
    """


def find_setups(plan: RunPlan, rows: Iterable[CaseResult], evaluator: str, *, clock: Clock) -> JudgeSetups:
    """Return the setups of an evaluator in `plan` that match the score keys of the rows."""
    remaining = {row.slot: row for row in rows}
    total, setups = len(remaining), set[str]()
    fingerprints = Fingerprints(_runtime(plan, clock))
    matched = 0
    for task in (task for target in plan.targets for task in plan.tasks(target)):
        row = remaining.pop(task.slot, None)
        setup = None if row is None else _setup_of(task, row, evaluator, fingerprints)
        if setup is not None:
            setups.add(setup)
            matched += 1
        if not remaining:
            break
    return JudgeSetups(tuple(sorted(setups)), total - matched)


def _runtime(plan: RunPlan, clock: Clock) -> Runtime:
    """Return a runtime that only reads settings; it opens nothing."""
    return Runtime(specs=plan.specs, clock=clock, rng=random.Random(0), home=plan.home)  # noqa: S311 - makes no calls


def _setup_of(task: CaseTask, row: CaseResult, evaluator: str, fingerprints: Fingerprints) -> str | None:
    """Return the digest of an evaluator's setup for a task.

    Return None if the row was judged with another setup, or if the case cannot be read or has no such evaluator.
    """
    case = task.case
    if not isinstance(case, EvalCase):
        return None
    evaluators, _ = applicable_evaluators(case, task.suite)
    expectation = keys_of(case, criteria_of(case, task.suite)).expectation
    for each in evaluators:
        if config_of(each).name == evaluator:
            setup = fingerprints.setup_digest(each, task)
            key = score_key(answer=row.answer_key, expectation=expectation, setup_digest=setup)
            return setup if row.score_keys.get(evaluator) == key else None
    return None
