"""`codex`: OpenAI's coding agent on the command line, called by `codex exec`."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, cast

from msgspec import Meta

from agentv.messages.transcripts.codex import codex_usage
from agentv.messages.transcripts.steps import (
    Called,
    Concluded,
    Failed,
    Noted,
    Returned,
    Said,
    SessionInfo,
    Step,
    Used,
    parse_object,
    parts_text,
    text_of,
)
from agentv.providers.agents.base import Agent, AgentProvider, AgentSettings, LogFormat
from agentv.types.failures import FailureKind
from agentv.types.json_value import JsonObject, JsonValue, object_of, objects_of
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

_FIXED_ARGUMENTS = ("--ask-for-approval", "never", "exec", "--json", "--color", "never", "--skip-git-repo-check")
_MESSAGE_TYPES = ("agent_message", "response", "output")
_STATUS = re.compile(r"\bstatus:? ([45][0-9]{2})\b")
_KINDS_BY_TEXT: Mapping[str, FailureKind] = {
    "currently experiencing high demand": "server_error",
    "reason: content_filter": "content_filter",
    "stream disconnected": "transport",
}
"""The kinds of failures whose messages have no status, by a part of the message; the first match counts."""

_BAD_REQUEST = 400
_THREAD_ID = re.compile(r"[0-9a-fA-F-]{36}")


class CodexSettings(AgentSettings, frozen=True, kw_only=True):
    """The settings of a `codex` target."""

    executable: Annotated[str, Meta(description="Name in PATH or path of the program.")] = "codex"
    log_dir: Annotated[
        str | None, Meta(description="Folder of the logs, relative to the targets file; default: .agentv/logs/codex.")
    ] = None
    log_format: Annotated[LogFormat, Meta(description="Log format: readable lines (summary) or raw events (json).")] = (
        "summary"
    )
    stream_logs: Annotated[bool, Meta(description="Write a log of each call while it runs.")] = True


def make_codex(target: ResolvedTarget, tools: ProviderTools) -> AgentProvider:
    """Make the provider of a `codex` target."""
    settings = cast(CodexSettings, target.settings)
    agent = Agent(
        kind="codex",
        executable=settings.executable,
        install="npm install -g @openai/codex",
        settings=settings,
        arguments=lambda request, _: codex_arguments(settings, request),
        read=read_codex,
        writes_prompt_file=True,
        is_logged=settings.stream_logs,
        log_dir=settings.log_dir,
        log_format=settings.log_format,
        read_side_files=lambda _, response_so_far: _read_session_file(settings, response_so_far),
    )
    return AgentProvider(target, tools, agent)


def codex_arguments(settings: CodexSettings, request: ProviderRequest) -> Sequence[str]:
    """Return the arguments; the prompt is sent on standard input, a system prompt as developer instructions."""
    instructions = request.system_prompt
    config = ("-c", f"developer_instructions={_toml_text(instructions)}") if instructions else ()
    return (*_FIXED_ARGUMENTS, *config, *settings.args, "-")


def _toml_text(text: str) -> str:
    """Return a TOML string: JSON, except for the one control character that JSON does not escape."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_codex(event: JsonObject, received_at: str) -> Iterator[Step]:
    """Convert one event of `codex exec --json` into steps."""
    match event.get("type"):
        case "thread.started":
            yield SessionInfo(session=text_of(event.get("thread_id")))
        case "item.started" | "item.updated" | "item.completed" as stage:
            yield from _read_item(object_of(event.get("item")), received_at, is_completed=stage == "item.completed")
        case "turn.completed":
            yield Used(codex_usage(object_of(event.get("usage"))), is_total=True)
        case "turn.failed":
            yield _failed(text_of(object_of(event.get("error")).get("message")) or "no details")
        case "error":
            message = text_of(event.get("message")) or "no details"
            yield Noted(message) if message.startswith("Reconnecting") else _failed(message)
        case _:
            yield from _read_other(event)


def _read_item(item: JsonObject, received_at: str, *, is_completed: bool) -> Iterator[Step]:
    kind, item_id = item.get("type"), str(item.get("id", ""))
    if kind in _MESSAGE_TYPES:
        text = text_of(item.get("text")) or text_of(parts_text(item.get("content")))
        if is_completed and text:
            yield Said(text, received_at)
        return
    if kind == "error":
        yield Noted(text_of(item.get("message")) or "an error")
    call = _call(item)
    if call is None:
        return
    tool, given, output = call
    yield Called(item_id, tool, given, received_at)
    if is_completed:
        yield Returned(item_id, output, received_at)


def _call(item: JsonObject) -> tuple[str, JsonValue, JsonValue] | None:
    """Return the tool of an item with its input and output; None for an item that is not a tool call."""
    match item.get("type"):
        case "command_execution":
            output, code = item.get("aggregated_output", item.get("output")), item.get("exit_code")
            failed = code not in (0, None)
            given = {"command": item.get("command")}
            return "command_execution", given, {"error": output, "exit_code": code} if failed else output
        case "file_change":
            return "file_change", {"changes": item.get("changes")}, item.get("status")
        case "mcp_tool_call":
            tool = f"mcp__{item.get('server')}__{item.get('tool')}"
            error = item.get("error")
            return tool, item.get("arguments"), {"error": error} if error else item.get("result")
        case "web_search":
            return "web_search", {"query": item.get("query")}, item.get("results", item.get("status"))
        case _:
            return None


def _read_other(event: JsonObject) -> Iterator[Step]:
    """Read an answer from the places that other versions of Codex use."""
    messages = [message for message in objects_of(event.get("messages")) if message.get("role") == "assistant"]
    response = event.get("response")
    places = (
        messages[-1].get("content") if messages else None,
        response.get("content") if isinstance(response, Mapping) else None,
        event.get("output"),
    )
    text = next((text for place in places if (text := text_of(parts_text(place)))), None)
    if text:
        yield Concluded(text, is_last_resort=True)


def _failed(message: str) -> Failed:
    """Return the failure in a message: a sentence with or without an HTTP status, or the body of an HTTP 400 response.

    A message without a status, such as the one after the last retry, is classified by `_KINDS_BY_TEXT`.
    """
    refused = object_of((parse_object(message) or {}).get("error"))
    if refused:
        return Failed(text_of(refused.get("message")) or message, _BAD_REQUEST)
    status = _STATUS.search(message)
    kind = next((kind for part, kind in _KINDS_BY_TEXT.items() if part in message), None)
    return Failed(message, int(status[1]) if status else None, kind)


def _read_session_file(settings: CodexSettings, response_so_far: ProviderResponse) -> Iterator[Step]:
    """Read the usage of an unfinished turn from Codex's session file: Codex prints usage only at the end of a turn."""
    if response_so_far.usage is not None or _THREAD_ID.fullmatch(response_so_far.session or "") is None:
        return
    sessions = _codex_home(settings) / "sessions"
    for path in sessions.glob(f"*/*/*/rollout-*-{response_so_far.session}.jsonl"):
        try:
            with path.open(encoding="utf-8", errors="replace") as lines:
                counts = [line for line in lines if '"token_count"' in line]
        except OSError:  # without it the usage is unknown
            continue
        yield from read_token_counts(counts)


def _codex_home(settings: CodexSettings) -> Path:
    """Return Codex's folder as the program itself finds it, with the variables that it inherits."""
    allowed = os.environ.keys() if settings.env_allow is None else settings.env_allow
    inherited = {name: os.environ[name] for name in ("CODEX_HOME", "HOME") if name in os.environ and name in allowed}
    env = {**inherited, **settings.env}
    codex_home = env.get("CODEX_HOME")
    return Path(codex_home) if codex_home else Path(env.get("HOME") or Path.home(), ".codex")


def read_token_counts(lines: Sequence[str]) -> Iterator[Step]:
    """Convert the lines of a session file into a step with its latest token counts, the sum of all model calls."""
    for line in reversed(lines):
        payload = object_of((parse_object(line) or {}).get("payload"))
        used = object_of(object_of(payload.get("info")).get("total_token_usage"))
        if payload.get("type") == "token_count" and used:
            yield Used(codex_usage(used), is_total=True)
            return
