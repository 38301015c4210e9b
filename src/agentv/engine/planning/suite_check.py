"""The checks of one suite that need no paid call, and the judges that its rows will call."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from operator import attrgetter
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.capture import Redactor
from agentv.engine.planning.judges import check_embedder, may_cost_money, may_pay_for_embeddings, named_runs, run_folder
from agentv.engine.planning.plan import SuitePlan
from agentv.engine.planning.workspaces import WantedWorkspace, wanted_workspace
from agentv.evaluators.isolation import config_of
from agentv.loading.models.judges import judge_targets, judges_itself, member_configs, needs_judge
from agentv.loading.models.settings import content_problems, missing_files, named_files, read_settings, wrong_settings
from agentv.loading.python_values import evaluator_problems, read_list
from agentv.registry import Specs
from agentv.scoring.results.applicable import all_evaluators, applicable_evaluators, tags_of
from agentv.scoring.results.turns import turn_names
from agentv.storage.run.find import find_run
from agentv.types.cases import CASES_CHECKED_AHEAD, EvalCase, EvalSuite, EvaluatorConfig, EvaluatorLike
from agentv.types.errors import AgentvError, EvalFileError
from agentv.types.evaluation import Evaluator
from agentv.types.targets import ResolvedTarget

_case_overrides = attrgetter(
    "workspace", "tags", "trials", "rubrics", "criteria", "evaluators", "evaluator", "grader", "turns"
)
"""The settings of a case that override its suite's. Of the cases without such settings, only the first is checked."""


class Findings(Struct):
    """The problems found, without duplicates, to be reported at once."""

    problems: dict[str, None] = field(default_factory=dict)

    def add(self, message: str) -> None:
        """Add a problem."""
        self.problems.setdefault(message)


class SuiteCheck(Struct):
    """The check of one suite. Names and numbers that gates may refer to are collected from its cases."""

    plan: SuitePlan
    specs: Specs
    findings: Findings
    """The problems of the suite are added to it."""
    overrides: Mapping[str, Evaluator]
    home: str = "."
    """The `.agentv` folder with the stored runs."""
    checks_sources: bool = True
    """True if the sources of workspaces are checked."""
    judges: dict[int, ResolvedTarget] = field(default_factory=dict)
    """The targets that the suite calls as judges, by id."""
    own_judges: dict[str, None] = field(default_factory=dict)
    """The names of the targets that judge their own answers because no judge is set."""
    evaluator_names: set[str] = field(default_factory=set)
    """Has the name of each turn's result, but not the names of the turn's evaluators."""
    tags: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    """The files that evaluators read or run."""
    paid: set[str] = field(default_factory=set)
    """The names of evaluators that may cost money."""
    most_trials: int = 1
    """The highest number of trials of a case."""
    is_complete: bool = False
    """False if names may be missing: of a line that cannot be read, or of the rest of a long stream."""

    def run(self) -> None:
        """Run all checks."""
        suite = self.plan.suite
        try:
            Redactor((), suite.redact)
        except AgentvError as error:
            self._add(str(error))
        seen: dict[int, EvaluatorLike] = {}  # holds the evaluators, so that their ids are not reused
        max_lines = None if self.plan.selection.count is not None else CASES_CHECKED_AHEAD
        checked_lines, broken_lines, plain_case_seen = 0, 0, False
        for case in islice(self.plan.selection, max_lines):
            checked_lines += 1
            if not isinstance(case, EvalCase):
                broken_lines += 1
                continue
            if case.skip is not None:
                self._add_names(case)
                continue
            if not any(_case_overrides(case)):
                if plain_case_seen:
                    continue
                plain_case_seen = True
            self._check_workspaces(case)
            if not self._has_valid_lists(case):
                continue
            self._check_turns(case)
            self._add_names(case)
            for evaluator in all_evaluators(case, suite):
                if id(evaluator) not in seen:
                    seen[id(evaluator)] = evaluator
                    self._check_evaluator(evaluator)
        self.is_complete = max_lines is None or (checked_lines < max_lines and not broken_lines)

    def _add_names(self, case: EvalCase) -> None:
        """Collect the names of a case that gates may use, and its number of trials."""
        self.tags.update(tags_of(case, self.plan.suite))
        self.most_trials = max(self.most_trials, self.plan.trials(case))
        self.evaluator_names.update(result_names(case, self.plan.suite))

    def _add(self, message: str) -> None:
        self.findings.add(f"{self.plan.suite.path}: {message}")

    def _has_valid_lists(self, case: EvalCase) -> bool:
        """Return False for a case from Python with faulty lists, which are added; those of a file are checked there."""
        if case.location is not None:
            return True
        where, suite = f"case {case.id!r}", self.plan.suite
        try:
            read_list("rubrics", case.rubrics, where=where)
            read_list("criteria", case.criteria, where=where)
        except EvalFileError as error:
            for problem in error.problems:
                self.findings.add(problem.render())
            return False
        # The evaluators of the suite are named without a case, so that they are reported once.
        place = "" if case.evaluators is None else f"{where}: "
        configs = [each for each in case.evaluators or suite.evaluators or () if isinstance(each, EvaluatorConfig)]
        for name, count in Counter(each.name for each in configs).items():
            if count > 1:
                self._add(f"{place}{count} evaluators are named {name!r}; evaluator names must be unique")
        criteria = dict.fromkeys(each.name for each in (*case.criteria, *suite.criteria))
        turns = [each for turn in case.turns for each in turn.evaluators if isinstance(each, EvaluatorConfig)]
        for each in (*configs, *turns):
            if each.criterion is not None and each.criterion not in criteria:
                known = ", ".join(criteria) or "none"
                self._add(f"{place}evaluator {each.name!r}: no criterion {each.criterion!r}; known: {known}")
        return True

    def _check_turns(self, case: EvalCase) -> None:
        if not case.turns:
            return
        evaluators, _ = applicable_evaluators(case, self.plan.suite)
        for name in turn_names(case):
            if any(config_of(each).name == name for each in evaluators):
                self._add(f"case {case.id!r}: an evaluator is named {name!r}, like the result of a turn; rename it")
        for target in self.plan.targets:
            if target.provider_batching:
                self._add(
                    f"case {case.id!r}: target {target.name!r} uses batches, which cannot hold a conversation; "
                    "disable batching for cases with `turns`"
                )

    def _check_workspaces(self, case: EvalCase) -> None:
        for target in self.plan.targets:
            try:
                wanted = wanted_workspace(case, self.plan.suite, target)
            except ValueError as error:
                self._add(f"workspace: {error}")
                continue
            if wanted is None:
                continue
            works_in_folder = self.specs.providers.get(target.provider).works_in_folder
            if not works_in_folder and not self.plan.suite.dialect:  # in imported files, graders use the folder
                self._add(
                    f"workspace: target {target.name!r} ({target.provider}) does not work in a folder; "
                    "remove `workspace`"
                )
            elif target.provider_batching:
                self._add(
                    f"workspace: target {target.name!r} uses batches, which have no folder for each case; "
                    "disable batching or remove `workspace`"
                )
            elif self.checks_sources:
                self._check_source(wanted)

    def _check_source(self, wanted: WantedWorkspace) -> None:
        from agentv.execution.workspaces.sources import missing_source  # noqa: PLC0415 - 30 ms that few suites need

        missing = missing_source(wanted.config, wanted.base_dir)
        if missing is not None:
            self._add(missing)

    def _check_evaluator(self, evaluator: EvaluatorLike) -> None:
        config = config_of(evaluator)
        problems = tuple(evaluator_problems(config))
        for problem in problems:
            self.findings.add(replace(problem, path=f"{self.plan.suite.path}: evaluator {config.name!r}").render())
        if problems:
            return
        if not isinstance(evaluator, EvaluatorConfig):
            if not isinstance(evaluator, Evaluator):
                self._add(f"{type(evaluator).__name__} is not an evaluator: it needs `kind` and `evaluate(context)`")
        elif config.type not in self.overrides:
            self._check_settings(config)

    def _check_settings(self, config: EvaluatorConfig) -> None:
        try:
            settings = read_settings(self.specs.evaluators.get(config.type), config.settings, where=config.name)
            for name in judge_targets(settings):
                self._add_judge(self.plan.known.get(name))
            if self.plan.options.only != "free" or not may_pay_for_embeddings(settings, self.plan.known):
                check_embedder(settings, self.plan.known)
            for run in named_runs(settings):
                run_folder(run, config.base_dir, lambda named: str(find_run(Path(self.home), named)))
        except AgentvError as error:
            self._add(f"evaluator {config.name!r}: {error}")
            return
        if may_cost_money(self.specs.evaluators.get(config.type), settings, self.plan.known):
            self.paid.add(config.name)
        self.files.update(named_files(settings, config.base_dir))
        for missing in missing_files(settings, config.base_dir):
            self._add(f"evaluator {config.name!r}: there is no file {missing}")
        for path, message in wrong_settings(settings, config.base_dir):
            self._add(f"evaluator {config.name!r}: {'.'.join(path)}: {message}")
        for problem in content_problems(settings, config.base_dir):
            self.findings.add(problem.render())
        for member in member_configs(settings):
            self._check_evaluator(member)
        if self.plan.options.only != "free" and needs_judge(settings):
            for target in self.plan.targets:
                self._check_own_judge(target, config.name)

    def _check_own_judge(self, target: ResolvedTarget, evaluator: str) -> None:
        place = target.path or self.plan.suite.path
        if target.judge:
            try:
                self._add_judge(self.plan.known.get(target.judge))
            except AgentvError as error:
                is_suite_judge = self.plan.suite.judge is not None
                role = f"{self.plan.suite.path}: judge" if is_suite_judge else f"{place}: judge of {target.name!r}"
                self.findings.add(f"{role}: {error}")
            return
        provider = self.specs.providers.get(target.provider)
        if judges_itself(provider, has_judge=False):
            self.own_judges[target.name] = None
        elif not provider.can_judge:
            self.findings.add(
                f"{place}: evaluator {evaluator!r} needs a judge, and target {target.name!r} ({target.provider}) "
                "cannot judge; name one with `judge:` in the target or the eval file"
            )

    def _add_judge(self, target: ResolvedTarget) -> None:
        self.judges[id(target)] = target


def result_names(case: EvalCase, suite: EvalSuite) -> Iterator[str]:
    """Yield the names of a case's results: those of its evaluators and of its turns."""
    evaluators, _ = applicable_evaluators(case, suite)
    yield from (config_of(each).name for each in evaluators)
    yield from turn_names(case)
