"""The settings of a project: `.agentv.yaml`, or `.agentv/config.yaml`, which AgentV also reads."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeVar, cast

from msgspec import Meta, Struct, defstruct, field

from agentv.loading.files.documents import Document
from agentv.loading.files.dotenv import load_env
from agentv.loading.files.kinds import CONFIG_FILES
from agentv.loading.files.path_guard import FileProblemError, find_matching, guard_for, is_pattern
from agentv.loading.files.places import HOME_FOLDER, find_repository_root, upward_in_project
from agentv.loading.models.file_model import Checked, FileModel, Names
from agentv.loading.models.gates import Gates
from agentv.loading.models.reader import Reader, open_yaml, raise_errors
from agentv.loading.models.targets_files import PriceModel
from agentv.loading.translation.translation import Translation
from agentv.templating.environment import fill_variables, variables_in
from agentv.types.bounds import Name, Workers
from agentv.types.cases import DEFAULT_GUIDELINE_PATTERNS
from agentv.types.errors import ConfigError, EvalFileError, NothingFoundError, nearest
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem
from agentv.types.run_options import project_options
from agentv.types.structs import repr_without

_IGNORED_KEYS = ("$schema", "required_version", "requiredVersion", "execution", "results", "projects", "dashboard")
_DROPPED_KEYS = {"hooks": "AgentV's `hooks` of a project do not run here; a workspace has `setup` and `teardown`"}


def translate_config(document: Document, names: Names) -> Translation | None:
    """Return the translation of a configuration of AgentV; None if it has no key that only AgentV has.

    `names` are the keys of our configuration. In a translated file an unknown key is only a warning.
    """
    # Not by an importer: a project's files are read before the plug-ins that importers are made from are known.
    raw = document.value
    if not isinstance(raw, Mapping) or raw.keys().isdisjoint((*_IGNORED_KEYS, *_DROPPED_KEYS)):
        return None
    translation = Translation(document)
    translation.ignore((), *_IGNORED_KEYS)
    translation.drop_any((), _DROPPED_KEYS)
    for key in [key for key in translation.entries(()) if names.of(key) is None]:
        near = nearest(key, names.spellings)
        hint = f"did you mean {near!r}?" if near else None
        translation.drop((key,), f"{key!r} is not a key of AgentV's configuration, and has no effect", hint)
    return translation


M = TypeVar("M", bound=FileModel)


def _check_pattern(pattern: str) -> str:
    from agentv.scoring.text.patterns import compile_pattern  # noqa: PLC0415 - slow to import, and few projects need it

    compile_pattern(pattern)
    return pattern


class ProjectKeys(FileModel, frozen=True, kw_only=True):
    """The keys of `.agentv.yaml`."""

    guideline_patterns: list[Name] | None = None
    gates: Gates | None = None
    plugins: list[Name] | None = None
    prices: dict[str, PriceModel] | None = None
    redact: list[Annotated[str, Checked(_check_pattern)]] | None = None
    public_env: list[Name] | None = None
    store: Name | None = None
    eval_patterns: list[Name] | None = None
    workers: Workers | None = None


ProjectModel = cast(
    type[ProjectKeys],
    defstruct(
        "ProjectModel",
        [
            (each.name, Annotated[each.type | None, Meta(description=each.description)], None)
            for each in project_options()
        ],
        bases=(ProjectKeys,),
        namespace={"__doc__": ProjectKeys.__doc__},
        module=__name__,
        frozen=True,
        kw_only=True,
    ),
)
"""These keys, and the options of a run for which a project may have a default."""


class ProjectConfig(Struct, frozen=True):
    """The settings of `.agentv.yaml` files. Each key comes from the nearest file upward that has it."""

    guideline_patterns: tuple[str, ...] = DEFAULT_GUIDELINE_PATTERNS
    gates: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    """Modules, and absolute paths of files."""
    prices: Mapping[str, JsonObject] = field(default_factory=dict)
    """Dollars per million tokens, by model globs."""
    redact: tuple[str, ...] = ()
    public_env: tuple[str, ...] = ()
    """Environment variables that hold no secrets."""
    store: str | None = None
    """The URL of the team database, in which `${{ NAME }}` is not yet filled in."""
    eval_patterns: tuple[str, ...] = ()
    """They select the eval files if a command is given no paths."""
    workers: int | Literal["auto"] | None = None
    """The concurrent calls of a target without a number of its own."""
    options: Mapping[str, JsonValue] = field(default_factory=dict)
    """Options of a run, by their names in RunOptions."""
    sources: Mapping[str, Path] = field(default_factory=dict)
    """The file of each key that is set."""

    def __repr__(self) -> str:
        """Return the usual text without the store's URL, which may hold a password."""
        return repr_without(self, "store")


def config_files(folder: Path, repository_root: Path) -> tuple[Path, ...]:
    """Return the project files that apply to a folder, the nearest first."""
    places = upward_in_project(folder, repository_root)
    return tuple(place / name for place in places for name in CONFIG_FILES if (place / name).is_file())


def load_project(folder: Path, repository_root: Path) -> ProjectConfig:
    """Return the settings of the project files from `folder` up to the repository root. Raises EvalFileError."""
    config, problems = read_project(folder, repository_root)
    raise_errors(str(folder), problems)
    return config


def read_project(folder: Path, repository_root: Path) -> tuple[ProjectConfig, tuple[Problem, ...]]:
    """Return the readable part of the project files, and their problems."""
    values: dict[str, object] = {}
    sources: dict[str, Path] = {}
    problems: list[Problem] = []
    for path in config_files(folder, repository_root):
        model, found = _read_file(ProjectModel, path)
        problems += found
        given = model.given() if model else {}
        for key in given.keys() - values.keys():
            values[key] = _setting(key, given[key], path)
            sources[key] = path
    options = {each.name: values.pop(each.name) for each in project_options() if each.name in values}
    config = ProjectConfig(**values, options=options, sources=sources)  # type: ignore[arg-type] # checked by the model
    return config, tuple(problems)


def _setting(key: str, value: object, path: Path) -> object:
    if key == "plugins" and isinstance(value, list):
        folder = _project_folder(path)
        return tuple(str(folder / name) if name.endswith(".py") else name for name in value)
    return tuple(value) if isinstance(value, list) else value


def _read_file(model: type[M], path: Path) -> tuple[M | None, list[Problem]]:
    try:
        reader = open_yaml(path)
    except EvalFileError as error:
        return None, list(error.problems)
    translation = translate_config(reader.document, model.names()) if path.parent.name == HOME_FOLDER else None
    if translation is not None:
        reader = Reader(translation.document, (*reader.problems, *translation.problems()))
    return reader.read(model), reader.problems


def paths_to_read(paths: Sequence[str | Path], *, cwd: Path) -> Sequence[str | Path]:
    """Return the given paths; without any, the files that the project's `eval_patterns` match, if it has them.

    A pattern is relative to the folder of the project file, or to the folder that contains `.agentv`. A pattern that
    starts with `!` excludes files. Raises NothingFoundError if nothing matches, and ConfigError for an invalid pattern.
    """
    if paths:
        return paths
    project, _ = read_project(cwd, find_repository_root(cwd))  # its problems are reported when it is loaded
    if not project.eval_patterns:
        return paths
    source = project.sources["eval_patterns"]
    base = _project_folder(source)
    guard = guard_for(base, cwd=cwd)
    found: dict[Path, None] = {}
    for written in project.eval_patterns:
        for pattern in _alternatives(written.removeprefix("!")):
            try:
                matching = find_matching(pattern, base, guard) if is_pattern(pattern) else [base / pattern]
            except FileProblemError as error:
                raise ConfigError(f"{source}: eval_patterns: {error.message}; {error.allowed}") from None
            for path in filter(partial(_is_visible, base), matching):
                if written.startswith("!"):
                    found.pop(path, None)
                else:
                    found[path] = None
    if not found:
        raise NothingFoundError(f"no file matches the eval_patterns of {source}: {', '.join(project.eval_patterns)}")
    return [path.relative_to(cwd) if path.is_relative_to(cwd) else path for path in found]


def _project_folder(path: Path) -> Path:
    return path.parent.parent if path.parent.name == HOME_FOLDER else path.parent


def _is_visible(base: Path, path: Path) -> bool:
    """Return True for a file outside of dot-folders and `node_modules`."""
    folders = path.relative_to(base).parts[:-1] if path.is_relative_to(base) else ()
    return not any(name.startswith(".") or name == "node_modules" for name in folders)


def _alternatives(pattern: str) -> Iterator[str]:
    """Expand `{a,b}`: yield a pattern for each alternative."""
    before, brace, rest = pattern.partition("{")
    inner, closing, after = rest.partition("}")
    if not (brace and closing):
        yield pattern
        return
    for choice in inner.split(","):
        yield from _alternatives(f"{before}{choice}{after}")


STORE_VARIABLE = "AGENTV_STORE"
NO_STORE = "none"


def choose_store(option: str | None, cwd: Path, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the team database; None if there is none.

    The URL is `option`, else `AGENTV_STORE` (of the environment or `.env`), else `store:` of the nearest
    `.agentv.yaml`, with `${{ NAME }}` filled in. In each of them `none` means no store. Raises ConfigError for a
    variable that is not set, and EvalFileError for a broken file.
    """
    env = load_env(cwd, environ)
    found = option or env.get(STORE_VARIABLE)
    if not found:
        project = load_project(cwd, find_repository_root(cwd))
        found = project.store and _filled_url(project.store, env, project.sources["store"])
    return None if not found or found == NO_STORE else found


def _filled_url(text: str, env: Mapping[str, str], path: Path) -> str:
    missing = [name for name in variables_in(text) if not env.get(name)]
    if missing:
        raise ConfigError(
            f"{path}: `store` needs the environment variable {missing[0]}, which is not set; "
            "set it, or use --store none to store the run on this machine only"
        )
    return fill_variables(text, env)
