"""Which call or answer continues which: by the id of the previous response, else by the messages it begins with."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from operator import attrgetter
from typing import Any

from msgspec import Struct, field

from agentv.types.messages import Message
from agentv.types.messages_json import content_text

_MOST_ENDS = 100_000
_MOST_EQUAL = 1_000
"""Of ends with the same messages, which a test of load makes by the thousand."""
_MOST_ASKERS = 100
_CLOCK_NS = 1_000_000
"""Programs in JavaScript round the start of a span down to a millisecond, but not its end."""


class End(Struct, frozen=True, order=True, gc=False):
    """The end of a conversation."""

    end_ns: int
    name: str
    """The name that it was given."""
    session: str = ""


_moment = attrgetter("end_ns")


class Link(Struct, frozen=True):
    """The end of a conversation that a call continues."""

    end: End
    length: int
    """The number of messages of the input that the end has already, without system messages; 0 if the input has none
    of them, because the server keeps the conversation."""
    is_incomplete: bool = False
    """True if the input does not have the calls of tools of the end as they were made; what precedes is the end's."""


class Asking(Struct, frozen=True):
    """The end of a conversation that waits for the results of tools."""

    end: End
    call_ids: frozenset[str]
    is_silent: bool = False
    """True if no call was recorded, or only without arguments: some instrumentations lose those of streams."""


class OpenEnds(Struct):
    """The ends of conversations that a later call may continue, as hashes: the newest 100,000."""

    ambiguous: int = 0
    """The number of calls that several ends match; each continues the newest."""
    _ends: OrderedDict[int, tuple[End, ...]] = field(default_factory=OrderedDict)
    """By the hash of the conversation, in order of time."""
    _responses: OrderedDict[str, End] = field(default_factory=OrderedDict)
    _asking: dict[int, dict[str, Asking]] = field(default_factory=dict)
    """By the input of the call that asks for tools."""
    _asked: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _askers: OrderedDict[str, list[str]] = field(default_factory=OrderedDict)
    """The names of the ends that ask for tools, by scope, the newest last."""

    def find(
        self, scope: str, messages: Sequence[Message], start_ns: int, previous_id: str | None = None
    ) -> Link | None:
        """Return the newest end within the scope that a call with these messages continues, and take it away.

        An end that is later than the start of the call, by their clock, is not continued by it.
        """
        if previous_id is not None and previous_id in self._responses:
            return self._taken(Link(self._responses.pop(previous_id), 0))
        hashes = _hashes(scope, messages)
        for length in range(len(hashes) - 1, 0, -1):  # the longest first; a call has a message of its own
            ends = self._ends.get(hashes[length - 1], ())
            found = bisect_left(ends, start_ns + _CLOCK_NS, key=_moment)
            if found:
                fitting = None if found == 1 else self._with_calls(ends[:found], messages)
                self.ambiguous += found > 1 and fitting is None
                place = found - 1 if fitting is None else fitting
                self._ends[hashes[length - 1]] = (*ends[:place], *ends[place + 1 :])
                if len(ends) == 1:
                    del self._ends[hashes[length - 1]]
                return self._taken(Link(ends[place], length))
        told = [each for each in messages if each.role != "system"]
        return self._find_asking(hashes, told, start_ns) or self._find_asker(scope, told, start_ns)

    def _with_calls(self, ends: Sequence[End], messages: Sequence[Message]) -> int | None:
        """Return the place of the only one of the newest ends whose calls of tools have results in the messages."""
        given = {each.tool_call_id for each in messages if each.role == "tool"}
        if not given:
            return None
        newest = range(max(0, len(ends) - _MOST_ASKERS), len(ends))
        names = ((place, ends[place].name) for place in newest)
        asking = ((place, self._asking[self._asked[name]][name]) for place, name in names if name in self._asked)
        found = [place for place, asks in asking if asks.call_ids & given]
        return found[0] if len(found) == 1 else None

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
                    each.end
                    for each in asking.values()
                    if is_over(each.end.end_ns, start_ns)
                    and (given is None or not each.call_ids or given in each.call_ids)
                ]
                if found:
                    self.ambiguous += len(found) > 1
                    first = next(place for place in results if place >= length)
                    end = max(found)
                    calls = [call.id for each in messages[length:first] for call in each.tool_calls]
                    known = asking[end.name].call_ids
                    says_more = asking[end.name].is_silent or 0 < len(known) < len(calls)
                    is_incomplete = not (calls and known <= set(calls) and says_more)
                    return self._taken(Link(end, first, is_incomplete=is_incomplete))
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
        asking = [self._asking[self._asked[name]][name] for name in names]
        ended = [each for each in asking if is_over(each.end.end_ns, start_ns)]
        found = [each for each in ended if each.call_ids & given] or ended
        if not found:
            return None
        self.ambiguous += len(found) > 1
        return self._taken(Link(found[-1].end, 0))

    def _forget(self, name: str) -> None:
        """Do not find an end by its input any more."""
        key = self._asked.pop(name, None)
        if key is not None:
            del self._asking[key][name]
            if not self._asking[key]:
                del self._asking[key]

    def _taken(self, link: Link) -> Link:
        """Return the link to an end, which no other call continues by its input."""
        self._forget(link.end.name)
        return link

    def add(
        self,
        scope: str,
        messages: Sequence[Message],
        end: End,
        response_id: str | None = None,
        *,
        given: Sequence[Message] = (),
    ) -> None:
        """Add the end of a conversation; `given` is the recorded input of its last call, if it may wait for tools."""
        if response_id is not None:
            self._responses[response_id] = end
            _limit(self._responses)
        hashes = _hashes(scope, messages)
        if not hashes:
            return
        ends = self._ends.get(hashes[-1], ())
        place = bisect_right(ends, end)
        self._ends[hashes[-1]] = (*ends[:place], end, *ends[place:])[-_MOST_EQUAL:]
        _limit(self._ends)
        calls = messages[-1].tool_calls
        inputs = _hashes(scope, given) if calls or not content_text(messages[-1].content) else ()
        if inputs:
            ids = frozenset(call.id for call in calls if call.id is not None)
            asking = self._asking.setdefault(inputs[-1], {})
            asking[end.name] = Asking(end, ids, is_silent=not any(call.input for call in calls))
            self._asked[end.name] = inputs[-1]
            askers = self._askers.setdefault(scope, [])
            askers[:] = [*(each for each in askers[-_MOST_ASKERS:] if each in self._asked), end.name]
            _limit(self._askers)
            if len(asking) > _MOST_EQUAL:
                self._forget(next(iter(asking)))
            elif len(self._asked) > _MOST_ENDS:
                self._forget(next(iter(self._asked)))


def is_over(end_ns: int, start_ns: int) -> bool:
    """Return True unless an end is later than a start, by the clocks of the programs that recorded them."""
    return end_ns - start_ns < _CLOCK_NS


def without_silence(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return messages without an empty answer at their end, whose call of a tool was not recorded."""
    last = messages[-1] if messages else None
    is_silent = last is not None and last.role == "assistant" and not last.content and not last.tool_calls
    return messages[:-1] if is_silent else messages


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


def input_keys(scope: str, messages: Sequence[Message]) -> list[str]:
    """Return what is equal for equal beginnings of an input in a scope, for each message that is not the system's."""
    return [f"{each:x}" for each in _hashes(scope, messages)]


def message_key(message: Message) -> Hashable:
    """Return what makes two records of a message equal: role, text, and calls or the id of the call."""
    calls = repr([(call.tool, call.input) for call in message.tool_calls]) if message.tool_calls else ""
    text = content_text(message.content).strip() if message.content is not None else ""
    return message.role, text, calls, message.tool_call_id if message.role == "tool" else None
