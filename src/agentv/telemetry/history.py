"""Which call or answer continues which: by the id of the previous response, else by the messages it begins with."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence

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


class OpenEnds(Struct):
    """The ends of conversations that a later call may continue, as hashes: the newest 100,000."""

    ambiguous: int = 0
    """The number of calls that several ends match; each continues the newest."""
    _ends: OrderedDict[int, list[tuple[int, str]]] = field(default_factory=OrderedDict)
    _responses: OrderedDict[str, str] = field(default_factory=OrderedDict)

    def find(
        self, scope: str, messages: Sequence[Message], start_ns: int, previous_id: str | None = None
    ) -> Link | None:
        """Return the newest end within the scope that a call with these messages continues, and take it away.

        An end that is later than the start of the call is not continued by it.
        """
        if previous_id is not None and previous_id in self._responses:
            return Link(self._responses.pop(previous_id), 0)
        hashes = _hashes(scope, messages)
        for length in range(len(hashes) - 1, 0, -1):  # the longest first; a call has a message of its own
            ends = self._ends.get(hashes[length - 1])
            found = [place for place, (end_ns, _) in enumerate(ends or ()) if end_ns <= start_ns]
            if ends and found:
                self.ambiguous += len(found) > 1
                _, name = ends.pop(found[-1])
                if not ends:
                    del self._ends[hashes[length - 1]]
                return Link(name, length)
        return None

    def add(
        self, scope: str, messages: Sequence[Message], end_ns: int, name: str, response_id: str | None = None
    ) -> None:
        """Add the end of a conversation."""
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


def _limit(items: OrderedDict[int, list[tuple[int, str]]] | OrderedDict[str, str]) -> None:
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


def message_key(message: Message) -> Hashable:
    """Return what makes two records of a message equal: role, text, and calls or the id of the call."""
    calls = repr([(call.tool, call.input) for call in message.tool_calls]) if message.tool_calls else ""
    text = content_text(message.content).strip() if message.content is not None else ""
    return message.role, text, calls, message.tool_call_id if message.role == "tool" else None
