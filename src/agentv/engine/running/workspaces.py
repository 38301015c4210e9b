"""The workspace of a row, and the record of it that is stored with the answer (docs/how-to/workspaces.md)."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.plan import CaseTask
from agentv.types.cases import EvalCase, EvalSuite
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.targets import ResolvedTarget
from agentv.types.workspaces import Captured, Keep, WorkspaceConfig, workspace_from_json

if TYPE_CHECKING:
    from agentv.execution.workspaces.workspaces import Workspace


class WantedWorkspace(Struct, frozen=True):
    """The config of a workspace, and the folder that its relative paths start from."""

    config: WorkspaceConfig
    base_dir: Path


def wanted_workspace(case: EvalCase, suite: EvalSuite, target: ResolvedTarget) -> WantedWorkspace | None:
    """Return the workspace of a case: its own, else its suite's, else the target's. Raises ValueError."""
    written = case.workspace or suite.workspace
    return target_workspace(target) if written is None else _wanted(written, suite.base_dir)


def target_workspace(target: ResolvedTarget) -> WantedWorkspace | None:
    """Return the workspace that a target itself configures. Raises ValueError."""
    return None if target.workspace is None else _wanted(target.workspace, target.base_dir)


def _wanted(written: JsonObject, base_dir: str) -> WantedWorkspace:
    return WantedWorkspace(workspace_from_json(written), Path(base_dir))


def open_wanted(wanted: WantedWorkspace, name: str, runtime: Runtime) -> "AbstractAsyncContextManager[Workspace]":
    """Return the workspace as a context manager, which raises ProviderError if the workspace cannot be created."""
    from agentv.execution.workspaces.workspaces import open_workspace  # noqa: PLC0415 - 30 ms that few runs need

    return open_workspace(
        wanted.config, name=name, base_dir=wanted.base_dir, home=Path(runtime.home), shared=runtime.shared
    )


def row_name(task: CaseTask) -> str:
    """Return the name of the folder of a kept workspace."""
    return f"{task.case.id}-{task.target.name}-{task.trial}"


def captured_to_json(captured: Captured, workspace: "Workspace", *, keep: Keep) -> JsonObject:
    """Return the record of a workspace in an answer: changed files, diff, and the path if the folder is always kept."""
    fields: dict[str, JsonValue] = {
        "diff": captured.diff,
        "changed": [changed.to_json() for changed in captured.changed],
    }
    if keep == "always":
        fields["path"] = str(workspace.saved_path)
    return fields
