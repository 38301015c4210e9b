"""Which call or answer continues which: by the id of the previous response, else by the messages it begins with."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

from msgspec import Struct, field

from agentv.types.messages import Message
from agentv.types.messages_json import content_text

_MOST_ENDS = 100_000
_MOST_ASKERS = 100


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
    is_silent: bool = False
    """True if no call was recorded at all: some instrumentations lose those of streams."""


class OpenEnds(Struct):
    """The ends of conversations that a later call may continue, as hashes: the newest 100,000."""

    ambiguous: int = 0
    """The number of calls that several ends match; each continues the newest."""
    _ends: OrderedDict[int, list[tuple[int, str]]] = field(default_factory=OrderedDict)
    _responses: OrderedDict[str, str] = field(default_factory=OrderedDict)
    _asking: OrderedDict[int, dict[str, Asking]] = field(default_factory=OrderedDict)
    """By the input of the call that asks for tools."""
    _asked: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _askers: OrderedDict[str, list[str]] = field(default_factory=OrderedDict)
    """The names of the ends that ask for tools, by scope, the newest last."""

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
        told = [each for each in messages if each.role != "system"]
        return self._find_asking(hashes, told, start_ns) or self._find_asker(scope, told, start_ns)

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
                    name = max(found)[1]
                    has_calls = any(each.tool_calls for each in messages[length:first])
                    return self._forget(Link(name, first, is_incomplete=not (asking[name].is_silent and has_calls)))
        return None

    def _find_asker(self, scope: str, messages: Sequence[Message], start_ns: int) -> Link | None:
        """Return the newest end that asks for the results of tools with which a call begins, without any question.

        The server keeps what precedes, and the instrumentation does not record the id of the previous response. Ends
        whose ids of calls are the results' come first; some instrumentations record other ids on the two sides.
        """
        given = {each.tool_call_id for each in messages if each.role == "tool"}
        if not messages or messages[0].role != "tool" or any(each.role == "user" for each in messages):
            return None
        names = [name for name in self._askers.get(scope, ()) if name in self._asked]
        asking = {name: self._asking.get(self._asked[name], {}).get(name) for name in names}
        ended = [(name, each.call_ids) for name, each in asking.items() if each is not None and each.end_ns <= start_ns]
        found = [name for name, ids in ended if ids & given] or [name for name, _ in ended]
        if not found:
            return None
        self.ambiguous += len(found) > 1
        return self._forget(Link(found[-1], 0))

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
        calls = messages[-1].tool_calls
        if length and (calls or not content_text(messages[-1].content)):
            ids = frozenset(call.id for call in calls if call.id is not None)
            self._asking.setdefault(hashes[length - 1], {})[name] = Asking(end_ns, ids, is_silent=not calls)
            self._asked[name] = hashes[length - 1]
            askers = self._askers.setdefault(scope, [])
            askers[:] = [*(each for each in askers[-_MOST_ASKERS:] if each in self._asked), name]
            _limit(self._askers)
            _limit(self._asking)
            _limit(self._asked)


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
