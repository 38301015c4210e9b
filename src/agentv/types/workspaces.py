"""Workspaces: the folder that a row's agent has to itself, and the agent's changes there."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from agentv.types.json_value import JsonObject

Keep: TypeAlias = Literal["never", "failed", "always"]
"""The rows whose workspace folders are saved instead of deleted."""
ChangeStatus: TypeAlias = Literal["added", "modified", "deleted", "renamed"]


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/]+@[^/]+:")
_FILE_URL = "file://"
_SUBMODULE_PATH = re.compile(r"^[ \t]*path[ \t]*=(.*)$", re.MULTILINE | re.IGNORECASE)
_MAX_GITMODULES = 65_536
_SHOWN_PATHS = 5


def is_url(repository: str) -> bool:
    """Return True for a repository that is given by a URL, also a file:// URL, or as `user@host:path`."""
    return _URL.match(repository) is not None


def local_repository(repository: str, base_dir: Path) -> Path | None:
    """Return the folder of a repository that is given by its path or a file:// URL; None for a remote one."""
    if repository.startswith(_FILE_URL):
        return Path(unquote(urlsplit(repository).path))
    return None if is_url(repository) else written_path(repository, base_dir)


def written_path(written: str, base_dir: Path) -> Path:
    """Return the path of a template or repository written in a file. A relative path starts from `base_dir`.

    `~` is the user's home folder.
    """
    return base_dir / Path(written).expanduser()


def unfetched_submodules(repository: str, gitmodules: str, added: Collection[str], *, folder: str = "") -> str | None:
    """Return a message that names the submodules of a repository, which are not fetched; None if there are none.

    `gitmodules` is the content of its `.gitmodules`, `folder` its folder in the workspace, and `added` are the folders
    of the workspace's `repos`, which replace submodules.
    """
    listed = (path.strip().strip('"') for path in _SUBMODULE_PATH.findall(gitmodules[:_MAX_GITMODULES]))
    paths = [path for name in listed if (path := f"{folder}/{name}" if folder else name) not in added]
    if not paths:
        return None
    more = f" and {len(paths) - _SHOWN_PATHS} more" if len(paths) > _SHOWN_PATHS else ""
    names = ", ".join(paths[:_SHOWN_PATHS]) + more
    return f"the submodules of {repository} are not fetched: {names}; add those that are needed under `repos`"


class WorkspaceRepo(Struct, frozen=True):
    """A repository in a workspace."""

    path: str
    """The folder of the repository in the workspace."""
    git: str
    ref: str | None = None
    sparse: tuple[str, ...] = ()
    """If it is set, only these folders of the repository and the files at its top are checked out."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value; the message starts with its key.

        Invalid are a folder outside of the workspace or in `.git`, an HTTP or HTTPS URL with a user name or token, and
        a value that git would read as an option.
        """
        parts = self.path.replace("\\", "/").split("/")
        if self.path.startswith(("/", "~")) or ".." in parts or ".git" in parts:
            raise ValueError("path must be a folder in the workspace")
        _check_repository("git", self.git)
        for name, value in (("git", self.git), ("ref", self.ref), *(("sparse", each) for each in self.sparse)):
            if (value or "").startswith("-"):
                raise ValueError(f"{name} must not start with a dash")


def _check_repository(name: str, repository: str | None) -> None:
    if re.match(r"https?://[^/]*@", repository or ""):
        raise ValueError(f"{name} must not contain a user name or token; use git's credential helper or ssh instead")


class WorkspaceConfig(Struct, frozen=True):
    """The source of a workspace: a folder or a repository. A workspace with `setup` but no source starts empty."""

    template: str | None = None
    """The folder that is the source."""
    git: str | None = None
    """The repository that is the source."""
    ref: str | None = None
    """The revision of `git`; its HEAD by default."""
    setup: str | None = None
    """A command for sh that runs in the workspace before the first call, and again before each retry or fallback target
    of that call.
    """
    teardown: str | None = None
    """A command for sh that runs in the workspace after the judging."""
    keep: Keep = "never"
    repos: tuple[WorkspaceRepo, ...] = ()
    """Repositories that are added to the source."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value or combination; the message starts with the key to correct, if any."""
        if self.template is not None and self.git is not None:
            raise ValueError("git cannot be combined with template; a workspace is a copy of one of the two")
        if self.template is None and self.git is None and not self.repos and self.setup is None:
            raise ValueError("workspace needs template (a folder), git (a repository), repos or setup")
        if self.ref is not None and self.git is None:
            raise ValueError("ref needs git")
        _check_repository("git", self.git)
        for name in ("git", "ref"):
            if (getattr(self, name) or "").startswith("-"):
                raise ValueError(f"{name} must not start with a dash")
        for name in ("setup", "teardown"):
            command = getattr(self, name)
            if command and not command.strip():
                raise ValueError(f"{name} is empty")


def workspace_from_json(value: JsonObject) -> WorkspaceConfig:
    """Return the config for keys whose types loading has checked. Raises ValueError as WorkspaceConfig does."""
    known = {name: value[name] for name in WorkspaceConfig.__struct_fields__ if value.get(name) is not None}
    repos = tuple(map(_repo_from_json, cast(Sequence[JsonObject], known.pop("repos", ()))))
    return WorkspaceConfig(**cast(dict[str, str], known), repos=repos)  # type: ignore[arg-type] # `keep` was checked with the file


def _repo_from_json(value: JsonObject) -> WorkspaceRepo:
    given = {name: value[name] for name in ("path", "git", "ref") if value.get(name) is not None}
    return WorkspaceRepo(**cast(dict[str, str], given), sparse=tuple(cast(Sequence[str], value.get("sparse") or ())))


class ChangedFile(Struct, frozen=True):
    """One file that an agent changed."""

    path: str
    status: ChangeStatus
    bytes: int | None = None
    """The new size."""
    before: str | None = None
    """The old path of a renamed file."""
    binary: bool = False
    """True for a binary file: the diff names it without its content."""

    def to_json(self) -> JsonObject:
        """Return the file as stored in rows, without unset values."""
        fields: dict[str, str | int | bool | None] = {
            "path": self.path,
            "status": self.status,
            "bytes": self.bytes,
            "before": self.before,
            "binary": self.binary or None,
        }
        return {key: value for key, value in fields.items() if value is not None}


class WorkspaceChanges(Struct, frozen=True):
    """The changes of an agent. Both the list of files and the diff are limited in size."""

    diff: str = ""
    """A unified diff as git writes it."""
    changed: tuple[ChangedFile, ...] = ()
    """The changed files, ordered by path."""
    notes: tuple[str, ...] = ()
    """How many files were left out."""
