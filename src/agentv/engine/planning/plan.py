"""What a run will do: which rows there are, who answers them, what must be reached."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from agentv.engine.planning.options import RunOptions
from agentv.engine.planning.selection import Selection
from agentv.engine.planning.targets import KnownTargets
from agentv.engine.running.provenance import GitState
from agentv.registry import Specs
from agentv.scoring.gates.run_verdict import ScopedGate
from agentv.scoring.keys.identity import target_key
from agentv.types.cases import BrokenCase, EvalCase, EvalSuite
from agentv.types.evaluation import Evaluator
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult
from agentv.types.targets import ResolvedTarget

if TYPE_CHECKING:
    from agentv.scoring.comparison.sides import Side


class Stored(Struct, frozen=True):
    """An answer that is kept already, to be judged, and the row that was made of it before, if there was one."""

    answer: Answer
    row: CaseResult | None = None


class CaseTask(Struct, frozen=True):
    """One row to be made: data only, so that it can be sent to another process.

    With `stored` the target is not asked: that answer is judged. `trials` is how often the case is repeated.
    """

    case: EvalCase | BrokenCase
    suite: EvalSuite
    target: ResolvedTarget
    known: KnownTargets
    trial: int = 0
    timeout_s: float | None = None
    only_free: bool = False
    generation: int = 0
    stored: Stored | None = None
    trials: int = 1


class SuitePlan(Struct, frozen=True, dict=True):
    """One suite with the targets that answer it. `trials` is what the command line asked for, else None."""

    selection: Selection
    targets: tuple[ResolvedTarget, ...]
    known: KnownTargets
    options: RunOptions

    @cached_property
    def suite(self) -> EvalSuite:
        """The suite."""
        return self.selection.suite

    @cached_property
    def timeout_s(self) -> float | None:
        """How long all tries of a row may take together."""
        return self.options.timeout_s or self.suite.timeout_s

    @cached_property
    def only_free(self) -> bool:
        """Whether only evaluators that cost nothing judge."""
        return self.options.only == "free"

    def trials(self, case: EvalCase | BrokenCase) -> int:
        """How often a case is repeated: `--trials` > the case's > the suite's. A broken line is told once."""
        if isinstance(case, BrokenCase):
            return 1
        return self.options.trials or case.trials or self.suite.trials

    @cached_property
    def rows(self) -> int | None:
        """How many rows the suite makes; None while a stream's length is unknown."""
        if self.selection.count is None:
            return None
        if self.suite.cases.count is None:  # a stream that was filtered: not read once more for its own trials
            return self.selection.count * (self.options.trials or self.suite.trials) * len(self.targets)
        return sum(self.trials(case) for case in self.selection) * len(self.targets)

    def tasks(self, target: ResolvedTarget, *, by_trial: bool) -> Iterator[CaseTask]:
        """Yield the rows of one target: all trials of a case together, or all cases of a trial when `by_trial`."""
        if not by_trial:
            for case in self.selection:
                trials = self.trials(case)
                for trial in range(trials):
                    yield self._task(case, target, trial, trials)
            return
        trial, left = 0, True
        while left:
            left = False
            for case in self.selection:
                trials = self.trials(case)
                if trial < trials:
                    yield self._task(case, target, trial, trials)
                left = left or trial + 1 < trials
            trial += 1

    def _task(self, case: EvalCase | BrokenCase, target: ResolvedTarget, trial: int, trials: int) -> CaseTask:
        return CaseTask(
            case=case,
            suite=self.suite,
            target=target,
            known=self.known,
            trial=trial,
            timeout_s=self.timeout_s,
            only_free=self.only_free,
            trials=trials,
        )


class RunPlan(Struct, frozen=True):
    """All of a run before it starts. `gates` None is the default gate; `home` is the `.agentv` folder.

    `paths` are the eval files as they were asked for, `folder` where from; None for a run that cannot be read again.
    `store` is how the run names the team's database that it is shared in, without a password.
    `baseline` holds the scores of the run that this one is held against. `git` waits for the state of the repository,
    if somebody looks at it already.
    """

    suites: tuple[SuitePlan, ...]
    specs: Specs
    options: RunOptions
    gates: tuple[ScopedGate, ...] | None
    home: str
    prices: Mapping[str, JsonObject] = field(default_factory=dict)
    overrides: Mapping[str, Evaluator] = field(default_factory=dict)
    judges: tuple[ResolvedTarget, ...] = ()
    warnings: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    folder: str | None = None
    store: str | None = None
    baseline: "Side | None" = None
    git: Callable[[], GitState] | None = None

    @property
    def targets(self) -> tuple[ResolvedTarget, ...]:
        """Every target once, in the order of first use."""
        return tuple({id(target): target for plan in self.suites for target in plan.targets}.values())

    @property
    def planned(self) -> int | None:
        """How many rows the run will make; None while a stream's length is unknown."""
        rows = [plan.rows for plan in self.suites]
        return None if None in rows else sum(count or 0 for count in rows)

    @property
    def cases(self) -> int | None:
        """How many cases take part; None while a stream's length is unknown."""
        counts = [plan.selection.count for plan in self.suites]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def trials(self) -> int:
        """How often each case is asked by each target; 1 where that differs."""
        most = max((suite.options.trials or suite.suite.trials for suite in self.suites), default=1)
        planned, cases = self.planned, self.cases
        is_even = planned is None or cases is None or planned == cases * len(self.targets) * most
        return most if is_even else 1

    def workers(self, target: ResolvedTarget, *, most: int | None = None) -> int:
        """How many rows of a target are worked on at once: `--workers` > the suites' > the target's > 1.

        `most` is how many a provider can do at once: never more, and as many when nobody says otherwise. A judge that
        says nothing may be asked by all rows at once.
        """
        if not _is_among(target, self.targets):
            return target.workers or sum(map(self.workers, self.targets))
        of_suites = [plan.suite.workers or 0 for plan in self.suites if _is_among(target, plan.targets)]
        asked = self.options.workers or max(of_suites, default=0) or target.workers or most or 1
        return asked if most is None else min(asked, most)

    def tasks(self, target: ResolvedTarget, *, by_trial: bool = False) -> Iterator[CaseTask]:
        """Yield a target's rows over all suites."""
        for plan in self.suites:
            if _is_among(target, plan.targets):
                yield from plan.tasks(target, by_trial=by_trial)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the plan as `run.json` keeps it; secrets are struck."""
        suites: list[JsonValue] = [
            {"path": plan.suite.path, "sha256": plan.suite.sha256, "cases": plan.selection.count}
            for plan in self.suites
        ]
        targets: list[JsonValue] = [
            {
                "name": target.name,
                "provider": target.provider,
                "key": target_key(target),
                "settings": dict(target.public_settings),
            }
            for target in self.targets
        ]
        # Beside the .agentv folder, so that a project that was moved, or checked out elsewhere, is found again.
        folder = None if self.folder is None else os.path.relpath(self.folder, Path(self.home).parent)
        read_from: dict[str, JsonValue] = {} if folder is None else {"paths": list(self.paths), "folder": folder}
        shared_in: dict[str, JsonValue] = {} if self.store is None else {"store": self.store}
        return {
            **read_from,
            **shared_in,
            "rows": self.planned,
            "suites": suites,
            "targets": targets,
            "options": self.options.to_json(),
            "seed": self.options.seed,
            **self._gates_to_json(),
        }

    def _gates_to_json(self) -> dict[str, JsonValue]:
        """Return the gates that were asked for; nothing for the default one."""
        if self.gates is None:
            return {}
        return {"gates": [{"expression": each.gate.expression, "suite": each.suite} for each in self.gates]}


def _is_among(target: ResolvedTarget, targets: tuple[ResolvedTarget, ...]) -> bool:
    return any(target is other for other in targets)
