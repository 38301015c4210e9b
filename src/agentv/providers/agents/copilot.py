"""`copilot`: GitHub's coding agent on the command line, called in its non-interactive mode."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, cast

from msgspec import Meta

from agentv.messages.transcripts.copilot import read_copilot, usage_of_model
from agentv.messages.transcripts.steps import Step, Used, parse_object
from agentv.providers.agents.base import Agent, AgentProvider, AgentSettings, build_agent_prompt
from agentv.types.json_value import JsonObject, object_of
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderRequest
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

_USAGE_FILE = "usage.json"
_SKIPPED_TYPES = frozenset(
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
"""The types of events that are skipped. Most have a piece of a message or output that a later event has in full."""


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
        arguments=lambda request, side_folder: copilot_arguments(settings, request, side_folder),
        prompt=copilot_prompt,
        read=read_copilot,
        fragment_types=_SKIPPED_TYPES,
        log_dir=settings.log_dir,
        read_side_files=lambda side_folder, _: _read_usage_file(side_folder),
    )
    return AgentProvider(target, tools, agent)


def copilot_arguments(settings: CopilotSettings, request: ProviderRequest, side_folder: Path) -> Sequence[str]:
    """Return the arguments of a call in the non-interactive mode, which requires `--allow-all-tools`.

    The prompt is sent on standard input. The files that it names may lie outside the workspace, so their folders are
    added. Copilot writes its usage file into `side_folder`.
    """
    files = (*request.guideline_files, *request.input_files)
    folders = dict.fromkeys(str(Path(path).parent) for path in files)
    return (
        *("--output-format", "json", "--allow-all-tools", "--no-ask-user", "--no-color", "--no-auto-update"),
        *("--usage-output-file", str(side_folder / _USAGE_FILE)),
        *(("--model", settings.model) if settings.model else ()),
        *(word for path in folders for word in ("--add-dir", path)),
        *settings.args,
    )


def copilot_prompt(request: ProviderRequest) -> str:
    """Return the prompt. It contains the system prompt, for which Copilot has no argument."""
    return build_agent_prompt(request, instructions=request.system_prompt)


def _read_usage_file(side_folder: Path) -> Iterator[Step]:
    """Convert the usage file that Copilot writes before it exits; yield nothing if the file cannot be read."""
    try:
        text = (side_folder / _USAGE_FILE).read_text("utf-8", "replace")
    except OSError:
        return
    yield from read_usage(parse_object(text) or {})


def read_usage(usage_file: JsonObject) -> Iterator[Step]:
    """Yield one step with the usage of all models together; nothing if the file lists no model."""
    models = [object_of(value) for value in object_of(usage_file.get("modelMetrics")).values()]
    if models:
        yield Used(sum(map(usage_of_model, models), start=Usage()), is_total=True)
