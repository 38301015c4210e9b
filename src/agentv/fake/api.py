"""The interface of a model API to the server: reading requests, writing replies and refusals."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from agentv.fake.conversation import Question, Reply
from agentv.types.json_value import JsonObject, JsonValue

CREATED = 1_767_225_600
"""The constant creation time of all objects, 2026-01-01, so that replies do not change from run to run."""

_PIECE = re.compile(r"\S+\s*|\s+")


class Problem(Struct, frozen=True):
    """The reason for a refusal, independent of the API. `code` is the machine-readable code of some APIs."""

    status: int
    message: str
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


class RefusedError(Exception):
    """A request that cannot be answered; the server writes it in the API's own form."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Api(Struct, frozen=True):
    """One API. `read` raises RefusedError for a request that the real API would refuse.

    `stream` yields a reply's events as they are sent, and `report` returns the event that reports an error in the
    middle of them. `speaks` is False for an API that only counts or embeds its input, without a reply of the model.
    `check` raises RefusedError for a body that needs other headers.
    """

    name: str
    read: Callable[[JsonObject, str], Question]
    write: Callable[[Question, Reply], JsonObject]
    refuse: Callable[[Problem], JsonObject]
    stream: Callable[[Question, Reply], Iterator[str]] | None = None
    report: Callable[[Problem], str] | None = None
    speaks: bool = True
    billed: bool = True
    refuses_blocked_prompts: bool = True
    needed_headers: tuple[str, ...] = ()
    needed_query: tuple[str, ...] = ()
    check: Callable[[JsonObject, Mapping[str, str]], None] | None = None


def refused(message: str, *, status: int = 400) -> RefusedError:
    """Return the error for a request that the API would refuse."""
    return RefusedError(Problem(status, message))


def event(data: JsonValue, name: str | None = None) -> str:
    """Return one server-sent event; `data` becomes one line of JSON."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n"


def pieces(text: str) -> list[str]:
    """Split a text into words with their spaces, for streaming."""
    return _PIECE.findall(text)


def as_object(value: JsonValue) -> JsonObject:
    """Return a JSON object, {} for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: JsonValue) -> Sequence[JsonValue]:
    """Return a JSON array, [] for anything else."""
    return value if isinstance(value, list) else []


def as_text(value: JsonValue) -> str:
    """Return a string, "" for anything else."""
    return value if isinstance(value, str) else ""


def as_count(value: JsonValue) -> int | None:
    """Return a whole number, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def objects(value: JsonValue) -> list[JsonObject]:
    """Return the objects in a JSON array."""
    return [item for item in as_list(value) if isinstance(item, Mapping)]


def joined_texts(content: JsonValue) -> str:
    """Return content as text: a string itself, or the `text` of each of its parts, one per line."""
    if isinstance(content, str):
        return content
    return "\n".join(text for part in objects(content) if (text := as_text(part.get("text"))))
