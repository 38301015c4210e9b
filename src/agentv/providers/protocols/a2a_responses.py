"""The response of an A2A agent, collected from JSON events, and the answer made from it. Performs no I/O."""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from agentv.messages.shapes.usages import read_usage
from agentv.providers.apis.responses import notes_on_cost, parse_cost
from agentv.providers.apis.streamed_response import MAX_TEXT
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import DataPart, Message, Part, TextPart, TraceEvent, TraceEventType
from agentv.types.messages_json import compact_json
from agentv.types.provider import ProviderError, ProviderResponse
from agentv.types.usage import Usage

STOPPED_STATES = frozenset({"completed", "failed", "canceled", "rejected", "input-required", "auth-required"})
"""The states in which a task has ended or waits for the user."""

_FINAL_STATES = frozenset({"completed", "failed", "canceled", "rejected"})
"""The states after which a task has no other."""

_PREFIX = "TASK_STATE_"
_USAGE_KEYS = ("usage", "usageMetadata", "usage_metadata", "adk_usage_metadata")


class A2aResponse:
    """The response to one message, collected from its events: a message, or a task with its updates and artifacts.

    `context_id` and `task_id` are those of the message, if it has any: the response must have the same. A task may have
    a message about each of its states; `_status_message` is the one about the current state. `_chunks` has the parts of
    artifacts that come in chunks, `_sizes` the characters of each artifact, and `_size` all characters so far.
    """

    def __init__(self, *, context_id: str = "", task_id: str = "") -> None:
        self.task_id = task_id
        self.context_id = context_id
        self.state = ""
        self.updates: list[TraceEvent] = []
        self._has_task = False
        self._message: JsonObject | None = None
        self._status_message: JsonObject | None = None
        self._earlier_messages: list[JsonObject] = []
        self._history: list[JsonObject] = []
        self._artifacts: dict[str, JsonObject] = {}
        self._chunks: dict[str, list[JsonObject]] = {}
        self._sizes: dict[str, int] = {}
        self._size = 0
        self._metadata: list[JsonObject] = []

    @property
    def is_over(self) -> bool:
        """True if no further event of this response can follow."""
        return self._message is not None or self.state in STOPPED_STATES

    @property
    def is_empty(self) -> bool:
        """True if there was neither a message nor a task."""
        return self._message is None and not self._has_task

    def add(self, event: JsonObject) -> None:
        """Add an event: an object with `message`, `task`, `statusUpdate` or `artifactUpdate`.

        Raises ProviderError for an event of another task or context, and for one that contradicts an earlier one.
        """
        for key, value in event.items():
            if not isinstance(value, Mapping):
                continue
            self._identify(value, id_key="id" if key == "task" else "taskId")
            self._has_task |= key != "message" and bool(self.task_id)
            self._add_metadata(value)
            if key == "message":
                _refuse_user(value)
                self._message = value
            elif key == "task":
                self._add_task(value)
            elif key == "statusUpdate":
                self._add_status(_object(value, "status"))
            elif key == "artifactUpdate":
                self._add_artifact(_object(value, "artifact"), append=value.get("append") is True)

    def _identify(self, value: JsonObject, *, id_key: str) -> None:
        """Set the ids of the response. Raises ProviderError if an event has others."""
        task_id, context_id = _text(value, id_key), _text(value, "contextId")
        for what, found, known in (("task", task_id, self.task_id), ("context", context_id, self.context_id)):
            if found and known and found != known:
                raise _malformed(f"the agent replied with the {what} {found!r:.100} instead of {known!r:.100}")
        self.task_id = task_id or self.task_id
        self.context_id = context_id or self.context_id

    def _add_metadata(self, source: JsonObject) -> None:
        if metadata := _object(source, "metadata"):
            self._metadata.append(metadata)

    def _add_task(self, task: JsonObject) -> None:
        self._history = list(_objects(task.get("history"))) or self._history
        for artifact in _objects(task.get("artifacts")):
            self._add_artifact(artifact, append=False)
        self._add_status(_object(task, "status"))

    def _add_status(self, status: JsonObject) -> None:
        state = _text(status, "state").removeprefix(_PREFIX).lower().replace("_", "-")
        if self.state in _FINAL_STATES and state != self.state:
            if not state:
                return
            raise _malformed(f"the agent's task has the state {state!r:.100} after {self.state!r}")
        message = _object(status, "message")
        text = parts_as_text(message)
        _refuse_user(message)
        self._add_metadata(message)
        if message or state != self.state:  # the message about the last state no longer applies
            if self._status_message is not None:
                self._earlier_messages.append(self._status_message)
            self._status_message = message or None
        last = self.updates[-1] if self.updates else None
        if last is None or (last.name, last.text or "") != (state, text):
            self._grow(len(text))
            kind: TraceEventType = "message" if text else "model_step"
            self.updates.append(
                TraceEvent(kind, timestamp=_text(status, "timestamp") or None, name=state, text=text or None)
            )
        self.state = state

    def _add_artifact(self, artifact: JsonObject, *, append: bool) -> None:
        key = _text(artifact, "artifactId")
        self._add_metadata(artifact)
        parts = list(_objects(artifact.get("parts")))
        size = sum(len(_text(part, "text")) for part in parts)
        if append and key in self._artifacts:
            self._chunks.setdefault(key, list(_objects(self._artifacts[key].get("parts")))).extend(parts)
            size += self._sizes[key]
        else:
            self._artifacts[key] = artifact
            self._chunks.pop(key, None)
        self._grow(size - self._sizes.get(key, 0))
        self._sizes[key] = size

    def _grow(self, characters: int) -> None:
        self._size += characters
        if self._size > MAX_TEXT:
            message = f"the texts of the answer and of its states are larger than {MAX_TEXT / 2**20:g} MiB together"
            raise ProviderError(Failure("too_large", message))

    def _whole_artifacts(self) -> list[JsonObject]:
        chunks = self._chunks
        return [
            {**artifact, "parts": _joined(chunks[key])} if key in chunks else artifact
            for key, artifact in self._artifacts.items()
        ]

    def status_text(self) -> str:
        """Return the text of the agent's message about the current state of its task; "" if there is none."""
        return parts_as_text(self._status_message or {})

    def to_response(self) -> ProviderResponse:
        """Return the answer: the message, else the task's artifacts, else the last message of the agent in the task."""
        sources = [self._message] if self._message is not None else self._whole_artifacts()
        parts = [part for source in sources for part in _objects(source.get("parts"))]
        if not parts:
            sources = [self._status_message] if self._status_message is not None else self._last_agent_turns()[-1:]
            parts = [part for source in sources for part in _objects(source.get("parts"))]
        text = "\n".join(parts_as_text(source) for source in sources)
        about: dict[str, JsonValue] = {
            key: value
            for key, value in (("state", self.state), ("task", self.task_id), ("context", self.context_id))
            if value
        }
        content: str | tuple[Part, ...] = text
        if any("text" not in part for part in parts):
            content = tuple(map(_recorded, parts))
        return ProviderResponse(
            text,
            output_messages=(Message("assistant", content, metadata=about or None),),
            trace=tuple(self.updates) or None,
            usage=self._usage(),
            cost_usd=next((cost for each in reversed(self._metadata) if (cost := parse_cost(each)) is not None), None),
            notes=tuple(dict.fromkeys(note for each in self._metadata for note in notes_on_cost(each))),
            finish_reason=self.state or None,
            session=self.context_id or None,
        )

    def _last_agent_turns(self) -> list[JsonObject]:
        """Return the agent's turns since the user's last turn, without its messages about earlier states."""
        users = [index for index, turn in enumerate(self._history) if _text(turn, "role") == "ROLE_USER"]
        start = users[-1] + 1 if users else 0
        of_agent = [turn for turn in self._history[start:] if _text(turn, "role") == "ROLE_AGENT"]
        earlier = set(map(compact_json, self._earlier_messages))
        return [turn for turn in of_agent if compact_json(turn) not in earlier]

    def _usage(self) -> Usage | None:
        """Return the token counts of the last metadata that has any."""
        for metadata in reversed(self._metadata):
            for value in (*(metadata.get(key) for key in _USAGE_KEYS), metadata):
                if isinstance(value, Mapping) and (usage := read_usage(value)) is not None:
                    return usage
        return None


def parts_as_text(source: JsonObject) -> str:
    """Return the parts of a message or an artifact as text; a file becomes its name, type and size in brackets."""
    return "\n".join(map(_part_as_text, _objects(source.get("parts"))))


def _part_as_text(part: JsonObject) -> str:
    if "data" in part:
        return compact_json(part["data"])
    recorded = _recorded(part)
    if isinstance(recorded, TextPart):
        return recorded.text
    about = [str(recorded.value[key]) for key in ("filename", "url", "mediaType") if recorded.value.get(key)]
    if "bytes" in recorded.value:
        about.append(f"{recorded.value['bytes']} bytes")
    return f"[{recorded.type}: {', '.join(about)}]" if about else f"[{recorded.type}]"


def _recorded(part: JsonObject) -> TextPart | DataPart:
    """Return a part as it is stored: with the size and digest of a file instead of its bytes."""
    if "text" in part:
        return TextPart(str(part["text"]))
    if "data" in part:
        return DataPart("data", part)
    if not isinstance(part.get("raw"), str):
        return DataPart("file" if "url" in part else "unknown", part)
    rest = {key: value for key, value in part.items() if key != "raw"}
    try:
        content = base64.b64decode(str(part["raw"]), validate=True)
    except (binascii.Error, ValueError):
        return DataPart("file", {**rest, "invalid_base64": str(part["raw"])[:100]})
    return DataPart("file", {**rest, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()})


def _joined(parts: Iterable[JsonObject]) -> list[JsonValue]:
    """Return the parts of an artifact that came in chunks; consecutive texts are joined."""
    joined: list[JsonValue] = []
    for is_text, group in groupby(parts, key=lambda part: set(part) == {"text"}):
        alike = list(group)
        joined += [{"text": "".join(_text(part, "text") for part in alike)}] if is_text else alike
    return joined


def _refuse_user(message: JsonObject) -> None:
    if _text(message, "role") == "ROLE_USER":
        raise _malformed("the agent replied with a message with the role of the user")


def _malformed(message: str) -> ProviderError:
    return ProviderError(Failure("malformed_reply", message))


def _text(value: JsonObject, key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def _object(value: JsonObject, key: str) -> JsonObject:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def _objects(value: JsonValue) -> Iterator[JsonObject]:
    if isinstance(value, list | tuple):
        yield from (item for item in value if isinstance(item, Mapping))
