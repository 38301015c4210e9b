"""Which call or answer continues which: by the id of the previous response, else by the messages it begins with."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

from msgspec import Struct, field

from agentv.types.messages import Message
from agentv.types.messages_json import content_text

_MOST_ENDS = 100_000


class Link(Struct, frozen=True):
    """The end of a conversation that a call continues."""

    name: str
    """The name that the end was given."""
    length: int
    """The number of messages of the input that the end has already, without system messages; 0 if the input has none
    of them, because the server keeps the conversation."""
    is_incomplete: bool = False
    """True if the input does not have the calls of tools of the end as they were made; what precedes is the end's."""


class Asking(Struct, frozen=True):
    """The end of a conversation that waits for the results of tools."""

    end_ns: int
    call_ids: frozenset[str]


class OpenEnds(Struct):
    """The ends of conversations that a later call may continue, as hashes: the newest 100,000."""

    ambiguous: int = 0
    """The number of calls that several ends match; each continues the newest."""
    _ends: OrderedDict[int, list[tuple[int, str]]] = field(default_factory=OrderedDict)
    _responses: OrderedDict[str, str] = field(default_factory=OrderedDict)
    _asking: OrderedDict[int, dict[str, Asking]] = field(default_factory=OrderedDict)
    """By the input of the call that asks for tools."""
    _asked: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def find(
        self, scope: str, messages: Sequence[Message], start_ns: int, previous_id: str | None = None
    ) -> Link | None:
        """Return the newest end within the scope that a call with these messages continues, and take it away.

        An end that is later than the start of the call is not continued by it.
        """
        if previous_id is not None and previous_id in self._responses:
            return self._forget(Link(self._responses.pop(previous_id), 0))
        hashes = _hashes(scope, messages)
        for length in range(len(hashes) - 1, 0, -1):  # the longest first; a call has a message of its own
            ends = self._ends.get(hashes[length - 1])
            found = [place for place, (end_ns, _) in enumerate(ends or ()) if end_ns <= start_ns]
            if ends and found:
                self.ambiguous += len(found) > 1
                _, name = ends.pop(found[-1])
                if not ends:
                    del self._ends[hashes[length - 1]]
                return self._forget(Link(name, length))
        return self._find_asking(hashes, [each for each in messages if each.role != "system"], start_ns)

    def _find_asking(self, hashes: Sequence[int], messages: Sequence[Message], start_ns: int) -> Link | None:
        """Return the newest end that asks for tools whose results a call has, though not what asks for them.

        Some instrumentations leave out the assistant's calls, or record them as texts.
        """
        results = [place for place, message in enumerate(messages) if message.role == "tool"]
        for result in reversed(results):
            start = result
            while start and messages[start - 1].role in ("assistant", "tool"):
                start -= 1
            given = messages[result].tool_call_id
            for length in range(result, max(start, 1) - 1, -1):
                asking = self._asking.get(hashes[length - 1]) or {}
                found = [
                    (each.end_ns, name)
                    for name, each in asking.items()
                    if each.end_ns <= start_ns and (given is None or not each.call_ids or given in each.call_ids)
                ]
                if found:
                    self.ambiguous += len(found) > 1
                    first = next(place for place in results if place >= length)
                    return self._forget(Link(max(found)[1], first, is_incomplete=True))
        return None

    def _forget(self, link: Link) -> Link:
        """Return a link whose end is not found by its input any more."""
        key = self._asked.pop(link.name, None)
        if key is not None and key in self._asking:
            del self._asking[key][link.name]
            if not self._asking[key]:
                del self._asking[key]
        return link

    def add(
        self,
        scope: str,
        messages: Sequence[Message],
        end_ns: int,
        name: str,
        response_id: str | None = None,
        *,
        input_length: int = 0,
    ) -> None:
        """Add the end of a conversation; `input_length` is that of the last call, if the end may wait for tools."""
        if response_id is not None:
            self._responses[response_id] = name
            _limit(self._responses)
        hashes = _hashes(scope, messages)
        if not hashes:
            return
        ends = self._ends.setdefault(hashes[-1], [])
        ends.append((end_ns, name))
        ends.sort()
        _limit(self._ends)
        length = sum(message.role != "system" for message in messages[:input_length])
        if length and may_call(messages[-1]):
            ids = frozenset(call.id for call in messages[-1].tool_calls if call.id is not None)
            self._asking.setdefault(hashes[length - 1], {})[name] = Asking(end_ns, ids)
            self._asked[name] = hashes[length - 1]
            _limit(self._asking)
            _limit(self._asked)


def may_call(message: Message) -> bool:
    """Return True for an answer with calls of tools, and for one without anything: some record no calls."""
    return bool(message.tool_calls) or (message.role == "assistant" and not message.content)


def without_silent_end(messages: tuple[Message, ...], length: int) -> tuple[tuple[Message, ...], int]:
    """Return messages without an answer that records nothing, and how many of them a later input has.

    `length` is that number for messages that end with calls, which the later input has in its own form.
    """
    if not messages or messages[-1].tool_calls:
        return messages, length
    return messages[:-1], sum(message.role != "system" for message in messages[:-1])


def _limit(items: OrderedDict[Any, Any]) -> None:
    while len(items) > _MOST_ENDS:
        items.popitem(last=False)


def _hashes(scope: str, messages: Sequence[Message]) -> list[int]:
    """Return the hash of each beginning of a conversation; system messages and the names of speakers do not count."""
    made: list[int] = []
    total = hash(scope)
    for message in messages:
        if message.role != "system":
            total = hash((total, message_key(message)))
            made.append(total)
    return made


def input_key(scope: str, messages: Sequence[Message]) -> str | None:
    """Return what is equal for equal inputs of a scope; None for an input without messages."""
    hashes = _hashes(scope, messages)
    return f"{hashes[-1]:x}" if hashes else None


def message_key(message: Message) -> Hashable:
    """Return what makes two records of a message equal: role, text, and calls or the id of the call."""
    calls = repr([(call.tool, call.input) for call in message.tool_calls]) if message.tool_calls else ""
    text = content_text(message.content).strip() if message.content is not None else ""
    return message.role, text, calls, message.tool_call_id if message.role == "tool" else None
