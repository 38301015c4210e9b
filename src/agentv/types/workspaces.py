"""Workspaces: the folder of its own that a row's agent works in, and what the agent changed there."""

import re
from typing import Literal, TypeAlias, cast

from msgspec import Struct

from agentv.types.json_value import JsonObject

Keep: TypeAlias = Literal["never", "failed", "always"]
ChangeStatus: TypeAlias = Literal["added", "modified", "deleted", "renamed"]


class WorkspaceConfig(Struct, frozen=True):
    """What a workspace is a copy of: the folder `template`, or the repository `git` at `ref` (default: its HEAD).

    `setup` and `teardown` are commands for sh, run in the workspace before the first call and after the judging.
    Raises ValueError, a sentence that starts with a key, for what cannot be meant.
    """

    template: str | None = None
    git: str | None = None
    ref: str | None = None
    setup: str | None = None
    teardown: str | None = None
    keep: Keep = "never"

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.template is not None and self.git is not None:
            raise ValueError("git stands beside template; a workspace is a copy of one of the two")
        if self.template is None and self.git is None:
            raise ValueError("workspace needs template (a folder) or git (a repository)")
        if self.ref is not None and self.git is None:
            raise ValueError("ref goes with git only")
        if re.match(r"https?://[^/]*@", self.git or ""):
            raise ValueError("git must not hold a name or key; leave these to git's credential helper, or use ssh")
        for name in ("git", "ref"):
            if (getattr(self, name) or "").startswith("-"):
                raise ValueError(f"{name} must not start with a dash")
        for name in ("setup", "teardown"):
            if not (getattr(self, name) or "x").strip():
                raise ValueError(f"{name} is empty")


def workspace_from_json(value: JsonObject) -> WorkspaceConfig:
    """Make the config from the keys that loading has checked. Raises ValueError for what cannot be meant."""
    known = {name: value[name] for name in WorkspaceConfig.__struct_fields__ if value.get(name) is not None}
    return WorkspaceConfig(**cast(dict[str, str], known))  # type: ignore[arg-type] # `keep` was checked with the file


class ChangedFile(Struct, frozen=True):
    """One file that an agent changed. `bytes` is its size now, `before` its path before it was renamed.

    `binary` files are named in the diff, not shown.
    """

    path: str
    status: ChangeStatus
    bytes: int | None = None
    before: str | None = None
    binary: bool = False

    def to_json(self) -> JsonObject:
        """Return it as rows keep it; what says nothing is left out."""
        fields: dict[str, str | int | bool | None] = {
            "path": self.path,
            "status": self.status,
            "bytes": self.bytes,
            "before": self.before,
            "binary": self.binary or None,
        }
        return {key: value for key, value in fields.items() if value is not None}


class Captured(Struct, frozen=True):
    """What an agent changed: the files in order of their paths, and a unified diff as git writes it.

    Both are limited in size; `notes` say what was left out.
    """

    diff: str = ""
    changed: tuple[ChangedFile, ...] = ()
    notes: tuple[str, ...] = ()
