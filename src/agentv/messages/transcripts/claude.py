"""Messages of Claude Code: those that the program prints, and the records of its session files.

A session file is a tree by `parentUuid`. Each content block of a message is a record of its own that repeats the usage
of the message. Side chains, the work of subagents, are in files of their own, or in older versions among the records.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.messages.shapes.fields import milliseconds_between
from agentv.messages.transcripts.steps import (
    Called,
    Failed,
    Returned,
    Said,
    SessionInfo,
    Step,
    Used,
    parts_text,
    status_of,
    text_of,
)
from agentv.messages.transcripts.tree import path_to_last
from agentv.messages.transcripts.turns import (
    ATTACHED,
    Asked,
    Conversation,
    Event,
    Interrupted,
    Record,
    Turn,
    Unread,
    make_turns,
)
from agentv.types.failures import FailureKind
from agentv.types.json_value import JsonObject, JsonValue, object_of, objects_of
from agentv.types.usage import Usage, read_cost, read_count


def usage_of(usage: JsonObject, *, requests: int) -> Usage:
    """Return a usage in Anthropic's format; tokens read from or written to the cache count as input."""
    cached = read_count(usage.get("cache_read_input_tokens"))
    sent = read_count(usage.get("input_tokens")) + cached + read_count(usage.get("cache_creation_input_tokens"))
    received = read_count(usage.get("output_tokens"))
    return Usage(
        input=sent,
        output=received,
        cached_input=cached,
        reasoning=read_count(object_of(usage.get("output_tokens_details")).get("thinking_tokens")),
        total=sent + received,
        requests=requests,
    )


def output_of(block: JsonObject) -> JsonValue:
    """Return what a tool returned, as an object with `error` if it failed."""
    output = parts_text(block.get("content"))
    return {"error": output} if block.get("is_error") is True else output


def failure_of(message: str, event: JsonObject) -> Failed:
    """Return the failure in a message that the program itself wrote."""
    kind: FailureKind | None = None
    if event.get("error") == "authentication_failed":
        kind = "auth"
    elif "refusal" in (event.get("stop_reason"), object_of(event.get("message")).get("stop_reason")):
        kind = "content_filter"
    return Failed(message, status_of(event.get("api_error_status")), kind)


_CHAIN_TYPES = ("user", "assistant", "attachment", "system", "progress")
_SIDE_TYPES = tuple(
    "agent-color agent-name agent-setting ai-title api-request api-request-blob api-request-shape atis-latch "  # noqa: SIM905 - a list of words
    "attribution-snapshot content-replacement cost-state custom-title file-history-delta file-history-snapshot "
    "last-prompt mode permission-mode pr-link queue-operation result speculation-accept started summary tag "
    "task-summary tools-used worktree-state".split()
)
"""Types of records beside the conversation, such as titles, snapshots of files and requests to the model."""

_NOT_PROMPTS = (
    "<local-command-",
    "<bash-",
    "<task-notification>",
    "<system-reminder>",
    "<ide_",
    "<user-memory-input>",
    "Caveat:",
)
"""How texts begin that the program puts into messages of the user."""
_CONTEXT = re.compile(r"\A(?:\s*<(system-reminder|ide_\w+)>.*?</\1>\s*)+", re.DOTALL)
"""What the program puts in front of a prompt, such as the file that is open in the editor."""
_INTERRUPTION = "[Request interrupted by user"
_NO_MODEL = "<synthetic>"
"""The model of messages that the program itself wrote."""
_COMMAND = ("<command-name>", "<command-message>")


def is_claude(value: JsonObject) -> bool:
    """Return True for a record of a session file."""
    kind = value.get("type")
    if not isinstance(kind, str) or any(key in value for key in ("prompt", "response", "messages", "data", "input")):
        return False
    if kind == "file-history-snapshot" or (kind == "summary" and "leafUuid" in value):
        return True
    return "sessionId" in value and (kind in _SIDE_TYPES or ("uuid" in value and "parentUuid" in value))


def is_side_chain(value: JsonObject) -> bool:
    """Return True for a record of a subagent."""
    return value.get("isSidechain") is True


def read_claude_session(records: Iterable[Record], side_chains: Iterable[Record] = ()) -> Conversation:
    """Return the conversation that ends with the last record of a session file.

    `side_chains` are the records of the files of its subagents; they become steps below the tool call that started the
    subagent. Prompts on other branches are abandoned.
    """
    listed = list(records)
    main = [each for each in listed if not is_side_chain(each.value)]
    inner = [*(each for each in listed if is_side_chain(each.value)), *side_chains]
    first = next((each.value for each in (*main, *inner) if "sessionId" in each.value), {})
    path, others = _active(main)
    sides = _SideChains.of([*main, *inner])
    turns = make_turns(event for record in path for event in _events_of(record, sides))
    is_subagents = bool(inner) and not any(map(_is_asked, main))
    return Conversation(
        program="claude",
        session=str(first.get("sessionId") or ""),
        turns=_with_copies(_with_costs(turns, listed), path),
        metadata=_metadata(main),
        subagent_of=str(first.get("sessionId")) if is_subagents else None,
        abandoned=tuple(each.line for each in others if _is_asked(each)),
        unread=(*filter(None, map(_unread, listed)), *(() if is_subagents else sides.unread())),
    )


def _metadata(records: Sequence[Record]) -> JsonObject:
    last = next((each.value for each in reversed(records) if "version" in each.value), {})
    known = {"version": last.get("version"), "cwd": last.get("cwd"), "git_branch": last.get("gitBranch")}
    return {name: value for name, value in known.items() if value is not None}


def _unread(record: Record) -> Unread | None:
    kind = record.value.get("type")
    known = kind in _CHAIN_TYPES or kind in _SIDE_TYPES
    return None if known else Unread(record.line, f"record of unknown type {kind!r}")


def _active(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Return the records of the conversation that ends with the last one, and those of abandoned branches.

    The blocks of one message and the results of its tools are children of different records: they belong together.
    """
    chain = [each for each in records if each.value.get("type") in _CHAIN_TYPES]
    path, others = path_to_last(chain, id_of=lambda each: each.get("uuid"), parent_of=_parent_of)
    messages = {_message_key(each.value) for each in path if each.value.get("type") == "assistant"}
    joined = [each for each in others if each.value.get("type") == "assistant" and _message_key(each.value) in messages]
    calls = {call for each in (*path, *joined) for call in _calls_in(each.value)}
    joined += [each for each in others if (results := _results_in(each.value)) and calls.issuperset(results)]
    lines = {each.line for each in joined}
    active = sorted((*path, *joined), key=lambda each: each.line)
    return active, [each for each in others if each.line not in lines]


def _parent_of(value: JsonObject) -> JsonValue:
    """Return the parent of a record.

    A compaction of the conversation begins a new tree. It names the record before it elsewhere, or not at all: then a
    parent that does not exist stands for it.
    """
    is_compaction = value.get("subtype") == "compact_boundary" or value.get("isCompactSummary") is True
    return value.get("parentUuid") or value.get("logicalParentUuid") or ("before" if is_compaction else None)


def _message_key(value: JsonObject) -> tuple[str, str]:
    """Return the identity of a response of the model."""
    message = object_of(value.get("message"))
    return str(message.get("id")), str(value.get("requestId", value.get("requestRef")))


def _blocks(value: JsonObject) -> list[JsonObject]:
    return objects_of(object_of(value.get("message")).get("content"))


def _calls_in(value: JsonObject) -> list[str]:
    return [str(block.get("id")) for block in _blocks(value) if str(block.get("type")).endswith("tool_use")]


def _results_in(value: JsonObject) -> list[str]:
    return [str(each.get("tool_use_id")) for each in _blocks(value) if str(each.get("type")).endswith("tool_result")]


def _text(value: JsonObject) -> str:
    content = object_of(value.get("message")).get("content")
    if isinstance(content, str):
        return content
    texts = "\n".join(str(block["text"]) for block in _blocks(value) if text_of(block.get("text")))
    return texts or (ATTACHED if _has_files(value) else "")


def _has_files(value: JsonObject) -> bool:
    return any(block.get("type") in ("image", "document") for block in _blocks(value))


def _is_asked(record: Record) -> bool:
    return any(isinstance(event, Asked) for event in _prompt_in(record))


def _prompt_in(record: Record) -> Iterator[Asked | Interrupted]:
    """Yield the prompt in a record, or that the user stopped the agent; nothing for a result of a tool."""
    value = record.value
    attachment = object_of(value.get("attachment"))
    moment = text_of(value.get("timestamp"))
    if attachment.get("type") == "queued_command":
        text = parts_text(attachment.get("prompt"))
        if isinstance(text, str) and text and not text.startswith(_NOT_PROMPTS):
            yield Asked(str(value.get("uuid", "")), record.line, text, moment, is_addition=True)
        return
    if value.get("type") != "user" or value.get("isMeta") is True or value.get("isCompactSummary") is True:
        return
    text = _CONTEXT.sub("", _text(value)) or (ATTACHED if _has_files(value) else "")
    if text.startswith(_INTERRUPTION):
        yield Interrupted()
    elif text and not _results_in(value) and not text.startswith(_NOT_PROMPTS):
        is_command = text.startswith(_COMMAND)
        shown = _command_line(text) if is_command else text
        yield Asked(str(value.get("uuid", "")), record.line, shown, moment, is_command=is_command)


def _command_line(text: str) -> str:
    """Return a command as the user typed it."""
    name, arguments = (_between(text, f"<{tag}>", f"</{tag}>") for tag in ("command-name", "command-args"))
    return f"{name} {arguments}".strip() or text


def _between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0].strip()


def _events_of(record: Record, sides: "_SideChains", parent: str | None = None) -> Iterator[Event]:
    """Yield the events of a record; below the tool call `parent`, those of a subagent."""
    value = record.value
    moment = text_of(value.get("timestamp"))
    if parent is None:
        yield from _prompt_in(record)
    if value.get("type") == "assistant":
        yield from _assistant_steps(value, sides, moment, parent)
    for block in _blocks(value) if value.get("type") == "user" else ():
        if str(block.get("type")).endswith("tool_result"):
            call = str(block.get("tool_use_id", ""))
            yield from sides.steps_of(call, record.line)
            yield Returned(_scoped(call, parent), output_of(block), moment)


def _scoped(call: str, parent: str | None) -> str:
    """Return the id of a tool call; subagents count their calls apart."""
    return call if parent is None else f"{parent}/{call}"


def _assistant_steps(value: JsonObject, sides: "_SideChains", moment: str | None, parent: str | None) -> Iterator[Step]:
    message = object_of(value.get("message"))
    is_own_error = message.get("model") == _NO_MODEL and _text(value).startswith("API Error")
    if value.get("isApiErrorMessage") is True or value.get("error") is not None or is_own_error:
        yield failure_of(_text(value) or "no details", {**value, "api_error_status": value.get("apiErrorStatus")})
        return
    if message.get("model") == _NO_MODEL:
        return  # "No response requested.", when a session is resumed
    if parent is None:
        yield SessionInfo(model=text_of(message.get("model")), finish_reason=text_of(message.get("stop_reason")))
    if (usage := sides.take_usage(value)) is not None:
        yield Used(usage)
    for block in _blocks(value):
        text = text_of(block.get("text"))
        if block.get("type") == "text" and text:
            yield Said(text, moment, parent)
        elif str(block.get("type")).endswith("tool_use"):
            call = _scoped(str(block.get("id", "")), parent)
            yield Called(call, str(block.get("name", "")), block.get("input"), moment, parent)
        elif str(block.get("type")).endswith("tool_result"):  # of a tool that the model's server runs
            yield Returned(_scoped(str(block.get("tool_use_id", "")), parent), output_of(block), moment)


class _SideChains(Struct):
    """The work of subagents by the tool call that started them, and the usage of each response of a model."""

    chains: dict[str, list[Record]] = field(default_factory=dict)
    """The records of each subagent, by its id, else by its prompt."""
    agents: dict[str, str] = field(default_factory=dict)
    """The subagent that each tool call started."""
    usages: dict[tuple[str, str, str], Usage] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, records: Sequence[Record]) -> "_SideChains":
        """Sort the records of a session and of its subagents."""
        sides = cls()
        roots: dict[str, str] = {}
        for record in records:
            value = record.value
            if is_side_chain(value):
                name = _agent_of(value, roots)
                sides.chains.setdefault(name, []).append(record)
            sides._add_calls(value)
            usage = object_of(object_of(value.get("message")).get("usage"))
            if value.get("type") == "assistant" and usage:
                sides.usages[*_message_key(value), str(value.get("agentId"))] = usage_of(usage, requests=1)
        return sides

    def _add_calls(self, value: JsonObject) -> None:
        agent = text_of(object_of(value.get("toolUseResult")).get("agentId"))
        for call in _results_in(value) if agent else ():
            self.agents[call] = str(agent)
        for block in _blocks(value) if value.get("type") == "assistant" else ():
            prompt = text_of(object_of(block.get("input")).get("prompt"))
            if prompt:
                self.agents.setdefault(str(block.get("id")), prompt)

    def take_usage(self, value: JsonObject) -> Usage | None:
        """Return the usage of a response the first time that it is asked for: its last record has the whole usage."""
        return self.usages.pop((*_message_key(value), str(value.get("agentId"))), None)

    def steps_of(self, call: str, line: int) -> Iterator[Step]:
        """Yield the steps of the subagent that a tool call started, once."""
        agent = self.agents.get(call)
        if agent is None or agent in self.placed or agent not in self.chains:
            return
        self.placed.add(agent)
        for record in self.chains[agent]:
            inner = _events_of(replace(record, line=line), self, call)
            yield from (event for event in inner if not isinstance(event, Asked | Interrupted))

    def unread(self) -> Iterator[Unread]:
        """Yield the subagents that no tool call of the conversation started."""
        for agent, records in self.chains.items():
            if agent not in self.placed:
                yield Unread(records[0].line, "side chain that no tool call started")


def _agent_of(value: JsonObject, roots: dict[str, str]) -> str:
    """Return the id of a record's subagent; without one, the prompt at the root of its chain, kept in `roots`."""
    agent = text_of(value.get("agentId"))
    if agent is not None:
        return agent
    root = roots.get(str(value.get("parentUuid"))) or _text(value)
    roots[str(value.get("uuid"))] = root
    return root


_COPY_MS = 100
"""A copy has the times at which the session was resumed; no model answers as fast."""


def _with_copies(turns: Sequence[Turn], path: Sequence[Record]) -> tuple[Turn, ...]:
    """Return the turns, marked as copies if an earlier session has them.

    Some versions repeat a session that they resume, with other ids, other times and without the ids of requests.
    """
    answers = [
        each
        for each in path
        if each.value.get("type") == "assistant" and object_of(each.value.get("message")).get("model") != _NO_MODEL
    ]
    if not turns or not any("requestId" in each.value for each in answers):
        return tuple(turns)
    ends = [*(turn.asked.line for turn in turns[1:]), sys.maxsize]
    marked = []
    for turn, end in zip(turns, ends, strict=True):
        own = [each.value for each in answers if turn.asked.line < each.line < end]
        took_ms = milliseconds_between(turn.asked.at or "", turn.ended_at or "")
        is_copy = bool(own) and took_ms is not None and took_ms < _COPY_MS
        marked.append(replace(turn, is_copy=is_copy and not any("requestId" in each for each in own)))
    return tuple(marked)


def _with_costs(turns: Sequence[Turn], records: Sequence[Record]) -> tuple[Turn, ...]:
    """Return the turns with their costs.

    When it ends, the program writes the cost of the session so far: that of a turn is known if it is the only one
    between two such records.
    """
    costed = list(turns)
    before, since = 0.0, -1
    for record in records:
        if record.value.get("type") != "cost-state":
            continue
        total = None if record.value.get("hasUnknownModelCost") is True else read_cost(record.value.get("totalCostUSD"))
        places = [at for at, turn in enumerate(turns) if since < turn.asked.line < record.line]
        if total is not None and len(places) == 1:
            cost = total - before if total >= before else total
            at = places[0]
            costed[at] = replace(costed[at], steps=(*costed[at].steps, Used(Usage(), cost)))
        before, since = total or 0.0, record.line
    return tuple(costed)
