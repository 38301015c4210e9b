"""Workspaces: the separate folder in which a row's agent works, and the agent's changes there."""

import re
from typing import Literal, TypeAlias, cast

from msgspec import Struct

from agentv.types.json_value import JsonObject

Keep: TypeAlias = Literal["never", "failed", "always"]
ChangeStatus: TypeAlias = Literal["added", "modified", "deleted", "renamed"]


class WorkspaceConfig(Struct, frozen=True):
    """The source of a workspace: the folder `template`, or the repository `git` at `ref` (default: its HEAD).

    `setup` and `teardown` are commands for sh, run in the workspace before the first call and after the judging.
    Raises ValueError for an invalid combination; the message starts with a key.
    """

    template: str | None = None
    git: str | None = None
    ref: str | None = None
    setup: str | None = None
    teardown: str | None = None
    keep: Keep = "never"

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid combination."""
        if self.template is not None and self.git is not None:
            raise ValueError("git cannot be combined with template; a workspace is a copy of one of the two")
        if self.template is None and self.git is None:
            raise ValueError("workspace needs template (a folder) or git (a repository)")
        if self.ref is not None and self.git is None:
            raise ValueError("ref needs git")
        if re.match(r"https?://[^/]*@", self.git or ""):
            raise ValueError("git must not contain a name or key; use git's credential helper or ssh instead")
        for name in ("git", "ref"):
            if (getattr(self, name) or "").startswith("-"):
                raise ValueError(f"{name} must not start with a dash")
        for name in ("setup", "teardown"):
            if not (getattr(self, name) or "x").strip():
                raise ValueError(f"{name} is empty")


def workspace_from_json(value: JsonObject) -> WorkspaceConfig:
    """Return the config for keys that loading has checked. Raises ValueError for an invalid combination."""
    known = {name: value[name] for name in WorkspaceConfig.__struct_fields__ if value.get(name) is not None}
    return WorkspaceConfig(**cast(dict[str, str], known))  # type: ignore[arg-type] # `keep` was checked with the file


class ChangedFile(Struct, frozen=True):
    """One file that an agent changed. `bytes` is its size now, `before` its path before it was renamed.

    `binary` files are named in the diff, but not shown.
    """

    path: str
    status: ChangeStatus
    bytes: int | None = None
    before: str | None = None
    binary: bool = False

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


class Captured(Struct, frozen=True):
    """The changes of an agent: the files ordered by path, and a unified diff as git writes it.

    Both are limited in size; `notes` say what was left out.
    """

    diff: str = ""
    changed: tuple[ChangedFile, ...] = ()
    notes: tuple[str, ...] = ()
