"""Rollouts of Codex: the lines of `sessions/**/rollout-*.jsonl`."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from agentv.messages.transcripts.steps import (
    Called,
    Failed,
    Returned,
    Said,
    SessionInfo,
    Step,
    Used,
    parse_object,
    text_of,
)
from agentv.messages.transcripts.turns import (
    ATTACHED,
    Asked,
    Conversation,
    Event,
    Interrupted,
    Record,
    Unread,
    make_turns,
)
from agentv.types.json_value import JsonObject, JsonValue, object_of, objects_of
from agentv.types.usage import Usage, read_count

_TYPES = tuple(
    "compacted event_msg inter_agent_communication response_item session_meta token_usage_record turn_context "  # noqa: SIM905 - a list of words
    "world_state".split()
)
_NOT_PROMPTS = (
    *("<environment_context>", "<user_instructions>", "<INSTRUCTIONS>", "# AGENTS.md instructions", "<skill>"),
    *("<turn_aborted>", "<subagent_notification>", "<user_shell_command>", "<permissions instructions>"),
)
"""How messages of the role `user` begin that the program writes, in versions that do not say where a text is from."""
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:@%+=")


def is_codex(value: JsonObject) -> bool:
    """Return True for a line of a rollout."""
    return value.get("type") in _TYPES and "timestamp" in value and isinstance(value.get("payload"), dict)


def read_codex_session(records: Iterable[Record]) -> Conversation:
    """Return the conversation of a rollout, without the turns that the user rolled back."""
    listed = list(records)
    meta = next((_payload(each) for each in listed if each.value.get("type") == "session_meta"), {})
    session = text_of(meta.get("id")) or text_of(meta.get("session_id")) or ""
    kept, removed = _without_rolled_back(listed, [each for each in listed if _is_prompt(each)])
    known = {"version": meta.get("cli_version"), "cwd": meta.get("cwd")}
    events = (_Reader(listed)).events(kept)
    return Conversation(
        program="codex",
        session=session,
        turns=make_turns(events),
        metadata={name: value for name, value in known.items() if value is not None},
        subagent_of=_parent_of(meta),
        abandoned=tuple(removed),
        unread=tuple(
            Unread(each.line, f"line of unknown type {each.value.get('type')!r}")
            for each in listed
            if each.value.get("type") not in _TYPES
        ),
    )


def codex_usage(usage: JsonObject) -> Usage:
    """Return a usage in Codex's format."""
    sent, received = read_count(usage.get("input_tokens")), read_count(usage.get("output_tokens"))
    return Usage(
        input=sent,
        output=received,
        cached_input=read_count(usage.get("cached_input_tokens")),
        reasoning=read_count(usage.get("reasoning_output_tokens")),
        total=sent + received,
    )


def _payload(record: Record) -> JsonObject:
    return object_of(record.value.get("payload"))


def _parent_of(meta: JsonObject) -> str | None:
    """Return the session that started this one as a subagent; None for a session of the user."""
    source = object_of(meta.get("source"))
    if meta.get("thread_source") != "subagent" and "subagent" not in source:
        return None
    spawned = object_of(object_of(source.get("subagent")).get("thread_spawn"))
    return text_of(spawned.get("parent_thread_id")) or text_of(meta.get("parent_thread_id")) or "another session"


def _without_rolled_back(records: Sequence[Record], prompts: Sequence[Record]) -> tuple[list[Record], list[int]]:
    """Return the lines that are left when the user took the last turns back, and the lines of the prompts in these."""
    kept: list[Record] = []
    removed: list[int] = []
    lines = {each.line for each in prompts}
    for record in records:
        payload = _payload(record)
        if payload.get("type") != "thread_rolled_back":
            kept.append(record)
            continue
        places = [at for at, each in enumerate(kept) if each.line in lines]
        gone = places[-read_count(payload.get("num_turns")) :] if payload.get("num_turns") else []
        removed += [kept[at].line for at in gone]
        kept = kept[: gone[0]] if gone else kept
    return kept, removed


def _is_prompt(record: Record) -> bool:
    return bool(_prompt_text(record))


def _prompt_text(record: Record) -> str:
    """Return the text that the user wrote; empty for a text that the program put into a message of the user."""
    payload = _payload(record)
    if record.value.get("type") != "response_item" or payload.get("type") != "message" or payload.get("role") != "user":
        return ""
    parts = objects_of(payload.get("content"))
    noted = objects_of(
        object_of(payload.get("internal_chat_message_metadata_passthrough")).get("content_item_metadata")
    )
    origins = [object_of(each.get("provenance")).get("type") for each in noted]
    if len(origins) == len(parts) and any(origins):
        parts = [part for part, origin in zip(parts, origins, strict=True) if origin == "user"]
    texts = [str(part["text"]) for part in parts if text_of(part.get("text"))]
    prompt = "\n".join(text for text in texts if not text.lstrip().startswith(_NOT_PROMPTS))
    return prompt or (ATTACHED if any(part.get("type") == "input_image" for part in parts) else "")


class _Reader:
    """Makes events of the lines of a rollout.

    A tool call is in a rollout as the model wrote it, and as an event with what the program did. The event takes
    precedence: it has the name, the input and the output that `codex exec --json` prints.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self._has_records = any(each.value.get("type") == "token_usage_record" for each in records)
        self._total = Usage()
        self._done: set[str] = set()
        self._is_at_work = False

    def events(self, records: Iterable[Record]) -> Iterator[Event]:
        """Yield the events of all lines; a task that has not ended is interrupted, or still goes on."""
        for record in records:
            payload, moment = _payload(record), text_of(record.value.get("timestamp"))
            match record.value.get("type"):
                case "response_item":
                    if text := _prompt_text(record):
                        yield Asked(str(payload.get("id") or ""), record.line, text, moment)
                    else:
                        yield from self._item(payload, moment)
                case "turn_context":
                    yield SessionInfo(model=text_of(payload.get("model")))
                case "token_usage_record":
                    yield Used(replace(codex_usage(object_of(payload.get("usage"))), requests=1))
                case "event_msg":
                    yield from self._event(payload, moment)
        if self._is_at_work:
            yield Interrupted()

    def _item(self, item: JsonObject, moment: str | None) -> Iterator[Step]:
        call = str(item.get("call_id") or item.get("id") or "")
        match item.get("type"):
            case "message" if item.get("role") == "assistant":
                texts = [str(part["text"]) for part in objects_of(item.get("content")) if text_of(part.get("text"))]
                if texts:
                    yield Said("\n".join(texts), moment)
            case "function_call":
                given = item.get("arguments")
                parsed = parse_object(given) if isinstance(given, str) else None
                yield Called(call, str(item.get("name", "")), given if parsed is None else parsed, moment)
            case "custom_tool_call":
                yield Called(call, str(item.get("name", "")), item.get("input"), moment)
            case "local_shell_call" | "web_search_call" as kind:
                yield Called(call, kind.removesuffix("_call"), item.get("action"), moment)
            case "function_call_output" | "custom_tool_call_output" if call not in self._done:
                yield Returned(call, item.get("output"), moment)

    def _event(self, event: JsonObject, moment: str | None) -> Iterator[Event]:
        match event.get("type"):
            case "item_completed":
                yield from self._done_item(object_of(event.get("item")), moment)
            case "exec_command_end" | "patch_apply_end" | "mcp_tool_call_end" as kind:
                yield from self._done_call(str(event.get("call_id", "")), _ended_call(kind, event), moment)
            case "token_count" if not self._has_records:
                yield from self._count(object_of(object_of(event.get("info")).get("total_token_usage")))
            case "task_started":
                if self._is_at_work:
                    yield Interrupted()
                self._is_at_work = True
            case "task_complete":
                self._is_at_work = False
            case "turn_aborted":
                self._is_at_work = False
                yield Interrupted()
            case "error":
                yield Failed(text_of(event.get("message")) or "no details")

    def _done_item(self, item: JsonObject, moment: str | None) -> Iterator[Step]:
        found = _completed_call(item)
        if found is not None:
            yield from self._done_call(str(item.get("id", "")), found, moment)

    def _done_call(self, call: str, found: tuple[str, JsonValue, JsonValue], moment: str | None) -> Iterator[Step]:
        tool, given, output = found
        self._done.add(call)
        yield Called(call, tool, given)
        yield Returned(call, output, moment)

    def _count(self, total: JsonObject) -> Iterator[Step]:
        """Yield what was used since the last count; the same count is written several times."""
        if not total:
            return
        now, before = codex_usage(total), self._total
        self._total = now
        used = now if now.total < before.total else _difference(now, before)
        if used.total:
            yield Used(replace(used, requests=1))


def _difference(now: Usage, before: Usage) -> Usage:
    names = ("input", "output", "cached_input", "reasoning", "total")
    return Usage(**{name: max(0, getattr(now, name) - getattr(before, name)) for name in names})


def _completed_call(item: JsonObject) -> tuple[str, JsonValue, JsonValue] | None:
    """Return the tool of a completed item with its input and output, as `codex exec --json` names them."""
    match item.get("type"):
        case "CommandExecution":
            return "command_execution", {"command": _command(item.get("command"))}, _command_output(item)
        case "FileChange":
            return "file_change", {"changes": _changes(item.get("changes"))}, item.get("status")
        case "McpToolCall":
            error = item.get("error")
            tool = f"mcp__{item.get('server')}__{item.get('tool')}"
            return tool, item.get("arguments"), {"error": error} if error else item.get("result")
        case "WebSearch":
            return "web_search", {"query": item.get("query")}, item.get("results", item.get("status"))
        case _:
            return None


def _ended_call(kind: str, event: JsonObject) -> tuple[str, JsonValue, JsonValue]:
    """Return the same for an event of an older version."""
    if kind == "exec_command_end":
        return "command_execution", {"command": _command(event.get("command"))}, _command_output(event)
    if kind == "patch_apply_end":
        status = "completed" if event.get("success") is True else "failed"
        return "file_change", {"changes": _changes(event.get("changes"))}, status
    invocation, result = object_of(event.get("invocation")), object_of(event.get("result"))
    tool = f"mcp__{invocation.get('server')}__{invocation.get('tool')}"
    output: JsonValue = {"error": result["Err"]} if "Err" in result else result.get("Ok", event.get("result"))
    return tool, invocation.get("arguments"), output


def _command_output(item: JsonObject) -> JsonValue:
    output, code = item.get("aggregated_output"), item.get("exit_code")
    return output if code in (0, None) else {"error": output, "exit_code": code}


def _changes(changes: JsonValue) -> JsonValue:
    """Return the changed files with the kind of each change; older versions write the kind as a key."""
    listed = ((path, object_of(change)) for path, change in object_of(changes).items())
    return [{"path": path, "kind": change.get("type", next(iter(change), None))} for path, change in listed]


def _command(words: JsonValue) -> JsonValue:
    """Return the words of a command as one line, quoted as Codex quotes them."""
    return " ".join(_quoted(str(word)) for word in words) if isinstance(words, list) else words


def _quoted(word: str) -> str:
    if word and _PLAIN.issuperset(word):
        return word
    if "'" not in word:
        return f"'{word}'"
    return '"' + "".join(f"\\{sign}" if sign in '$`"\\' else sign for sign in word) + '"'
