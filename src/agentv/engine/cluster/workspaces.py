"""The sources of workspaces that nodes need: templates, and repositories of the driver's machine."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.planning.plan import RunPlan, SuitePlan
from agentv.engine.planning.workspaces import WantedWorkspace, wanted_workspace
from agentv.execution.folder_trees import remove_tree
from agentv.execution.workspaces.sources import MAIN_BRANCH, WITHOUT_GIT_VARIABLES
from agentv.scoring.keys.identity import digest
from agentv.types.cases import CASES_CHECKED_AHEAD, EvalCase
from agentv.types.errors import ConfigError
from agentv.types.failures import Failure
from agentv.types.provider import ProviderError
from agentv.types.workspaces import WorkspaceConfig, local_repository, written_path


def workspaces_of(suite: SuitePlan) -> dict[WantedWorkspace, None]:
    """Return the workspaces of a suite's cases, each once; of a stream those of the first 1,000 cases."""
    found: dict[WantedWorkspace, None] = {}
    has_inherited = False  # all cases without a workspace of their own inherit the same ones
    for case in islice(suite.selection, None if suite.selection.count is not None else CASES_CHECKED_AHEAD):
        if not isinstance(case, EvalCase) or (case.workspace is None and has_inherited):
            continue
        has_inherited = has_inherited or case.workspace is None
        wanted = (wanted_workspace(case, suite.suite, target) for target in suite.targets)
        found.update(dict.fromkeys(workspace for workspace in wanted if workspace is not None))
    return found


def templates_of(suite: SuitePlan) -> list[Path]:
    """Return the folders that the workspaces of a suite are copied from."""
    templates = ((wanted.config.template, wanted.base_dir) for wanted in workspaces_of(suite))
    return sorted(
        {Path(os.path.normpath(written_path(path, base_dir))) for path, base_dir in templates if path is not None}
    )


class Repository(Struct, frozen=True, order=True):
    """A repository of the driver's machine as a workspace names it."""

    base_dir: str
    git: str
    """A path or a file:// URL."""
    ref: str = "HEAD"

    @property
    def folder(self) -> Path:
        """The folder of the repository on this machine."""
        folder = local_repository(self.git, Path(self.base_dir))
        assert folder is not None  # noqa: S101 - by `repositories_of`
        return folder

    def name(self, folder: str) -> str:
        """Return the name for messages; its path is relative to `folder`."""
        is_relative = not self.git.startswith(("/", "~", "file:"))
        path = os.path.normpath(Path(os.path.relpath(self.base_dir, folder), self.git)) if is_relative else self.git
        return f"workspace repository {path} at {self.ref}"


def repositories_of(plan: RunPlan) -> list[Repository]:
    """Return the repositories of this machine that the workspaces of a run are cloned from."""
    found = {
        Repository(str(wanted.base_dir), git, ref or "HEAD")
        for suite in plan.suites
        for wanted in workspaces_of(suite)
        for git, ref in _git_sources(wanted.config)
        if local_repository(git, wanted.base_dir) is not None
    }
    return sorted(found)


def _git_sources(config: WorkspaceConfig) -> Iterator[tuple[str, str | None]]:
    if config.git is not None:
        yield config.git, config.ref
    yield from ((repo.git, repo.ref) for repo in config.repos)


class RepositoryState(Struct, frozen=True, order=True):
    """The state of a clone of a repository at a ref: the commit, the name of its branch, and a digest of all tags."""

    commit: str
    branch: str
    tags: str

    @property
    def digest(self) -> str:
        """A digest of all three."""
        return digest([self.commit, self.branch, self.tags])


Located = tuple[Path, str]
"""The folder of a repository on this machine, and the ref or commit in it."""


def located_here(repository: Repository) -> Located:
    """Return the folder of a repository on this machine, and its ref."""
    return repository.folder.resolve(), repository.ref


def read_states(
    repositories: Iterable[Repository], locate: Callable[[Repository], Located] = located_here
) -> dict[Repository, RepositoryState]:
    """Return the states of repositories. Raises ConfigError for one that cannot be cloned, or has no such ref."""
    found: dict[Repository, RepositoryState] = {}
    located = sorted((*locate(repository), repository) for repository in repositories)
    for folder, in_folder in groupby(located, key=itemgetter(0)):
        branch, tags = _read_clone(folder)
        for _, ref, repository in in_folder:
            found[repository] = RepositoryState(_commit(folder, ref), branch, tags)
    return found


def _read_clone(folder: Path) -> tuple[str, str]:
    """Return the branch that a clone of a repository has, and a digest of its tags."""
    with _temporary() as place:
        # If HEAD is detached, only git itself knows which branch the clone gets.
        _git(
            ["clone", "--quiet", "--shared", "--no-checkout", "--", str(folder), str(place / "clone")],
            repository=folder,
        )
        branch = _git(["-C", str(place / "clone"), "branch", "--show-current"], repository=folder)
    tags = _git(
        ["-C", str(folder), "for-each-ref", "--format=%(objectname) %(refname)", "refs/tags"], repository=folder
    )
    return branch or MAIN_BRANCH, digest(tags)


def _commit(folder: Path, ref: str) -> str:
    command = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    return _git(["-C", str(folder), *command], repository=folder, reason=f"it has no commit called {ref!r}")


class RepositoryCopy(Struct, frozen=True):
    """The copy of a repository for nodes: the name of its folder, and the commit of the ref."""

    folder: str
    commit: str


@contextmanager
def copied_repositories(plan: RunPlan) -> Iterator[tuple[Path, Mapping[Repository, RepositoryCopy]]]:
    """Copy the repositories of this machine that a run needs into a folder, for the time of the block.

    A copy is a bare repository with the history of the commits that workspaces are cloned at, and the tags, because a
    clone has them. Other branches, settings and uncommitted changes are left out. Raises ConfigError.
    """
    states = read_states(repositories_of(plan))
    located = sorted((repository.folder.resolve(), repository) for repository in states)
    copies: dict[Repository, RepositoryCopy] = {}
    with _temporary() as place:
        for number, (folder, group) in enumerate(groupby(located, key=itemgetter(0))):
            repositories = [repository for _, repository in group]
            _fetch(folder, place / str(number), [states[repository] for repository in repositories])
            for repository in repositories:
                copies[repository] = RepositoryCopy(str(number), states[repository].commit)
        yield place, copies


def _fetch(source: Path, target: Path, states: Sequence[RepositoryState]) -> None:
    """Copy the history of commits, and the tags, from a repository into a new bare one."""
    object_format = _git(["-C", str(source), "rev-parse", "--show-object-format"], repository=source)
    head = f"refs/heads/{states[0].branch}"
    command = ("init", "--quiet", "--bare", "--template=", f"--object-format={object_format}", str(target))
    _git(command, repository=source)
    _git(["-C", str(target), "symbolic-ref", "HEAD", head], repository=source)
    # Protocol 2 fetches any commit; the limit keeps the objects in one pack.
    settings = ("-c", "protocol.version=2", "-c", "fetch.unpackLimit=1", "-c", "gc.auto=0")
    commits = (f"{commit}:refs/agentv/{commit}" for commit in sorted({state.commit for state in states}))
    wanted = (f"{states[0].commit}:{head}", *commits, "refs/tags/*:refs/tags/*")
    fetch = ("fetch", "--quiet", "--no-tags", "--update-shallow", "--", str(source), *wanted)
    _git([*settings, "-C", str(target), *fetch], repository=source)


def _git(arguments: Sequence[str], *, repository: Path, reason: str = "") -> str:
    """Return what git prints, without the last line break.

    Raises ConfigError that names `repository`, with `reason` if git prints none.
    """
    command = [*WITHOUT_GIT_VARIABLES, "GIT_TERMINAL_PROMPT=0", "git", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603 - git
    if done.returncode != 0:
        raise ConfigError(f"workspace: the repository {repository} cannot be cloned: {done.stderr.strip() or reason}")
    return done.stdout.rstrip("\n")


@contextmanager
def _temporary() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="agentv-repositories-")).resolve()
    try:
        yield place
    finally:
        remove_tree(place)


class PlacedWorkspaces:
    """The workspaces of a run on a node that has a copy of the project.

    `repositories` has for each repository that was sent, as the node's workspaces name it, its copy in `folder`.
    """

    def __init__(self, repositories: Mapping[Repository, RepositoryCopy], folder: Path) -> None:
        self._folder = folder
        self._repositories = repositories
        self._known: set[WantedWorkspace] = set()

    def add_known(self, plan: RunPlan) -> None:
        """Record the workspaces of a plan; their sources were sent and compared."""
        self._known.update(wanted for suite in plan.suites for wanted in workspaces_of(suite))

    def locate(self, repository: Repository) -> Located:
        """Return the folder of a repository's copy, and the commit. Raises ConfigError if it was not sent."""
        found = self._repositories.get(repository)
        if found is None:
            raise ConfigError(f"workspace: the repository {repository.git} was not sent to the node")
        return self._folder / found.folder, found.commit

    def place(self, wanted: WantedWorkspace) -> WantedWorkspace:
        """Return a workspace that is cloned from the copies. Raises ProviderError if a source was not sent."""
        config, base_dir = wanted.config, str(wanted.base_dir)
        if wanted not in self._known:
            sources = [source for source in (config.template, *(git for git, _ in _git_sources(config))) if source]
            message = (
                f"workspace: {', '.join(sources)} was not sent to the node; only the workspaces of the first "
                f"{CASES_CHECKED_AHEAD:,} cases of a stream are sent: use --shared-path DIR or --backend local"
            )
            raise ProviderError(Failure("config_error", message))
        git, ref = self._placed(base_dir, config.git, config.ref)
        repos = []
        for repo in config.repos:
            repo_git, repo_ref = self._placed(base_dir, repo.git, repo.ref)
            repos.append(replace(repo, git=repo_git or repo.git, ref=repo_ref))
        return WantedWorkspace(replace(config, git=git, ref=ref, repos=tuple(repos)), wanted.base_dir)

    def _placed(self, base_dir: str, git: str | None, ref: str | None) -> tuple[str | None, str | None]:
        found = None if git is None else self._repositories.get(Repository(base_dir, git, ref or "HEAD"))
        return (git, ref) if found is None else (str(self._folder / found.folder), found.commit)
