"""The files of a project, packed by the driver for nodes that do not share a disk with it, and unpacked there."""

import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path

from msgspec.structs import replace

from agentv.engine.cluster.tasks import Packed, files_of, moved_path, scripts_of
from agentv.engine.cluster.workspaces import PlacedWorkspaces, fetched, templates_of
from agentv.engine.planning.plan import RunPlan
from agentv.execution.workspaces.folder_trees import remove_tree
from agentv.loading.files.places import HOME_FOLDER, find_repository_root
from agentv.types.errors import ConfigError

MOST_BYTES = 200_000_000
"""The most bytes of all files together that are sent to each node."""

REPOSITORIES = "repositories"
"""The folder in `.agentv` of a copy that has the repositories of workspaces, from which their clones borrow objects."""

_NEVER = frozenset({".git", ".hg", "__pycache__", ".venv", "node_modules"})
_HOME_PARTS_LEFT = frozenset({"runs", "cache", "workspaces", "git", "logs"})
"""What a `.agentv` folder holds besides settings: results and caches."""


def is_packed(plan: RunPlan) -> bool:
    """Return True if the nodes get a copy of the project: they are other machines, and share no folder that has it.

    Raises ConfigError for a shared path without the project.
    """
    shared = plan.options.shared_path
    if shared is None:
        address = plan.options.ray_address or os.environ.get("RAY_ADDRESS", "local")
        return address != "local"
    root = project_root(plan)
    if not root.is_relative_to(Path(shared).resolve()):
        raise ConfigError(f"the project {root} is not under --shared-path {shared}")
    return False


def project_root(plan: RunPlan) -> Path:
    """Return the folder that is sent: the git repository of the folder in which the run was started, else this one."""
    return find_repository_root(Path(plan.folder or "."))


def check_packable(plan: RunPlan) -> None:
    """Raise ConfigError if a file of the run is outside of the project, or if the project is too large."""
    root = project_root(plan)
    for path in _named_files(plan, None):
        if not path.resolve().is_relative_to(root):
            raise ConfigError(
                f"{path} is outside of the project {root}, which is sent to the nodes; move it there, or put the "
                "project on a disk that all machines share and name the folder: --shared-path DIR"
            )
    with fetched(plan) as (copies, repositories):
        size = sum(map(_size, chain(_files(plan, root), copies.rglob("*"))))
    if size > MOST_BYTES:
        what = " with the repositories of its workspaces" if repositories else ""
        raise ConfigError(
            f"the project {root}{what} has {size / 1e6:,.0f} MB, and at most {MOST_BYTES / 1e6:,.0f} MB are sent to "
            "the nodes; let .gitignore name what they do not need, or put the project on a disk that all machines "
            "share and name the folder: --shared-path DIR"
        )


def pack(plan: RunPlan, *, run_id: str | None = None) -> Packed:
    """Return the files of a project, but no `.env`, no results, and nothing that git ignores, unless the run names it.

    `run_id` is that of the run.
    """
    root = project_root(plan)
    home = os.path.relpath(Path(plan.home).resolve(), root)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar, fetched(plan) as (copies, repositories):
        for path in _files(plan, root, run_id):
            tar.add(path, arcname=path.relative_to(root).as_posix(), recursive=False)
        tar.add(copies, arcname=f"{home}/{REPOSITORIES}")
    has_git = (root / ".git").exists()
    return Packed(data.getvalue(), str(root), home, has_git=has_git, repositories=repositories)


def unpack(packed: Packed) -> Path:
    """Make a folder with the files of a project, and return it."""
    place = Path(tempfile.mkdtemp(prefix="agentv-project-")).resolve()
    with tarfile.open(fileobj=io.BytesIO(packed.tar)) as tar:
        tar.extractall(place, filter="tar")
    if packed.has_git:  # the name of an eval file is its path in the repository
        (place / ".git").mkdir()
    _keep_caches(place / packed.home)
    return place


def not_sent(plan: RunPlan) -> list[str]:
    """Return the files and folders that nodes do not get because git ignores them, relative to the project."""
    root = project_root(plan)
    sent = {path.relative_to(root) for path in _files(plan, root)}
    ignored = (path.relative_to(root) for path in _git_listed(root, "--others", "--ignored", "--directory"))
    return [
        path.as_posix()
        for path in ignored
        if _is_sent(path.parts) and HOME_FOLDER not in path.parts and path not in sent
    ]


def placed_workspaces(packed: Packed, place: Path) -> PlacedWorkspaces:
    """Return the workspaces of a copy of a project, which is in the folder `place`."""
    moved = {
        replace(repository, base_dir=moved_path(repository.base_dir, packed.root, str(place))): copy
        for repository, copy in packed.repositories.items()
    }
    return PlacedWorkspaces(moved, place / packed.home / REPOSITORIES)


def _keep_caches(home: Path) -> None:
    """Let the caches of a copy be those of the node's user, which later runs find again."""
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentv"
    home.mkdir(parents=True, exist_ok=True)
    for name in ("cache", "git"):
        (kept / name).mkdir(parents=True, exist_ok=True)
        (home / name).symlink_to(kept / name)


def discard(place: Path, packed: Packed) -> None:
    """Remove a copy of a project, but for workspaces that were kept in it, and the repositories that they belong to."""
    home = place / packed.home
    kept = (home / "workspaces", home / REPOSITORIES)
    if not kept[0].exists():
        remove_tree(place)
        return
    for folder in kept[0].relative_to(place).parents:
        for each in (place / folder).iterdir():
            if each.is_symlink() or each.is_file():
                each.unlink()
            elif not any(path.is_relative_to(each) for path in kept):
                remove_tree(each)


def _named_files(plan: RunPlan, run_id: str | None) -> Iterator[Path]:
    """Yield the files and folders that the files of a run name."""
    yield from (Path(suite.suite.base_dir) for suite in plan.suites)
    yield from chain.from_iterable(map(templates_of, plan.suites))
    yield from files_of(plan, run_id=run_id)


def _files(plan: RunPlan, root: Path, run_id: str | None = None) -> list[Path]:
    """Return the files to send: templates whole, what the run names, and of the rest what git does not ignore."""
    found = {path for path in _listed(root) if _is_sent(path.relative_to(root).parts)}
    found.update(path for path in _named_files(plan, run_id) if not path.is_dir())
    found.update(path for path in scripts_of(plan) if path.resolve().is_relative_to(root))
    for template in chain.from_iterable(map(templates_of, plan.suites)):
        found.update(Path(folder, name) for folder, folders, names in os.walk(template) for name in (*names, *folders))
    real = {path.parent.resolve() / path.name for path in found}
    return sorted(path for path in real if path.is_symlink() or path.is_file() or _is_empty(path))


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _is_sent(parts: tuple[str, ...]) -> bool:
    return not _NEVER.intersection(parts) and not _is_left(parts)


def _is_left(parts: tuple[str, ...]) -> bool:
    """Return True for files with variables, and for the results and caches of a `.agentv` folder."""
    if parts[-1] == ".env" or parts[-1].startswith(".env."):
        return True
    within = (name for folder, name in pairwise(parts) if folder == HOME_FOLDER)
    return any(name in _HOME_PARTS_LEFT or name.startswith("index.db") for name in within)


def _listed(root: Path) -> Iterable[Path]:
    """Return the files of a project; in a git repository those that git does not ignore."""
    return _git_listed(root, "--cached", "--others") or _walked(root)


def _git_listed(root: Path, *options: str) -> list[Path]:
    """Return what git lists of a project; nothing if it is not a repository."""
    if not (root / ".git").exists():
        return []
    command = ["git", "-C", str(root), "ls-files", "-z", "--exclude-standard", *options]
    listed = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - git, by its name
    return [root / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]


def _walked(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = set(folders) - _NEVER  # which are not entered
        yield from (Path(folder, name) for name in names)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
