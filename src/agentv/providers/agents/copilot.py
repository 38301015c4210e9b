"""`copilot`: GitHub's coding agent on the command line, called in its non-interactive mode."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, cast

from msgspec import Meta

from agentv.providers.agents.base import Agent, AgentProvider, AgentSettings, build_agent_prompt
from agentv.providers.agents.steps import (
    Called,
    Failed,
    Noted,
    Returned,
    Said,
    SessionInfo,
    Step,
    Used,
    count_of,
    object_of,
    objects_of,
    parse_object,
    status_of,
    text_of,
)
from agentv.types.json_value import JsonObject
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderRequest
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

_USAGE_FILE = "usage.json"
_FRAGMENT_TYPES = frozenset(
    {
        "assistant.message_delta",
        "assistant.reasoning_delta",
        "assistant.streaming_delta",
        "assistant.tool_call_delta",
        "session.background_tasks_changed",
        "tool.execution_partial_result",
        "tool.shell_output",
    }
)


class CopilotSettings(AgentSettings, frozen=True, kw_only=True):
    """The settings of a `copilot` target."""

    executable: Annotated[str, Meta(description="Name in PATH or path of the program.")] = "copilot"
    model: Annotated[str | None, Meta(description="Name of the model; default: the program's own.")] = None
    log_dir: Annotated[
        str | None, Meta(description="Folder of the logs, relative to the targets file; default: .agentv/logs/copilot.")
    ] = None


def make_copilot(target: ResolvedTarget, tools: ProviderTools) -> AgentProvider:
    """Make the provider of a `copilot` target."""
    settings = cast(CopilotSettings, target.settings)
    agent = Agent(
        kind="copilot",
        executable=settings.executable,
        install="npm install -g @github/copilot",
        settings=settings,
        arguments=lambda request, folder: copilot_arguments(settings, request, folder),
        prompt=copilot_prompt,
        read=read_copilot,
        fragment_types=_FRAGMENT_TYPES,
        log_dir=settings.log_dir,
        read_side_files=lambda folder, _: _read_usage_file(folder),
    )
    return AgentProvider(target, tools, agent)


def copilot_arguments(settings: CopilotSettings, request: ProviderRequest, folder: Path) -> Sequence[str]:
    """Return the arguments; sending the prompt on standard input requires `--allow-all-tools`.

    The files that the prompt names lie outside of the workspace: their folders are added.
    """
    files = (*request.guideline_files, *request.input_files)
    folders = dict.fromkeys(str(Path(path).parent) for path in files)
    return (
        *("--output-format", "json", "--allow-all-tools", "--no-ask-user", "--no-color", "--no-auto-update"),
        *("--usage-output-file", str(folder / _USAGE_FILE)),
        *(("--model", settings.model) if settings.model else ()),
        *(word for path in folders for word in ("--add-dir", path)),
        *settings.args,
    )


def copilot_prompt(request: ProviderRequest) -> str:
    """Return the prompt; Copilot has no argument for a system prompt, so it precedes the question."""
    return build_agent_prompt(request, instructions=request.system_prompt)


def read_copilot(event: JsonObject, received_at: str) -> Iterator[Step]:
    """Convert one event of `--output-format json` into steps."""
    data = object_of(event.get("data"))
    moment = text_of(event.get("timestamp")) or received_at
    match event.get("type"):
        case "assistant.message":
            yield from _read_message(data, moment)
        case "tool.execution_start":
            yield Called(str(data.get("toolCallId", "")), str(data.get("toolName", "")), data.get("arguments"), moment)
        case "tool.execution_complete":
            yield from _read_result(data, moment)
        case "session.error":
            status = status_of(data.get("statusCode"))
            is_login = data.get("errorType") == "authentication"
            yield Failed(text_of(data.get("message")) or "no details", status, "auth" if is_login else None)
        case "session.warning" | "session.info":
            yield Noted(text_of(data.get("message")) or "no details")
        case "result":
            yield SessionInfo(session=text_of(event.get("sessionId")))


def _read_message(data: JsonObject, moment: str) -> Iterator[Step]:
    parent = text_of(data.get("parentToolCallId"))
    yield SessionInfo(model=text_of(data.get("model")))
    text = text_of(data.get("content"))
    if text:
        yield Said(text, moment, parent)
    for call in objects_of(data.get("toolRequests")):
        yield Called(
            id=str(call.get("toolCallId", "")),
            tool=str(call.get("name", "")),
            input=call.get("arguments"),
            at=moment,
            parent=parent,
        )


def _read_result(data: JsonObject, moment: str) -> Iterator[Step]:
    output = object_of(data.get("result")).get("content")
    exit_code = object_of(data.get("shellExecution")).get("exitCode")
    if data.get("success") is False:
        error = object_of(data.get("error")).get("message", data.get("error"))
        output = {"error": error if error is not None else output}
    elif exit_code not in (0, None):
        output = {"error": output, "exit_code": exit_code}
    yield Returned(str(data.get("toolCallId", "")), output, moment)


def _read_usage_file(folder: Path) -> Iterator[Step]:
    """Read the usage file that Copilot wrote at its end; without it the usage is unknown."""
    try:
        text = (folder / _USAGE_FILE).read_text("utf-8", "replace")
    except OSError:
        return
    yield from read_usage(parse_object(text) or {})


def read_usage(written: JsonObject) -> Iterator[Step]:
    """Convert Copilot's usage file into a step: the sum over its models."""
    metrics = [object_of(value) for value in object_of(written.get("modelMetrics")).values()]
    if metrics:
        yield Used(sum(map(_usage, metrics), start=Usage()), is_total=True)


def _usage(metrics: JsonObject) -> Usage:
    used = object_of(metrics.get("usage"))
    sent, received = count_of(used.get("inputTokens")), count_of(used.get("outputTokens"))
    return Usage(
        input=sent,
        output=received,
        cached_input=count_of(used.get("cacheReadTokens")),
        reasoning=count_of(used.get("reasoningTokens")),
        total=sent + received,
        requests=count_of(object_of(metrics.get("requests")).get("count")),
    )
