"""The plan of a run: its rows, targets and gates."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from agentv.engine.planning.provenance import GitState
from agentv.engine.planning.selection import Selection
from agentv.engine.planning.targets import KnownTargets
from agentv.execution.auto_workers import MOST, START
from agentv.registry import Specs
from agentv.scoring.counting.matrix import PlanOrder
from agentv.scoring.gates.gates import CONFIRMED
from agentv.scoring.gates.run_verdict import ScopedGate
from agentv.scoring.keys.identity import NO_KEYS, CaseKeys, target_key
from agentv.scoring.results.by_criterion import FittedPlan
from agentv.types.cases import DEFAULT_GUIDELINE_PATTERNS, BrokenCase, CaseSource, EvalCase, EvalSuite
from agentv.types.evaluation import Evaluator
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.records.answer import Answer, Rerun, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.run_options import RunOptions
from agentv.types.targets import ResolvedTarget

if TYPE_CHECKING:
    from agentv.scoring.comparison.sides import Side


class AnswerToScore(Struct, frozen=True):
    """A stored answer to be scored by the evaluators of its case, and its earlier row, if there is one."""

    answer: Answer
    row: CaseResult | None = None


class AnswerWithInput(AnswerToScore, frozen=True, kw_only=True):
    """An answer that was given with its input, which is scored by the criteria of the input."""

    input: EvaluationInput
    fitted: FittedPlan
    """The evaluators that score it, fitted to its criteria."""
    keys: CaseKeys = NO_KEYS
    """The keys of its case, `NO_KEYS` if no run records it."""


class CaseTask(Struct, frozen=True, gc=False):
    """One row of the plan: data only, so that it can be sent to another process."""

    case: EvalCase | BrokenCase
    suite: EvalSuite
    target: ResolvedTarget
    known: KnownTargets
    """The targets that may be called besides `target`: judges and fallbacks."""
    trial: int = 0
    """Counted from 0."""
    timeout_s: float | None = None
    only_free: bool = False
    generation: int = 0
    """How often a resume, retry or rescore has made the row again."""
    rerun: Rerun | None = None
    """Set if the new row does not count."""
    stored: AnswerToScore | None = None
    """The stored answer to score; the target is then not called."""
    trials: int = 1
    """The number of trials of the case."""
    slot: ResultKey = ResultKey("", "", "")
    """The position in the plan, which follows from the other fields; an `AnswerWithInput` has its own."""

    def __post_init__(self) -> None:
        """Set `slot`."""
        if isinstance(self.stored, AnswerWithInput):
            force_setattr(self, "slot", self.stored.answer.slot)
            return
        case = self.case
        prompt = case.prompt if isinstance(case, EvalCase) else None
        slot = ResultKey(self.suite.path, case.id, self.target.name, trial=self.trial, prompt=prompt)
        force_setattr(self, "slot", slot)


OnCase: TypeAlias = Callable[[EvalCase | BrokenCase], None]


def _ignore(_case: EvalCase | BrokenCase) -> None:
    """Do nothing with a case."""


class RowCount(Struct):
    """The rows of suites of unknown length, counted while their cases are read: of this run, and of other shards."""

    own: int = 0
    of_other_shards: int = 0


class SuitePlan(Struct, frozen=True, dict=True):
    """One suite with its targets."""

    selection: Selection
    targets: tuple[ResolvedTarget, ...]
    known: KnownTargets
    options: RunOptions
    default_targets: frozenset[str] = frozenset()
    """The names of the targets that answer the cases without `targets`; if it is empty, all of them do."""
    all_cases: CaseSource | None = None
    """The cases of the whole file, if the suite has only some of them."""

    @cached_property
    def suite(self) -> EvalSuite:
        """The suite."""
        return self.selection.suite

    def timeout_s(self, case: EvalCase | BrokenCase) -> float | None:
        """Return the deadline of all attempts of a row together, in seconds: `--timeout`, the case's or the suite's."""
        own = case.timeout_s if isinstance(case, EvalCase) else None
        return self.options.timeout_s or own or self.suite.timeout_s

    @cached_property
    def only_free(self) -> bool:
        """True if evaluators that cost money are excluded."""
        return self.options.only == "free"

    def trials(self, case: EvalCase | BrokenCase) -> int:
        """Return the number of trials of a case: `--trials`, else the case's, else the suite's; 1 for a broken line."""
        if isinstance(case, EvalCase):
            return self.options.trials or case.trials or self.suite.trials
        return 1

    def trials_with(self, case: EvalCase | BrokenCase, target: ResolvedTarget) -> int:
        """Return the number of trials of a case with a target; 0 if the target does not answer it."""
        names: Collection[str] = self.default_targets
        if isinstance(case, EvalCase) and case.targets and not self.options.targets:
            names = case.targets
        return 0 if names and target.name not in names else self.trials(case)

    @cached_property
    def planned(self) -> int | None:
        """The number of rows of the suite; None while the length of a stream is unknown."""
        if self.selection.count is None:
            return None
        # The selected cases of a stream are known by their positions only; it is not read again for their trials.
        if self.suite.cases.count is None:
            return self.selection.count * (self.options.trials or self.suite.trials) * self.rows_per_trial
        return sum(
            self.trials_with(case, target) * (1 if isinstance(case, BrokenCase) else max(1, len(case.prompts)))
            for case in self.selection
            for target in self.targets
        )

    @property
    def planned_in_all_shards(self) -> int | None:
        """The number of rows of all shards of the suite together; None while the length of a stream is unknown."""
        whole = self.selection.of_all_shards
        return self.planned if whole is None else replace(self, selection=whole).planned

    @property
    def rows_per_trial(self) -> int:
        """The number of rows of each trial of a case: one for each prompt and target."""
        return len(self.targets) * self._prompt_count

    @property
    def _prompt_count(self) -> int:
        """The number of prompts that each case is sent with; 1 for a suite without prompts."""
        return max(1, len(self.suite.prompts))

    def _cases(self, prompt: str | None = None, *, on_other: OnCase = _ignore) -> Iterator[EvalCase | BrokenCase]:
        """Yield each case once for each prompt, or only with `prompt`; a broken case is yielded once."""
        is_first_prompt = prompt in (None, *self.suite.prompts[:1])
        for case in self.selection.cases(on_other):
            if isinstance(case, EvalCase):
                for each in case.with_prompts() if case.prompts else (case,):
                    if prompt is None or prompt == each.prompt:
                        yield each
            elif is_first_prompt:
                yield case

    def tasks(self, target: ResolvedTarget, *, by_trial: bool, count: RowCount | None = None) -> Iterator[CaseTask]:
        """Yield the tasks of one target case by case, or, with `by_trial`, prompt by prompt and trial by trial.

        If the number of rows is not known before, they are added to `count`.
        """
        count = count if count is not None and self.planned is None else RowCount()

        def add_other(case: EvalCase | BrokenCase) -> None:
            prompts = self._prompt_count if isinstance(case, EvalCase) else 1
            count.of_other_shards += self.trials_with(case, target) * prompts

        if not by_trial:
            for case in self._cases(on_other=add_other):
                trials = self.trials_with(case, target)
                count.own += trials
                for trial in range(trials):
                    yield self._task(case, target, trial, trials)
            return
        on_other: OnCase = add_other  # only in the first of several passes over the cases
        for prompt in self.suite.prompts or (None,):
            trial, has_more = 0, True
            while has_more:
                has_more = False
                for case in self._cases(prompt, on_other=on_other):
                    trials = self.trials_with(case, target)
                    if trial < trials:
                        count.own += 1
                        yield self._task(case, target, trial, trials)
                    has_more = has_more or trial + 1 < trials
                on_other = _ignore
                trial += 1

    def _task(self, case: EvalCase | BrokenCase, target: ResolvedTarget, trial: int, trials: int) -> CaseTask:
        return CaseTask(
            case=case,
            suite=self.suite,
            target=target,
            known=self.known,
            trial=trial,
            timeout_s=self.timeout_s(case),
            only_free=self.only_free,
            trials=trials,
        )


class RunPlan(Struct, frozen=True):
    """A run before it starts."""

    suites: tuple[SuitePlan, ...]
    specs: Specs
    options: RunOptions
    gates: tuple[ScopedGate, ...] | None
    """None means the default gate."""
    home: str
    """The `.agentv` folder."""
    prices: Mapping[str, JsonObject] = field(default_factory=dict)
    overrides: Mapping[str, Evaluator] = field(default_factory=dict)
    """Evaluators that are objects of the caller, by type name."""
    judges: tuple[ResolvedTarget, ...] = ()
    warnings: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """The eval files as the user named them, relative to `folder`."""
    folder: str | None = None
    """None if the eval files are not known."""
    store: str | None = None
    """The URL, without a password, of the team database that the run is shared in."""
    quota: str | None = None
    """The URL, without a password, of the shared quota."""
    baseline: "Side | None" = None
    """The scores of the run to compare with."""
    baseline_folder: str | None = None
    """The folder of the run to compare with; None for a file of scores."""
    git: Callable[[], GitState] | None = None
    """Returns the state of the repository, if it is being read in the background."""
    file_gates: tuple[ScopedGate, ...] | None = None
    """The gates of the files for all cases together, also where `--gate` replaces them; None means the default gate."""
    replaced_gates: str | None = None
    """A clause that names the gates of the files that `--gate` replaces; None if it replaces none."""
    evaluator_files: tuple[str, ...] = ()
    """The files that evaluators read or run."""
    mixed: tuple[str, ...] = ()
    """The differences between the shards that the run was merged from."""
    source: str | None = None
    """The program that made the run, if it was not the command line or `evaluate`: `pytest`."""
    environment: tuple[str, ...] = ()
    """The environment variables that set options of the run, as `NAME=value`, secrets redacted."""
    default_workers: int = 1
    """Concurrent rows of a target without a setting; more where stored answers are judged and no target is called."""

    @property
    def confirms_regressions(self) -> bool:
        """True if a gate asks for confirmed regressions, so that suspected ones are called again."""
        return any(scoped.gate.name == CONFIRMED and scoped.not_evaluated is None for scoped in self.gates or ())

    @property
    def targets(self) -> tuple[ResolvedTarget, ...]:
        """Every target once, in the order of first use."""
        return tuple({id(target): target for plan in self.suites for target in plan.targets}.values())

    @property
    def non_judge_targets(self) -> tuple[ResolvedTarget, ...]:
        """The targets that are not judges."""
        return tuple(target for target in self.targets if not any(target is judge for judge in self.judges))

    @property
    def has_several_rows_per_trial(self) -> bool:
        """True if a trial of a case may have several rows: of several targets or prompts."""
        return len(self.targets) > 1 or any(plan.suite.prompts for plan in self.suites)

    @property
    def order(self) -> PlanOrder:
        """The order of targets and prompts in reports."""
        prompts = dict.fromkeys(prompt for plan in self.suites for prompt in plan.suite.prompts)
        return PlanOrder(tuple(target.name for target in self.targets), tuple(prompts))

    @property
    def planned(self) -> int | None:
        """The number of rows of the run; None while the length of a stream is unknown."""
        rows = [plan.planned for plan in self.suites]
        return None if None in rows else sum(count or 0 for count in rows)

    def planned_rows(self, count: RowCount) -> tuple[int, int]:
        """Return the number of rows of the run, and of all its shards together, given a complete `count`."""
        own = sum(plan.planned or 0 for plan in self.suites) + count.own
        in_all_shards = sum(plan.planned_in_all_shards or 0 for plan in self.suites) + count.own + count.of_other_shards
        return own, in_all_shards

    @property
    def case_count(self) -> int | None:
        """The number of selected cases; None while the length of a stream is unknown."""
        counts = [plan.selection.count for plan in self.suites]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def prompts(self) -> tuple[str, ...]:
        """The prompts that each case is sent with; empty without prompts, or if suites have different ones."""
        of_suites = {plan.suite.prompts for plan in self.suites}
        return of_suites.pop() if len(of_suites) == 1 else ()

    @property
    def trials(self) -> int:
        """The number of trials that `--trials` or the suites set; 1 if any case has another number.

        While the length of a stream is unknown, all cases are assumed to have that number.
        """
        most = max((suite.options.trials or suite.suite.trials for suite in self.suites), default=1)
        planned, cases = self.planned, self.case_count
        if planned is None or cases is None:
            return most
        is_uniform = planned == cases * len(self.targets) * max(1, len(self.prompts)) * most
        return most if is_uniform else 1

    def folders_of(self, target: ResolvedTarget) -> tuple[str, ...]:
        """Return the folders of the eval files that use a target; for a target that only judges, of all eval files."""
        using = [plan for plan in self.suites if _is_among(target, plan.targets)]
        return tuple(dict.fromkeys(plan.suite.base_dir for plan in using or self.suites))

    def workers(self, target: ResolvedTarget, *, most: int | None = None) -> int:
        """Return the largest number of concurrent rows of a target: as configured, else `most`.

        Without either it is `default_workers`. `most` is the maximum of the provider. A judge without a setting
        may be called by all rows concurrently. `auto` has no use where stored answers are judged, and nodes of a
        cluster each begin with its first number and stay there.
        """
        if not _is_among(target, self.targets):
            own = target.workers if isinstance(target.workers, int) else None
            return own or sum(map(self.workers, self.targets))
        workers = self.configured_workers(target) or most or self.default_workers
        if workers == AUTO:
            first = self.default_workers if self.default_workers > 1 else START
            workers = MOST if self.adapts_workers(target) else first
        return workers if most is None else min(workers, most)

    def adapts_workers(self, target: ResolvedTarget) -> bool:
        """Return True if the number of concurrent rows of a target follows what its server accepts."""
        is_auto = self.configured_workers(target) == AUTO
        return is_auto and self.options.backend == "local" and self.default_workers == 1

    def configured_workers(self, target: ResolvedTarget) -> int | Literal["auto"] | None:
        """Return the concurrent rows that are set for a target.

        That is `--workers`, else its suites' maximum, else its own number, else that of the suites' projects.
        """
        suites = [plan.suite for plan in self.suites if _is_among(target, plan.targets)]
        of_suites = _most_workers(suite.workers for suite in suites)
        of_projects = _most_workers(suite.project_workers for suite in suites)
        return self.options.workers or of_suites or target.workers or of_projects

    def tasks(
        self, target: ResolvedTarget, *, by_trial: bool = False, count: RowCount | None = None
    ) -> Iterator[CaseTask]:
        """Yield a target's rows over all suites; rows of streams are added to `count`."""
        for plan in self.suites:
            if _is_among(target, plan.targets):
                yield from plan.tasks(target, by_trial=by_trial, count=count)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the plan as stored in `run.json`, with secrets redacted."""
        suites: list[JsonValue] = [
            {
                "path": plan.suite.path,
                "sha256": plan.suite.sha256,
                "cases": plan.selection.count,
                "pass_score": plan.suite.pass_score,
                **({"prompts": list(plan.suite.prompts)} if plan.suite.prompts else {}),
                **({"about": plan.suite.about} if plan.suite.about else {}),
                **_guideline_patterns_to_json(plan.suite),
            }
            for plan in self.suites
        ]
        targets, judges = ([_target_to_json(target) for target in found] for found in (self.targets, self.judges))
        # Relative to the parent of the .agentv folder, so that a project can be moved.
        folder = None if self.folder is None else os.path.relpath(self.folder, Path(self.home).parent)
        source: dict[str, JsonValue] = {} if folder is None else {"paths": list(self.paths), "folder": folder}
        urls: dict[str, JsonValue] = {} if self.store is None else {"store": self.store}
        if self.quota is not None:
            urls["quota"] = self.quota
        return {
            **source,
            **({} if self.source is None else {"source": self.source}),
            **urls,
            "rows": self.planned,
            "suites": suites,
            "targets": targets,
            "judges": judges,
            "options": self.options.to_json(),
            **({"environment": list(self.environment)} if self.environment else {}),
            "prices": dict(self.prices),
            "seed": self.options.seed,
            **({} if self.gates is None else {"gates": gates_to_json(self.gates)}),
            "file_gates": None if self.file_gates is None else gates_to_json(self.file_gates),
            **({} if self.replaced_gates is None else {"replaced_gates": self.replaced_gates}),
        }


AUTO: Final = "auto"


def _most_workers(given: Iterable[int | Literal["auto"] | None]) -> int | Literal["auto"] | None:
    """Return the largest number of workers, `auto` before all numbers; None if none is given."""
    known = [each for each in given if each is not None]
    return AUTO if AUTO in known else max((each for each in known if isinstance(each, int)), default=None)


def _guideline_patterns_to_json(suite: EvalSuite) -> dict[str, JsonValue]:
    """Return the guideline patterns of a suite, unless they are the default ones."""
    patterns = suite.guideline_patterns
    return {} if patterns == DEFAULT_GUIDELINE_PATTERNS else {"guideline_patterns": list(patterns)}


def gates_to_json(gates: Iterable[ScopedGate]) -> list[JsonValue]:
    """Return gates as stored in `run.json`."""
    return [each.to_json() for each in gates]


def _target_to_json(target: ResolvedTarget) -> JsonValue:
    settings: JsonObject = dict(target.public_settings)
    return {"name": target.name, "provider": target.provider, "key": target_key(target), "settings": settings}


def _is_among(target: ResolvedTarget, targets: tuple[ResolvedTarget, ...]) -> bool:
    return any(target is other for other in targets)
