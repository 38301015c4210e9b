"""Lines of a dataset that hold nothing but texts, as most do: read at one go, in a tenth of the time of a model."""

from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from agentv.types.cases import EvalCase, Location
from agentv.types.messages import Message, Role

_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]


class _Message(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    role: Role
    content: str


class _Case(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What is read here of eval_models.CaseModel; a test holds the two together."""

    id: _Name
    expected_outcome: _Name
    input_messages: Annotated[list[_Message], msgspec.Meta(min_length=1)]
    expected_messages: list[_Message] | UnsetType = UNSET
    conversation_id: str | UnsetType = UNSET
    tags: list[_Name] | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Case).decode


def read_plain(line: bytes, location: Location) -> EvalCase | None:
    """Return the case on a line; None when there is anything on it that needs, or deserves, a closer look."""
    try:
        found = _decode(line)
    except (msgspec.DecodeError, UnicodeError):
        return None
    # A key that stands twice shows only in that the line has more texts than the case. Where backslashes stand before
    # backslashes, nobody can tell at a glance which quotes are part of a text.
    if b"\\\\" in line or line.count(b'"') - line.count(b'\\"') != 2 * _count_texts(found):
        return None
    return EvalCase(
        id=found.id,
        input_messages=_messages(found.input_messages),
        expected_outcome=found.expected_outcome,
        expected_messages=_messages(found.expected_messages) if found.expected_messages else (),
        conversation_id=None if found.conversation_id is UNSET else found.conversation_id,
        tags=tuple(found.tags or ()),
        metadata={} if found.metadata is UNSET else found.metadata,
        location=location,
    )


def _messages(read: list[_Message]) -> tuple[Message, ...]:
    return tuple([Message(each.role, each.content) for each in read])


def _count_texts(case: _Case) -> int:
    """Return how many texts a line with this case holds, keys included."""
    count = 5 + 4 * len(case.input_messages)
    if case.expected_messages is not UNSET:
        count += 1 + 4 * len(case.expected_messages)
    if case.conversation_id is not UNSET:
        count += 2
    if case.tags is not UNSET:
        count += 1 + len(case.tags)
    if case.metadata is not UNSET:
        count += 1 + 2 * len(case.metadata)
    return count
