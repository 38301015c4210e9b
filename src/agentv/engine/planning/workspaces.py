"""The workspace that a case wants: its own, that of its suite, or that of its target."""

from pathlib import Path

from msgspec import Struct

from agentv.types.cases import EvalCase, EvalSuite
from agentv.types.json_value import JsonObject
from agentv.types.targets import ResolvedTarget
from agentv.types.workspaces import WorkspaceConfig, workspace_from_json


class WantedWorkspace(Struct, frozen=True):
    """The config of a workspace, and the folder that its relative paths start from."""

    config: WorkspaceConfig
    base_dir: Path


def wanted_workspace(case: EvalCase, suite: EvalSuite, target: ResolvedTarget) -> WantedWorkspace | None:
    """Return the workspace of a case: its own, else its suite's, else the target's. Raises ValueError for a bad one."""
    config = case.workspace or suite.workspace
    return target_workspace(target) if config is None else _parse_workspace(config, suite.base_dir)


def target_workspace(target: ResolvedTarget) -> WantedWorkspace | None:
    """Return the workspace that a target itself configures. Raises ValueError for a bad one."""
    return None if target.workspace is None else _parse_workspace(target.workspace, target.base_dir)


def _parse_workspace(config: JsonObject, base_dir: str) -> WantedWorkspace:
    return WantedWorkspace(workspace_from_json(config), Path(base_dir))
