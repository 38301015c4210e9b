"""Cases, targets, judges and evaluators given as Python objects instead of names in files."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.planning.given_rows import (
    GIVEN_SUITE,
    GivenCases,
    are_rows,
    is_table_file,
    items_of,
    rows_in_memory,
    suite_of_rows,
    uses_variables,
)
from agentv.engine.planning.inputs import (
    Inputs,
    SuiteInput,
    load_inputs,
    load_inputs_of,
    load_project_parts,
    project_options,
)
from agentv.engine.planning.targets import KnownTargets, described_target, inline_target
from agentv.engine.plugins.plugins import as_evaluator
from agentv.loading.criteria.run_configs import find_named_definitions, read_given_entries
from agentv.loading.files.dotenv import load_env
from agentv.loading.files.places import find_eval_files, skipped_lines
from agentv.loading.models.reader import raise_errors
from agentv.loading.suites.evaluators import EvaluatorScope
from agentv.providers import PROVIDERS
from agentv.providers.local.python import PythonProvider, PythonSettings
from agentv.registry import ProviderSpec, Specs, names_model
from agentv.types.aggregated_result import CriteriaEvaluator
from agentv.types.cases import EvalCase, EvalSuite, EvaluatorConfig, EvaluatorLike, ListedCases, listed_cases
from agentv.types.errors import AgentvError, ConfigError
from agentv.types.protocols import ProviderTools
from agentv.types.provider import Provider
from agentv.types.readers import read_list
from agentv.types.run_options import RunKeywords, RunOptions, make_options
from agentv.types.scales import EvaluationCriteria
from agentv.types.targets import ResolvedTarget, TargetConfig

GivenEvaluator: TypeAlias = Mapping[str, Any] | str | EvaluatorLike | CriteriaEvaluator | Callable[..., Any]
"""A config dict, the name of a profile in `.agentv/criteria.yaml`, a config, an evaluator object, or a function."""


class GivenEvaluators:
    """Converts evaluators given from Python. Profiles that they name are read once."""

    def __init__(self, folder: Path, specs: Specs) -> None:
        self._folder = folder
        self._specs = specs
        self._scope: EvaluatorScope | None = None

    def converted(self, given: Sequence[object], where: str) -> tuple[EvaluatorLike, ...]:
        """Return configs and evaluator objects. Raises EvalFileError with all problems of dicts and names."""
        read: Mapping[int, EvaluatorConfig] = {}
        if any(isinstance(item, Mapping | str) for item in given):
            entries = [dict(item) if isinstance(item, Mapping) else item for item in given]
            read, problems = read_given_entries(entries, self._known_names(), where=where)
            raise_errors(where, problems)
        return tuple(
            read[index] if index in read else cast(EvaluatorLike, as_evaluator(item, self._specs.evaluators))
            for index, item in enumerate(given)
        )

    def _known_names(self) -> EvaluatorScope:
        if self._scope is None:
            _, self._scope, problems = find_named_definitions(self._folder, self._specs)
            raise_errors(".agentv/criteria.yaml", problems)
        return self._scope


class OpenAIClient(Protocol):
    """A client of the package `openai`, sync or async."""

    @property
    def chat(self) -> Any:
        """The chat API."""


class AnthropicClient(Protocol):
    """A client of the package `anthropic`, sync or async."""

    @property
    def messages(self) -> Any:
        """The messages API."""


TargetLike: TypeAlias = str | TargetConfig | Provider | Mapping[str, Any]
"""A target's name, `provider:model`, a TargetConfig, a dict with `provider` and its settings, or a live provider."""

JudgeLike: TypeAlias = TargetLike | Callable[..., object] | OpenAIClient | AnthropicClient
"""A target, a function that gets the judge's request, or a client of OpenAI or Anthropic."""

GIVEN = "given"
"""The first word of the provider names of targets given as objects, such as `given judge`."""


class NoSettings(Struct, frozen=True):
    """The settings of a plug-in that was given as an object."""


def given_target(given: object, role: str, specs: Specs, env: Mapping[str, str]) -> TargetConfig | str | None:
    """Return a target (TargetLike) as a config or a name; a live provider is registered for its `role`.

    `role` is the keyword of the argument, such as "target" or "judge".
    """
    if given is None or isinstance(given, str | TargetConfig):
        return given
    if isinstance(given, Mapping):
        return inline_target(given, specs, env)
    if not isinstance(given, Provider):
        advice = "; give a function as task=" if callable(given) else ""
        raise ConfigError(
            f"{role}= takes a target's name, provider:model, a TargetConfig, a dict with `provider`, or a Provider; "
            f"got {type(given).__name__}{advice}"
        )
    return _register_provider(role, specs, lambda _target, _tools: given, is_code=getattr(given, "is_code", True))


def given_judge(given: object, role: str, specs: Specs, env: Mapping[str, str]) -> TargetConfig | str | None:
    """Return a judge (JudgeLike) as `given_target` does; it may also be a function, or a client of OpenAI or Anthropic.

    A client judges with the model in `{"client": client, "model": …}`, else with the vendor's default one.
    """
    if isinstance(given, Mapping) and "client" in given:
        unknown = given.keys() - {"client", "model"}
        if unknown:
            raise ConfigError(f"{role}= with a `client` may also have a `model`, but not {', '.join(sorted(unknown))}")
        return _client_judge(given["client"], given.get("model"), role, specs)
    if given is None or isinstance(given, str | TargetConfig | Mapping | Provider):
        return given_target(given, role, specs, env)
    if _is_vendor_client(given):
        return _client_judge(given, None, role, specs)
    if callable(given) and not isinstance(given, type):
        function = given

        def factory(target: ResolvedTarget, tools: ProviderTools) -> Provider:
            return PythonProvider(replace(target, settings=PythonSettings(function)), tools)

        return _register_provider(role, specs, factory, is_code=True)
    raise ConfigError(
        f"{role}= takes a target's name, provider:model, a TargetConfig, a dict with `provider`, a Provider, a "
        f"function, or a client of OpenAI or Anthropic; got {type(given).__name__}"
    )


def given_embedder(given: object, role: str, specs: Specs) -> TargetConfig:
    """Return an embedding model given as a function or an object, registered for its `role`. Raises ConfigError."""
    from agentv.providers.local.embedding_functions import (  # noqa: PLC0415 - few models are objects
        EmbeddingFunctionProvider,
        embed_texts,
    )

    embed = embed_texts(given)
    if embed is None:
        raise ConfigError(
            f"{type(given).__name__} is not an embedding model: give the name of a target, `provider:model`, a dict "
            "with `provider`, a function of a text, or an object with embed, embed_query, embed_documents or encode"
        )
    kind = f"{GIVEN} {role}"
    summary = f"the {role} given from Python"
    spec = ProviderSpec(
        kind,
        summary,
        NoSettings,
        lambda _target, _tools: EmbeddingFunctionProvider(embed),
        is_code=True,
        embeds=True,
        answers=False,
        cost="free",
    )
    specs.providers.add(spec)
    return TargetConfig(role, kind)


def _is_vendor_client(given: object) -> bool:
    return type(given).__module__.partition(".")[0] in ("openai", "anthropic")


def _client_judge(client: object, model: object, role: str, specs: Specs) -> TargetConfig:
    from agentv.providers.local.vendor_clients import client_provider  # noqa: PLC0415 - few judges are clients

    if not isinstance(model, str | None):
        raise ConfigError(f"{role}=: `model` must be a string, not {model!r}")

    def default_model(provider: str) -> str:
        named = specs.providers.get(provider).named_model
        return "" if named is None else named.judge or ""

    provider = client_provider(client, model, default_model)
    if provider is None:
        raise ConfigError(f"{role}= takes clients of OpenAI and Anthropic; got {type(client).__name__}")
    judge = _register_provider(role, specs, lambda _target, _tools: provider, is_code=False, reports_cost=False)
    return replace(judge, settings={"max_retries": 0})  # the client retries by itself


def _register_provider(
    role: str,
    specs: Specs,
    factory: Callable[[ResolvedTarget, ProviderTools], Provider],
    *,
    is_code: bool,
    reports_cost: bool = True,
) -> TargetConfig:
    """Register a provider given as an object, and return a target that uses it."""
    kind = f"{GIVEN} {role}"
    summary = f"the {role} given from Python"
    spec = ProviderSpec(kind, summary, NoSettings, factory, can_judge=True, is_code=is_code, reports_cost=reports_cost)
    specs.providers.add(spec)
    return TargetConfig(role, kind)


Source: TypeAlias = str | os.PathLike[str] | EvalSuite | GivenCases
"""The cases to evaluate: a path of eval files or a table, a suite, cases, rows, or a data frame."""

GIVEN_TASK = "given task"


class GivenArguments(Struct, frozen=True):
    """The arguments of `evaluate`."""

    target: TargetLike | None = None
    """Answers the cases."""
    task: object | None = None
    """Answers the cases instead of `target`."""
    judge: JudgeLike | None = None
    """Judges the answers."""
    evaluators: Sequence[GivenEvaluator] | None = None
    """They replace those of the suite."""

    def __post_init__(self) -> None:
        """Raise ConfigError for contradictory arguments."""
        if self.target is not None and self.task is not None:
            raise ConfigError("give either target= or task=, not both")

    @property
    def is_resumable(self) -> bool:
        """True if `agentv resume` can read everything from files: at most the name of a target was given."""
        return isinstance(self.target, str | None) and (self.task, self.judge, self.evaluators) == (None, None, None)


def load_given(
    source: Source, given: GivenArguments, keywords: RunKeywords, secrets: tuple[str, ...] = ()
) -> tuple[Inputs, RunOptions]:
    """Return the inputs of a run started from Python, and its options with those of the project and its target."""
    make_options(keywords)  # a wrong one is reported before any file is read
    cwd = Path.cwd()
    # A target that is an object, a function or `provider:model` needs no targets file.
    is_name_in_file = isinstance(given.target, str) and not names_model(given.target, PROVIDERS)
    needs_targets_file = given.task is None and (given.target is None or is_name_in_file)
    evaluators = given.evaluators
    fills_table = is_table_file(source) and uses_variables(evaluators)
    if isinstance(source, str | os.PathLike) and not fills_table:
        paths = [os.fspath(source)]
        files = find_eval_files(paths, cwd=cwd)
        options = make_options(keywords, project_options((file.parent for file in files), keywords))
        inputs = load_inputs(
            files,
            options,
            cwd=cwd,
            env=os.environ,
            needs_targets=needs_targets_file,
            secrets=secrets,
            evaluators_given=given.evaluators is not None,
        )
        inputs = replace(inputs, skipped=skipped_lines(paths, cwd=cwd, found=files))
    else:
        suite, evaluators = _given_suite(source, evaluators, make_options(keywords))
        options = make_options(keywords, project_options([Path(suite.base_dir)], keywords))
        needs_targets = fills_table and needs_targets_file
        inputs = load_inputs_of(suite, options, cwd=cwd, env=os.environ, needs_targets=needs_targets, secrets=secrets)
    env = load_env(cwd, os.environ)
    target = given_target(given.target, "target", inputs.specs, env)
    if isinstance(target, str) and not any(target in item.known.configs for item in inputs.suites):
        target = described_target(target, inputs.specs, env) or target
    if given.task is not None:
        target = _task_target(given.task, inputs.specs)
    judge = given_judge(given.judge, "judge", inputs.specs, env)
    known = {id(item.known): _with_targets(item.known, target, judge, given) for item in inputs.suites}
    suites = tuple(
        SuiteInput(_with_evaluators(item.suite, evaluators, inputs.specs), known[id(item.known)])
        for item in inputs.suites
    )
    name = target.name if isinstance(target, TargetConfig) else target
    chosen = options if name is None else replace(options, targets=(name,))
    return replace(inputs, suites=suites), chosen


def as_case(given: object, place: str) -> EvalCase:
    """Return a case given as an EvalCase or as a dict of its fields. Raises ConfigError, which names the `place`."""
    if isinstance(given, EvalCase):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(f"{place} must be an EvalCase or a dict of its fields, not a {type(given).__name__}")
    try:
        return EvalCase(**given)
    except (TypeError, AgentvError) as error:
        raise ConfigError(f"{place}: {error}") from error


def _given_suite(
    source: Source, evaluators: Sequence[GivenEvaluator] | None, options: RunOptions
) -> tuple[EvalSuite, Sequence[GivenEvaluator] | None]:
    """Return the suite of cases or rows, and the evaluators that are still to replace those of the suite."""
    if isinstance(source, EvalSuite):
        return _with_criteria(source), evaluators
    items = None if isinstance(source, str | os.PathLike) else items_of(source)
    if items is not None and not are_rows(items):
        return _suite_of(items), evaluators
    rows = cast(str | os.PathLike[str], source) if items is None else rows_in_memory(items)
    _check_evaluators(evaluators)
    specs, _ = load_project_parts([Path.cwd()])
    suite = suite_of_rows(rows, evaluators, specs, options)
    return suite, None if uses_variables(evaluators) else evaluators


def _check_evaluators(evaluators: object) -> None:
    if evaluators is not None and (isinstance(evaluators, str | Mapping) or not isinstance(evaluators, Sequence)):
        raise ConfigError(f"evaluators= takes a list; got {type(evaluators).__name__}")


def _suite_of(given: Sequence[EvalCase | Mapping[str, Any]]) -> EvalSuite:
    cases = [as_case(each, f"cases[{index}]") for index, each in enumerate(given)]
    duplicates = [name for name, count in Counter(case.id for case in cases).items() if count > 1]
    if duplicates:
        raise ConfigError(f"case ids must be unique; duplicates: {', '.join(duplicates)}")
    folder = str(Path.cwd())
    return EvalSuite(GIVEN_SUITE, listed_cases(cases), dataset=GIVEN_SUITE, base_dir=folder, repository_root=folder)


def _with_criteria(suite: EvalSuite) -> EvalSuite:
    """Return a suite whose criteria are objects. Raises EvalFileError with all their problems."""
    if all(isinstance(each, EvaluationCriteria) for each in suite.criteria):
        return suite
    return replace(suite, criteria=read_list("criteria", suite.criteria, where=f"suite {suite.path!r}"))


def _task_target(task: object, specs: Specs) -> TargetConfig:
    """Return a target that calls a function; it exists in this process only."""

    def factory(target: ResolvedTarget, tools: ProviderTools) -> Provider:
        return PythonProvider(replace(target, settings=PythonSettings(cast(Callable[..., object], task))), tools)

    specs.providers.add(
        ProviderSpec(
            GIVEN_TASK,
            "a function given from Python",
            NoSettings,
            factory,
            can_judge=True,
            is_code=True,
            reports_cost=True,
        )
    )
    return TargetConfig(_name_of(task), GIVEN_TASK)


def _name_of(task: object) -> str:
    name = getattr(task, "__name__", type(task).__name__)
    return "task" if name == "<lambda>" else name


def _with_targets(
    known: KnownTargets, target: TargetConfig | str | None, judge: TargetConfig | str | None, given: GivenArguments
) -> KnownTargets:
    if isinstance(target, TargetConfig):
        known = known.with_targets([target])
    if isinstance(judge, TargetConfig):
        judge = beside_targets(judge, known.configs, given.judge)
        known = known.with_targets([judge])
        judge = judge.name
    return known.judged_by(judge)


def beside_targets(judge: TargetConfig, others: Mapping[str, TargetConfig], given: object) -> TargetConfig:
    """Return a judge with a name that no other target has, so that neither is called in place of the other.

    `given` is the judge as it was given. Raises ConfigError if it was given with the name of another target.
    """
    other = others.get(judge.name)
    if other is None or (other.provider, other.settings) == (judge.provider, judge.settings):
        return judge
    has_own_name = "name" in given if isinstance(given, Mapping) else given is judge
    if has_own_name:
        raise ConfigError(
            f"two targets with different settings have the name {judge.name!r}; give the judge another name"
        )
    return beside_targets(replace(judge, name=f"{judge.name} (judge)"), others, given)


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
    """Return a suite with `evaluators`, if given. They and the evaluators of its cases become configs or objects."""
    given = GivenEvaluators(Path(suite.base_dir), specs)
    if isinstance(suite.cases, ListedCases):
        cases = tuple(_converted(case, given) if isinstance(case, EvalCase) else case for case in suite.cases.cases)
        suite = replace(suite, cases=ListedCases(cases))
    if evaluators is None:
        return suite
    _check_evaluators(evaluators)
    return replace(suite, evaluators=given.converted(evaluators, "evaluate()"), evaluator=None)
