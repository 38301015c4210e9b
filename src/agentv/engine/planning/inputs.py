"""The inputs of a run, read before it is planned: suites, targets, plug-ins and gates."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.planning.targets import KnownTargets
from agentv.engine.plugins.loading import load_specs, load_specs_without
from agentv.loading.files.dotenv import load_env
from agentv.loading.files.places import find_repository_root, find_targets_file, targets_searched
from agentv.loading.models.reader import raise_errors
from agentv.loading.project import STORE_VARIABLE, load_project
from agentv.loading.suites.folders import SuiteFolders
from agentv.loading.suites.suites import load_suite, suite_names
from agentv.loading.targets.targets import ParsedTargets, read_targets
from agentv.registry import Specs, model_spelling, names_model
from agentv.telemetry.sending.collector import header_secrets
from agentv.templating.secrets import secret_values
from agentv.templating.store_url import store_secrets
from agentv.types.cases import CaseSource, EvalSuite, targets_of
from agentv.types.errors import ConfigError, EvalFileError, TargetError, UnknownNameError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem
from agentv.types.run_options import RunOptions, flag_of, parse_variables


class SuiteInput(Struct, frozen=True):
    """A suite with the targets it may name."""

    suite: EvalSuite
    known: KnownTargets
    all_cases: CaseSource | None = None
    """The cases of its file if `suite` has only some of them, chosen by the tests of a pytest session."""


class Inputs(Struct, frozen=True):
    """The inputs of a run: suites with their targets, every plug-in they may name, the project's gates."""

    suites: tuple[SuiteInput, ...]
    specs: Specs
    gates: tuple[str, ...] = ()
    not_imported: tuple[str, ...] = ()
    """The project's plug-ins, if they were not imported."""

    skipped: tuple[str, ...] = ()
    """A line for each file that looks like an eval file and is not read, if the run was started from Python."""


class TargetsLoader(Struct):
    """Finds the targets of a folder of eval files; folders that share a targets file share its targets."""

    options: RunOptions
    specs: Specs
    cwd: Path
    env: Mapping[str, str]
    needs_targets: bool = True
    """False for callers that supply the target: a missing targets file is then not an error."""
    secrets: tuple[str, ...] = ()
    """Redacted in the responses of targets; so is the password of the team database, if a variable contains it."""
    loaded: dict[tuple[Path | None, frozenset[tuple[str, str]]], KnownTargets] = field(default_factory=dict)
    loaded_of: dict[Path, tuple[Path | None, KnownTargets]] = field(default_factory=dict)
    """The targets file and the targets of each folder, which may have thousands of eval files."""

    def load_targets(self, folder: Path, names: Sequence[str | None] = (None,)) -> KnownTargets:
        """Return a folder's targets, with the variables of its nearest `.env`. Raises TargetError, EvalFileError.

        No targets file is needed if all `names` of the targets to use are models, written `provider:model`.
        """
        if folder not in self.loaded_of:
            self.loaded_of[folder] = self._load(folder)
        path, known = self.loaded_of[folder]
        are_models = all(name is not None and names_model(name, self.specs.providers) for name in names)
        if path is None and self.needs_targets and not are_models:
            searched = targets_searched(folder, find_repository_root(folder), self.cwd)
            spelled = (model_spelling(name, self.specs.providers) for name in names if name is not None)
            near = next(filter(None, spelled), None)
            hint = f". Did you mean {near!r}, which needs no file?" if near else ""
            raise TargetError(f"there is no targets file; {searched}. Write one, or name one with --targets-file{hint}")
        return known

    def _load(self, folder: Path) -> tuple[Path | None, KnownTargets]:
        override = self.cwd / self.options.targets_file if self.options.targets_file else None
        root = find_repository_root(folder)
        path = find_targets_file(folder, root, self.cwd, override)
        env = load_env(folder, self.env)
        key = path, frozenset(env.items())
        if key not in self.loaded:
            parsed = ParsedTargets((), ()) if path is None else read_targets(path, self.specs, env=env)
            raise_errors(str(path), parsed.general_problems())
            public = load_project(folder, root).public_env
            # A program may print any variable that it inherits from this process.
            inherited = {*secret_values(env, public=public, exists=_is_path), *header_secrets(env)}
            secrets = (*self.secrets, *store_secrets(env.get(STORE_VARIABLE, "")), *sorted(inherited))
            known = KnownTargets({}, env, self.specs, self.options, secrets=secrets, public_env=public, parsed=parsed)
            self.loaded[key] = known.with_targets(parsed.targets)
        return path, self.loaded[key]


def _is_path(value: str) -> bool:
    try:
        return "/" in value and Path(value).exists()
    except (OSError, ValueError):
        return False


def load_inputs(
    files: Sequence[Path],
    options: RunOptions,
    *,
    cwd: Path,
    env: Mapping[str, str],
    needs_targets: bool = True,
    secrets: tuple[str, ...] = (),
    plugins_imported: bool = True,
    evaluators_given: bool = False,
    guideline_patterns: Mapping[str, Sequence[str]] | None = None,
) -> Inputs:
    """Read eval files that `find_eval_files` found, with their targets, plug-ins and gates.

    With `evaluators_given` the caller replaces the suites' evaluators. `guideline_patterns`, by the paths of suites,
    replace those of the project. Without `plugins_imported` no code of the
    project is imported. Raises EvalFileError with the problems of all files at once. If there are none, raises the
    first TargetError, such as that of a missing targets file.
    """
    plugins, gates = _project_parts(file.parent for file in files)
    specs = load_specs(plugins) if plugins_imported else load_specs_without(plugins)
    targets_loader = TargetsLoader(
        options=options, specs=specs, cwd=cwd, env=env, needs_targets=needs_targets, secrets=secrets
    )
    variables = parse_variables(options.variables)
    folders = SuiteFolders(options.allow_paths)
    suites: list[SuiteInput] = []
    problems: dict[Problem, None] = {}  # suites that share a targets file share its problems
    target_errors: list[TargetError] = []
    for file, name in zip(files, suite_names(files, cwd=cwd), strict=True):
        try:
            suite = load_suite(
                file,
                specs=specs,
                allow_paths=options.allow_paths,
                variables=variables,
                plugins_imported=plugins_imported,
                evaluators_given=evaluators_given,
                guideline_patterns=guideline_patterns.get(name) if guideline_patterns else None,
                content=_content_of_rows(file, options, specs),
                folders=folders,
                name=name,
            )
        except EvalFileError as error:
            problems.update(dict.fromkeys(error.problems))
            problems.update(dict.fromkeys(_targets_problems(targets_loader, file.parent)))
            continue
        try:
            suites.append(_with_known_targets(suite, file.parent, targets_loader))
        except EvalFileError as error:
            problems.update(dict.fromkeys(error.problems))
        except TargetError as error:
            target_errors.append(error)
    if problems:
        raise EvalFileError(str(files), tuple(problems))
    if target_errors:
        raise target_errors[0]
    check_given_variables(variables, [each.suite for each in suites])
    return Inputs(tuple(suites), specs, gates, () if plugins_imported else plugins)


def _content_of_rows(file: Path, options: RunOptions, specs: Specs) -> bytes | None:
    """Return the eval file that a file of rows is with the evaluators of the options; None without these options."""
    if not options.row_evaluators:
        return None
    from agentv.loading.suites.short_evaluators import content_of_rows, is_rows_file  # noqa: PLC0415 - few runs need it

    flag = flag_of("row_evaluators")
    if not is_rows_file(file):
        raise ConfigError(f"{file.name}: {flag} is for files of rows, such as CSV; an eval file names its evaluators")
    return content_of_rows(file, options.row_evaluators, specs)


def with_prices(suites: Iterable[SuiteInput], prices: Mapping[str, JsonObject]) -> tuple[SuiteInput, ...]:
    """Return suites with the project's prices replaced."""
    return tuple(replace(item, suite=replace(item.suite, prices=prices)) for item in suites)


def _targets_problems(targets_loader: TargetsLoader, folder: Path) -> tuple[Problem, ...]:
    """Return the problems in a folder's targets file; a missing file is not reported."""
    try:
        targets_loader.load_targets(folder)
    except EvalFileError as error:
        return error.problems
    except TargetError:
        return ()
    return ()


def check_given_variables(given: Collection[str], suites: Sequence[EvalSuite]) -> None:
    """Raise UnknownNameError for a given variable that no eval file declares or uses."""
    known = {name for suite in suites for name in suite.variables}
    for name in given if suites else ():
        if name not in known:
            raise UnknownNameError("variable", name, known=known)


def load_inputs_of(
    suite: EvalSuite,
    options: RunOptions,
    *,
    cwd: Path,
    env: Mapping[str, str],
    needs_targets: bool,
    secrets: tuple[str, ...] = (),
) -> Inputs:
    """Return the inputs for a suite given as an object, with the targets, plug-ins and gates found from its folder."""
    folder = Path(suite.base_dir)
    specs, gates = load_project_parts([folder])
    targets_loader = TargetsLoader(
        options=options, specs=specs, cwd=cwd, env=env, needs_targets=needs_targets, secrets=secrets
    )
    return Inputs((_with_known_targets(suite, folder, targets_loader),), specs, gates)


def _with_known_targets(suite: EvalSuite, folder: Path, targets_loader: TargetsLoader) -> SuiteInput:
    """Return a suite with the targets of its folder and its own. Raises TargetError, EvalFileError."""
    inline = {config.name for config in suite.inline_targets}
    chosen: Sequence[str | None] = targets_loader.options.targets or targets_of(suite)
    known = targets_loader.load_targets(folder, [name for name in chosen if name not in inline])
    return SuiteInput(suite, known.with_inline(suite.inline_targets).judged_by(suite.judge))


def load_project_parts(folders: Iterable[Path]) -> tuple[Specs, tuple[str, ...]]:
    """Import the plug-ins that the `.agentv.yaml` files of `folders` name; return all plug-ins and the files' gates."""
    plugins, gates = _project_parts(folders)
    return load_specs(plugins), gates


def _project_parts(folders: Iterable[Path]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    plugins: dict[str, None] = {}
    gates: dict[str, None] = {}
    for folder in dict.fromkeys(folders):
        project = load_project(folder, find_repository_root(folder))
        plugins.update(dict.fromkeys(project.plugins))
        gates.update(dict.fromkeys(project.gates))
    return tuple(plugins), tuple(gates)


def project_options(folders: Iterable[Path], given: Collection[str]) -> dict[str, JsonValue]:
    """Return the options of a run that the `.agentv.yaml` files of `folders` set, without those in `given`.

    Raises ConfigError if two files set an option to different values.
    """
    values: dict[str, JsonValue] = {}
    sources: dict[str, Path] = {}
    for folder in dict.fromkeys(folders):
        project = load_project(folder, find_repository_root(folder))
        for name in project.options.keys() - set(given):
            value, source = project.options[name], project.sources[name]
            if values.setdefault(name, value) != value:
                raise ConfigError(
                    f"{sources[name]} sets `{name}` to {values[name]!r}, but {source} to {value!r}; a run has one "
                    f"value: give it with {flag_of(name)}, or as {name}= in Python"
                )
            sources.setdefault(name, source)
    return values


def unchecked_plugin_warnings(inputs: Inputs) -> Iterator[str]:
    """Yield a warning for each evaluator and provider whose plug-in was not imported."""
    where = ", ".join(inputs.not_imported)
    for registry in (inputs.specs.evaluators, inputs.specs.providers):
        for name in registry.stand_in_names:
            yield (
                f"{registry.kind} {name!r}: its settings are not checked and its cost is unknown, because the plug-ins "
                f"are not imported ({where})"
            )
