"""`claude`: Anthropic's coding agent on the command line, called by `claude -p`."""

from collections.abc import Iterator, Sequence
from typing import Annotated, cast

from msgspec import Meta

from agentv.messages.transcripts.claude import failure_of, output_of, usage_of
from agentv.messages.transcripts.steps import Called, Concluded, Noted, Returned, Said, SessionInfo, Step, Used, text_of
from agentv.providers.agents.base import Agent, AgentProvider, AgentSettings, LogFormat
from agentv.types.json_value import JsonObject, object_of, objects_of
from agentv.types.messages_json import compact_json
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderRequest
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage, read_cost, read_count

_CHARACTERS_PER_TOKEN = 4


class ClaudeSettings(AgentSettings, frozen=True, kw_only=True):
    """The settings of a `claude` target."""

    executable: Annotated[str, Meta(description="Name in PATH or path of the program.")] = "claude"
    model: Annotated[str | None, Meta(description="Name or alias of the model; default: the program's own.")] = None
    max_turns: Annotated[int | None, Meta(description="Maximum number of model turns.")] = None
    log_dir: Annotated[
        str | None, Meta(description="Folder of the logs, relative to the targets file; default: .agentv/logs/claude.")
    ] = None
    log_format: Annotated[LogFormat, Meta(description="Log format: readable lines (summary) or raw events (json).")] = (
        "summary"
    )

    def __post_init__(self) -> None:
        """Reject a limit below one turn."""
        if self.max_turns is not None and self.max_turns < 1:
            raise ValueError("max_turns must be at least 1")


def make_claude(target: ResolvedTarget, tools: ProviderTools) -> AgentProvider:
    """Make the provider of a `claude` target."""
    settings = cast(ClaudeSettings, target.settings)
    agent = Agent(
        kind="claude",
        executable=settings.executable,
        install="npm install -g @anthropic-ai/claude-code",
        settings=settings,
        arguments=lambda request, _: claude_arguments(settings, request),
        read=read_claude,
        fragment_types=frozenset({"stream_event"}),
        log_dir=settings.log_dir,
        log_format=settings.log_format,
    )
    return AgentProvider(target, tools, agent)


def claude_arguments(settings: ClaudeSettings, request: ProviderRequest) -> Sequence[str]:
    """Return the arguments; the prompt is sent on standard input.

    The files that the prompt names lie outside of the workspace: only reading them is allowed.
    """
    files = dict.fromkeys((*request.guideline_files, *request.input_files))
    return (
        *("-p", "--output-format", "stream-json", "--verbose"),
        *(("--model", settings.model) if settings.model else ()),
        *(("--max-turns", str(settings.max_turns)) if settings.max_turns else ()),
        *(("--append-system-prompt", request.system_prompt) if request.system_prompt else ()),
        *(f"--allowedTools=Read(/{path})" for path in files),
        *settings.args,
    )


def read_claude(event: JsonObject, received_at: str) -> Iterator[Step]:
    """Turn one event of `--output-format stream-json` into steps."""
    match event.get("type"):
        case "system":
            yield from _read_system(event)
        case "assistant" | "user":
            yield from _read_message(event, text_of(event.get("timestamp")) or received_at)
        case "result":
            yield from _read_result(event)


def _read_system(event: JsonObject) -> Iterator[Step]:
    match event.get("subtype"):
        case "init":
            yield SessionInfo(session=text_of(event.get("session_id")), model=text_of(event.get("model")))
        case "api_retry":
            why = f"{event.get('error_status') or 'no status'} {event.get('error') or ''}"
            yield Noted(f"retry {event.get('attempt')} of {event.get('max_retries')}: {why}")
        case "permission_denied":
            yield Noted(f"denied {event.get('tool_name')}: {event.get('message')}")


def _read_message(event: JsonObject, moment: str) -> Iterator[Step]:
    message = object_of(event.get("message"))
    parent = text_of(event.get("parent_tool_use_id"))
    # An error that the program itself writes as a message; not every version sets both marks.
    is_error = event.get("is_api_error_message") is True or text_of(event.get("error")) is not None
    is_agent = event.get("type") == "assistant"
    if is_agent and not is_error:
        yield from _used_so_far(message)
    for block in objects_of(message.get("content")):
        kind, text = str(block.get("type")), text_of(block.get("text"))
        if kind == "text" and text and is_error:
            yield failure_of(text, event)
        elif kind == "text" and text and is_agent:
            yield Said(text, moment, parent)
        elif kind.endswith("tool_use"):
            yield Called(
                id=str(block.get("id", "")),
                tool=str(block.get("name", "")),
                input=block.get("input"),
                at=moment,
                parent=parent,
            )
        elif kind.endswith("tool_result"):
            yield Returned(str(block.get("tool_use_id", "")), output_of(block), moment)


def _used_so_far(message: JsonObject) -> Iterator[Step]:
    """Read the usage of a model call in progress; the exact usage in the later `result` replaces it.

    The output is estimated from the blocks of the message, because the reported count is from before they were written.
    """
    reported, call = object_of(message.get("usage")), text_of(message.get("id"))
    if not reported or call is None:
        return
    texts = (
        block.get("text") or block.get("thinking") or compact_json(block.get("input"))
        for block in objects_of(message.get("content"))
    )
    written = sum(len(text) for text in texts if isinstance(text, str)) // _CHARACTERS_PER_TOKEN
    usage = usage_of({**reported, "output_tokens": written}, requests=1)
    yield Used(usage, call=call, is_estimate=True)


def _read_result(event: JsonObject) -> Iterator[Step]:
    subtype = text_of(event.get("subtype"))
    yield SessionInfo(session=text_of(event.get("session_id")), finish_reason=text_of(event.get("stop_reason")))
    cost_usd = read_cost(event.get("total_cost_usd"))
    yield Used(_usage_of_models(event), cost_usd, is_total=True)
    denied = dict.fromkeys(str(item.get("tool_name")) for item in objects_of(event.get("permission_denials")))
    if denied:
        advice = "permit tools in the setting `args`, such as [--permission-mode, acceptEdits]"
        yield Noted(f"claude was not permitted to use {', '.join(denied)}; {advice}", in_result=True)
    text = text_of(event.get("result"))
    if event.get("is_error") is not True and subtype in ("success", None):
        if text:
            yield Concluded(text)
        return
    errors = event.get("errors")
    messages = [item for item in errors if isinstance(item, str)] if isinstance(errors, list) else []
    yield failure_of(text or "; ".join(messages) or subtype or "no details", event)


def _usage_of_models(event: JsonObject) -> Usage:
    """Return the usage of all models so far, including subagents and side questions, as the cost in a result does.

    The key `usage` of a result counts the last turn only, and there are several results if subagents work in the
    background.
    """
    models = [object_of(value) for value in object_of(event.get("modelUsage")).values()]
    turns = read_count(event.get("num_turns"))
    if not models:
        return usage_of(object_of(event.get("usage")), requests=turns)
    cached, written, uncached, received, thinking = (
        sum(read_count(model.get(name)) for model in models)
        for name in (
            "cacheReadInputTokens",
            "cacheCreationInputTokens",
            "inputTokens",
            "outputTokens",
            "thinkingTokens",
        )
    )
    sent = uncached + cached + written
    return Usage(
        input=sent, output=received, cached_input=cached, reasoning=thinking, total=sent + received, requests=turns
    )
