"""What an agent prints: lines become events, events become steps, and both a log, while the agent runs."""

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TypeAlias

from agentv.providers.agent_json import iso, objects_of, parse_object
from agentv.providers.agent_log import AgentLog
from agentv.providers.agent_steps import Step, Transcript, summary_of
from agentv.templating.secrets import Striker
from agentv.types.json_value import JsonObject
from agentv.types.protocols import Clock

ReadEvent: TypeAlias = Callable[[JsonObject, str], Iterable[Step]]
"""Turns one event into steps; also given the moment it arrived, as ISO 8601. Never raises, whatever the event."""

MAX_STREAM_BYTES = 256 * 2**20
MAX_KEPT_BYTES = 32 * 2**20
"""Of lines that are events, or no events at all; what merely repeats them in pieces is not kept."""

_TAIL = 2_000
_TYPE = re.compile(r'\{"type":\s?"([^"\\]*)"')


class AgentStream:
    """Hears what an agent prints. `noise` are the types of events that only repeat others piece by piece.

    Secrets are struck from each line before anything is made of it; noise is not even logged, since a secret may be
    spread over its pieces. `tail` is the end of what was heard.
    """

    def __init__(
        self, read: ReadEvent, log: AgentLog, *, striker: Striker, clock: Clock, noise: frozenset[str] = frozenset()
    ) -> None:
        self.transcript = Transcript()
        self.log = log
        self.tail = ""
        self._read = read
        self._striker = striker
        self._clock: Callable[[], datetime] = clock
        self._noise = noise
        self._rest = bytearray()
        self._plain: list[str] = []
        self._heard = 0
        self._kept = 0

    def hear(self, chunk: bytes) -> bool:
        """Take output as it comes; False when it is more than any answer can be."""
        self._heard += len(chunk)
        self._rest += chunk
        if b"\n" in chunk:
            *lines, rest = self._rest.split(b"\n")
            self._rest = rest
            for line in lines:
                self._take(line)
        return self._heard <= MAX_STREAM_BYTES and self._kept + len(self._rest) <= MAX_KEPT_BYTES

    def end(self) -> None:
        """Take what came after the last line end; output that is no lines of events may be one document of them."""
        self._take(self._rest)
        self._rest = bytearray()
        text = "\n".join(self._plain)
        document = parse_object(text) or parse_object(f'{{"events": {text}}}')
        for event in _events_in(document or {}):
            self._event(event)

    def strike(self, text: str) -> str:
        """Return a text without secrets."""
        return self._striker.strike(text)

    def note(self, text: str) -> None:
        """Write a line of our own into the log."""
        self.log.line(iso(self._clock()), self.strike(text))

    def _take(self, raw: bytes | bytearray) -> None:
        line = self.strike(raw.decode("utf-8", "replace").strip())
        shape = _TYPE.match(line)
        if not line or (shape and shape[1] in self._noise):
            return
        event = parse_object(line)
        if event is None:
            self._plain.append(line)
        elif event.get("type") in self._noise:
            return
        self._kept += len(raw)
        self.tail = f"{self.tail}\n{line}"[-_TAIL:]
        self.log.raw(line)
        if event is not None:
            self._event(event)

    def _event(self, event: JsonObject) -> None:
        at = iso(self._clock())
        for step in self._read(event, at):
            if not self.transcript.knows(step):
                self.log.line(at, summary_of(step))
            self.transcript.add(step)


def _events_in(document: JsonObject) -> tuple[JsonObject, ...]:
    """Return the events of a document: of a list, as which it is wrapped here, or itself."""
    return objects_of(document["events"]) if document.keys() == {"events"} else (document,) if document else ()
