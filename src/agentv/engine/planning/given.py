"""Cases, targets, judges and evaluators given as Python objects instead of names in files."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.planning.given_evaluators import GivenEvaluator, GivenEvaluators
from agentv.engine.planning.given_targets import JudgeLike, NoSettings, TargetLike, named_judge, named_target
from agentv.engine.planning.inline_targets import target_named
from agentv.engine.planning.inputs import Inputs, SuiteInput, load_inputs, load_inputs_of
from agentv.engine.planning.options import RunOptions
from agentv.engine.planning.targets import KnownTargets
from agentv.loading.files.dotenv import load_env
from agentv.loading.files.places import find_eval_files
from agentv.providers import PROVIDERS
from agentv.providers.local.python import PythonProvider, PythonSettings
from agentv.registry import Spec, Specs, names_model
from agentv.types.cases import EvalCase, EvalSuite, ListedCases, listed
from agentv.types.errors import AgentvError, ConfigError
from agentv.types.protocols import ProviderTools
from agentv.types.provider import Provider
from agentv.types.targets import ResolvedTarget, TargetConfig

Source: TypeAlias = str | os.PathLike[str] | EvalSuite | Sequence[EvalCase | Mapping[str, Any]]
GIVEN_SUITE = "cases"
GIVEN_TASK = "given task"


class Given(Struct, frozen=True):
    """The arguments of a caller: `target` or `task` answers, `judge` judges, `evaluators` replace the suite's."""

    target: TargetLike | None = None
    task: object | None = None
    judge: JudgeLike | None = None
    evaluators: Sequence[GivenEvaluator] | None = None

    def __post_init__(self) -> None:
        """Raise ConfigError for contradictory arguments."""
        if self.target is not None and self.task is not None:
            raise ConfigError("give either target= or task=, not both")

    @property
    def is_in_files(self) -> bool:
        """True if another process finds the same in the files: at most the name of a target is given."""
        return isinstance(self.target, str | None) and (self.task, self.judge, self.evaluators) == (None, None, None)


def load_given(
    source: Source, given: Given, options: RunOptions, secrets: tuple[str, ...] = ()
) -> tuple[Inputs, RunOptions]:
    """Return the inputs of a run started from Python, and the options with its target selected."""
    cwd = Path.cwd()
    # No targets file is needed if the target is an object or a function, or if the source is not a path.
    own = given.target if not isinstance(given.target, str) or names_model(given.target, PROVIDERS) else None
    has_own_target = given.task is not None or own is not None
    if isinstance(source, str | os.PathLike):
        files = find_eval_files([os.fspath(source)], cwd=cwd)
        inputs = load_inputs(
            files,
            options,
            cwd=cwd,
            env=os.environ,
            needs_targets=not has_own_target,
            secrets=secrets,
            evaluators_given=given.evaluators is not None,
        )
    else:
        suite = source if isinstance(source, EvalSuite) else _suite_of(source)
        inputs = load_inputs_of(suite, options, cwd=cwd, env=os.environ, needs_targets=False, secrets=secrets)
    env = load_env(cwd, os.environ)
    target = named_target(given.target, "target", inputs.specs, env)
    if isinstance(target, str) and not any(target in item.known.configs for item in inputs.suites):
        target = target_named(target, inputs.specs, env) or target
    if given.task is not None:
        target = _task_target(given.task, inputs.specs)
    judge = named_judge(given.judge, "judge", inputs.specs, env)
    known = {id(item.known): _with_targets(item.known, target, judge) for item in inputs.suites}
    suites = tuple(
        SuiteInput(_with_evaluators(item.suite, given.evaluators, inputs.specs), known[id(item.known)])
        for item in inputs.suites
    )
    name = target.name if isinstance(target, TargetConfig) else target
    chosen = options if name is None else replace(options, targets=(name,))
    return replace(inputs, suites=suites), chosen


def as_case(given: object, at: str) -> EvalCase:
    """Return a case that may be given as a dict of the fields of EvalCase; `at` is its place in errors.

    Raises ConfigError.
    """
    if isinstance(given, EvalCase):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(f"{at} must be an EvalCase or a dict of its fields, not a {type(given).__name__}")
    try:
        return EvalCase(**given)
    except (TypeError, AgentvError) as error:
        raise ConfigError(f"{at}: {error}") from error


def _suite_of(given: Sequence[EvalCase | Mapping[str, Any]]) -> EvalSuite:
    if isinstance(given, Mapping) or not isinstance(given, Sequence):
        raise ConfigError(f"evaluate() takes a path, an EvalSuite or a list of EvalCases; got {type(given).__name__}")
    cases = [as_case(each, f"cases[{place}]") for place, each in enumerate(given)]
    twice = [name for name, count in Counter(case.id for case in cases).items() if count > 1]
    if twice:
        raise ConfigError(f"case ids must be unique; duplicates: {', '.join(twice)}")
    folder = str(Path.cwd())
    return EvalSuite(GIVEN_SUITE, listed(cases), dataset=GIVEN_SUITE, base_dir=folder, repository_root=folder)


def _task_target(task: object, specs: Specs) -> TargetConfig:
    """Return a target that calls a function; it exists in this process only."""

    def factory(target: ResolvedTarget, tools: ProviderTools) -> Provider:
        return PythonProvider(replace(target, settings=PythonSettings(cast(Callable[..., object], task))), tools)

    specs.providers.add(
        Spec(GIVEN_TASK, "a function given from Python", NoSettings, factory, can_judge=True, is_code=True)
    )
    return TargetConfig(_name_of(task), GIVEN_TASK)


def _name_of(task: object) -> str:
    name = getattr(task, "__name__", type(task).__name__)
    return "task" if name == "<lambda>" else name


def _with_targets(
    known: KnownTargets, target: TargetConfig | str | None, judge: TargetConfig | str | None
) -> KnownTargets:
    if judge is None and not isinstance(target, TargetConfig):
        return known
    added = {config.name: config for config in (target, judge) if isinstance(config, TargetConfig)}
    judge_name = (judge.name if isinstance(judge, TargetConfig) else judge) or known.judge
    return replace(known, configs={**known.configs, **added}, judge=judge_name, resolved={})


def _converted(case: EvalCase, given: GivenEvaluators) -> EvalCase:
    """Return a case whose evaluators, and those of its turns, are configs or objects."""
    where = f"case {case.id!r}"
    if case.evaluators:
        case = replace(case, evaluators=given.converted(case.evaluators, where))
    if not any(turn.evaluators for turn in case.turns):
        return case
    turns = [replace(turn, evaluators=given.converted(turn.evaluators, where)) for turn in case.turns]
    return replace(case, turns=tuple(turns))


def _with_evaluators(suite: EvalSuite, evaluators: Sequence[object] | None, specs: Specs) -> EvalSuite:
    """Return a suite with the evaluators given for it; dicts and functions, also of its cases, are converted."""
    given = GivenEvaluators(Path(suite.base_dir), specs)
    if isinstance(suite.cases, ListedCases):
        cases = tuple(_converted(case, given) if isinstance(case, EvalCase) else case for case in suite.cases.cases)
        suite = replace(suite, cases=ListedCases(cases))
    if evaluators is None:
        return suite
    if isinstance(evaluators, str | Mapping) or not isinstance(evaluators, Sequence):
        raise ConfigError(f"evaluators= takes a list; got {type(evaluators).__name__}")
    return replace(suite, evaluators=given.converted(evaluators, "evaluate()"), evaluator=None)
