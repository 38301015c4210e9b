"""The workspace of a case while it runs: opened, captured, and found again for a stored answer."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agentv.engine.calling.answer import failed_answer
from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.plan import CaseTask
from agentv.engine.planning.prepared_case import PreparedCase
from agentv.engine.planning.workspaces import WantedWorkspace
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.provider import ProviderError
from agentv.types.records.answer import Answer
from agentv.types.workspaces import Keep, WorkspaceChanges

if TYPE_CHECKING:
    from agentv.execution.workspaces.workspaces import Workspace


def open_wanted_workspace(
    wanted: WantedWorkspace, name: str, runtime: Runtime
) -> "AbstractAsyncContextManager[Workspace]":
    """Return the workspace as a context manager, which raises ProviderError if the workspace cannot be created."""
    from agentv.execution.workspaces.workspaces import open_workspace  # noqa: PLC0415 - 30 ms that few runs need

    return open_workspace(
        wanted.config,
        name=name,
        base_dir=wanted.base_dir,
        home=Path(runtime.home),
        shared=runtime.shared,
        machine=runtime.machine,
    )


async def capture(workspace: "Workspace", answer: Answer) -> tuple[WorkspaceChanges, Answer]:
    """Return the changes in a workspace, and the answer; it is a failed one if the changes cannot be captured."""
    try:
        return await workspace.capture(), answer
    except ProviderError as error:
        return WorkspaceChanges(), answer if answer.error is not None else failed_answer(answer, error.failure)


def workspace_name(task: CaseTask) -> str:
    """Return the name of the folder of a saved workspace."""
    key = task.slot
    return "-".join(filter(None, (key.eval_id, key.prompt, key.target, str(key.trial))))


def captured_to_json(captured: WorkspaceChanges, workspace: "Workspace", *, keep: Keep) -> JsonObject:
    """Return the fields that an answer stores: changed files, diff, and the path to which the workspace is saved.

    With `keep: failed` the path is that of a workspace which is there only if the result fails.
    """
    fields: dict[str, JsonValue] = {
        "diff": captured.diff,
        "changed": [changed.to_json() for changed in captured.changed],
    }
    if keep != "never":
        fields["path"] = workspace.saved_location
    return fields


def in_folder(prepared: PreparedCase, folder: Path) -> PreparedCase:
    """Return a prepared case whose workspace is `folder`."""
    return replace(prepared, request=replace(prepared.request, workspace=str(folder)))


def in_saved_workspace(prepared: PreparedCase, path: JsonValue) -> PreparedCase:
    """Return a prepared case with the workspace that `keep: always` saved at `path`, or marked as without one."""
    if isinstance(path, str) and Path(path).is_dir():
        return in_folder(prepared, Path(path))
    return replace(prepared, is_workspace_missing=True)
