"""The files of a project, packed by the driver for nodes that do not share a disk with it, and unpacked there."""

import io
import os
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path

from msgspec.structs import replace

from agentv.engine.cluster.tasks import Packed, moved_path, plan_files, scripts_of
from agentv.engine.cluster.workspaces import PlacedWorkspaces, copied_repositories, templates_of
from agentv.engine.planning.plan import RunPlan
from agentv.execution.processes.left_behind import KEPT_FILE, temporary_folder
from agentv.execution.processes.tree import WATCHER
from agentv.loading.files.places import HOME_FOLDER, find_repository_root
from agentv.types.errors import ConfigError

MAX_BYTES = 200_000_000
"""The maximum total size, in bytes, of the files that are sent to each node."""

REPOSITORIES = "repositories"
"""The folder of repositories in the `.agentv` of a copied project; clones in workspaces share the git objects here."""

WORKSPACES = "workspaces"
"""The folder of saved workspaces in a `.agentv`."""

_UNSENT_FOLDERS = frozenset({".git", ".hg", "__pycache__", ".venv", "node_modules"})
_UNSENT_HOME_PARTS = frozenset({"runs", "cache", WORKSPACES, "git", "logs"})
"""The parts of a `.agentv` folder with results and caches."""


def is_packed(plan: RunPlan) -> bool:
    """Return True if the nodes get a copy of the project: they are other machines, and share no folder that holds it.

    Raises ConfigError if the project is outside of the shared path.
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
    """Return the folder that is sent: the git repository around the run's working folder, else the working folder."""
    return find_repository_root(Path(plan.folder or "."))


def check_packable(plan: RunPlan) -> None:
    """Raise ConfigError if a file of the run is outside of the project, or if the project is too large."""
    root = project_root(plan)
    for path in _required_files(plan, None):
        if not path.resolve().is_relative_to(root):
            raise ConfigError(
                f"{path} is outside of the project {root}, which is sent to the nodes; move it into the project, "
                "or put the project on a disk that all machines share and name its folder: --shared-path DIR"
            )
    with copied_repositories(plan) as (copies, repositories):
        size = sum(map(_size, chain(_files_to_send(plan, root), copies.rglob("*"))))
    if size > MAX_BYTES:
        extra = " with the repositories of its workspaces" if repositories else ""
        raise ConfigError(
            f"the project {root}{extra} has {size / 1e6:,.0f} MB, and at most {MAX_BYTES / 1e6:,.0f} MB are sent to "
            "the nodes; exclude files that they do not need in .gitignore, or put the project on a disk that all "
            "machines share and name its folder: --shared-path DIR"
        )


def pack(plan: RunPlan, *, run_id: str | None = None) -> Packed:
    """Pack the files of a project for the nodes.

    `.env` files, results, caches, and files that git ignores are left out unless the run names them. `run_id` is the
    run that the files are for: `latest` in the settings of a target or evaluator never means this run.
    """
    root = project_root(plan)
    home = os.path.relpath(Path(plan.home).resolve(), root)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar, copied_repositories(plan) as (copies, repositories):
        for path in _files_to_send(plan, root, run_id):
            tar.add(path, arcname=path.relative_to(root).as_posix(), recursive=False)
        tar.add(copies, arcname=f"{home}/{REPOSITORIES}")
    has_git = (root / ".git").exists()
    return Packed(data.getvalue(), str(root), home, has_git=has_git, repositories=repositories)


def unpack(packed: Packed) -> Path:
    """Unpack a project into a new temporary folder, and return the folder.

    `remove_temporary` removes it, except for saved workspaces and the repositories that they share. If this process is
    killed, its watcher does that.
    """
    WATCHER.start()
    folder = temporary_folder("project").resolve()
    with tarfile.open(fileobj=io.BytesIO(packed.tar)) as tar:
        tar.extractall(folder, filter="tar")
    if packed.has_git:  # marks the root: eval files are named by their path in the repository
        (folder / ".git").mkdir()
    _link_caches(folder / packed.home)
    kept = folder / KEPT_FILE
    kept.unlink(missing_ok=True)  # a file of the project, or a link
    kept.write_text(f"{packed.home}/{WORKSPACES}\n{packed.home}/{REPOSITORIES}\n", "utf-8")
    return folder


def unsent_files(plan: RunPlan) -> list[str]:
    """Return the files and folders that nodes do not get because git ignores them, relative to the project."""
    root = project_root(plan)
    sent = {path.relative_to(root) for path in _files_to_send(plan, root)}
    ignored = (path.relative_to(root) for path in _git_listed(root, "--others", "--ignored", "--directory"))
    return [
        path.as_posix()
        for path in ignored
        if _is_sent(path.parts) and HOME_FOLDER not in path.parts and path not in sent
    ]


def placed_workspaces(packed: Packed, folder: Path) -> PlacedWorkspaces:
    """Return the workspaces of a project whose copy is in `folder`."""
    moved = {
        replace(repository, base_dir=moved_path(repository.base_dir, packed.root, str(folder))): copy
        for repository, copy in packed.repositories.items()
    }
    return PlacedWorkspaces(moved, folder / packed.home / REPOSITORIES)


def _link_caches(home: Path) -> None:
    """Link the caches of a copy to those of the node's user, so that later runs use them too."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentv"
    home.mkdir(parents=True, exist_ok=True)
    for name in ("cache", "git"):
        (caches / name).mkdir(parents=True, exist_ok=True)
        (home / name).symlink_to(caches / name)


def _required_files(plan: RunPlan, run_id: str | None) -> Iterator[Path]:
    """Yield the folders of eval files, the templates of workspaces, and the files that a run names."""
    yield from (Path(suite.suite.base_dir) for suite in plan.suites)
    yield from chain.from_iterable(map(templates_of, plan.suites))
    yield from plan_files(plan, run_id=run_id)


def _files_to_send(plan: RunPlan, root: Path, run_id: str | None = None) -> list[Path]:
    """Return the files to send: those that the run names, all in templates, and all others that git does not ignore.

    Empty folders are returned too.
    """
    found = {path for path in _unignored_files(root) if _is_sent(path.relative_to(root).parts)}
    found.update(path for path in _required_files(plan, run_id) if not path.is_dir())
    found.update(path for path in scripts_of(plan) if path.resolve().is_relative_to(root))
    for template in chain.from_iterable(map(templates_of, plan.suites)):
        found.update(Path(folder, name) for folder, folders, names in os.walk(template) for name in (*names, *folders))
    resolved = {path.parent.resolve() / path.name for path in found}
    return sorted(path for path in resolved if path.is_symlink() or path.is_file() or _is_empty(path))


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _is_sent(parts: tuple[str, ...]) -> bool:
    return not _UNSENT_FOLDERS.intersection(parts) and not _is_private(parts)


def _is_private(parts: tuple[str, ...]) -> bool:
    """Return True for `.env` files, and for results and caches in a `.agentv` folder."""
    if parts[-1] == ".env" or parts[-1].startswith(".env."):
        return True
    in_home = (name for folder, name in pairwise(parts) if folder == HOME_FOLDER)
    return any(name in _UNSENT_HOME_PARTS or name.startswith("index.db") for name in in_home)


def _unignored_files(root: Path) -> Iterable[Path]:
    """Return the files of a project; in a git repository those that git does not ignore."""
    return _git_listed(root, "--cached", "--others") or _walked(root)


def _git_listed(root: Path, *options: str) -> list[Path]:
    """Return the files that `git ls-files` lists with these options; none outside of a repository."""
    if not (root / ".git").exists():
        return []
    command = ["git", "-C", str(root), "ls-files", "-z", "--exclude-standard", *options]
    listed = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - git, by its name
    return [root / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]


def _walked(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = set(folders) - _UNSENT_FOLDERS  # os.walk does not enter folders that are removed here
        yield from (Path(folder, name) for name in names)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
