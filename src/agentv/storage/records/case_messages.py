"""Convert a planned case's messages to and from records, with all fields of attached files."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from agentv.storage.records.narrow import optional_text, read_integer, read_text
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import DataPart, FilePart, Message, Part
from agentv.types.messages_json import message_to_json, messages_from_json, part_to_json

BLOB_KEY = "$blob"


class BlobReference(dict[str, JsonValue]):
    """A reference `{"$blob": "sha256:…", "bytes": n, "media_type": …}`; its class marks it as ours, not a user's."""

    @classmethod
    def to(cls, sha256: str, *, size: int, media_type: str) -> "BlobReference":
        """Return a reference to the blob with this hash."""
        return cls({BLOB_KEY: f"sha256:{sha256}", "bytes": size, "media_type": media_type})

    def described(self) -> JsonObject:
        """Return `sha256` (hexadecimal), `bytes` and `media_type` of the blob."""
        return {**self, "sha256": str(self[BLOB_KEY]).removeprefix("sha256:")}


def case_messages_to_record(messages: Iterable[Message]) -> list[JsonValue]:
    """Return a case's messages as records; attached files have path, hash, size and text."""
    return list(map(_message_to_record, messages))


def _message_to_record(message: Message) -> dict[str, JsonValue]:
    record = message_to_json(message)
    if isinstance(message.content, tuple):
        record["content"] = [
            _file_to_record(part) if isinstance(part, FilePart) else part_to_json(part) for part in message.content
        ]
    return record


def _file_to_record(part: FilePart) -> dict[str, JsonValue]:
    """Return the record of an attached file; a binary file is a reference to a blob with hash, size and media type."""
    record: dict[str, JsonValue] = {"type": "file", "path": part.path, "real_path": part.real_path}
    if part.is_guideline:
        record["is_guideline"] = True
    if part.text is None:
        record["binary"] = BlobReference.to(part.sha256, size=part.size, media_type=part.media_type)
    else:
        record |= {"sha256": part.sha256, "bytes": part.size, "media_type": part.media_type, "text": part.text}
    return record


def case_messages_from_record(value: JsonValue) -> tuple[Message, ...]:
    """Return a case's messages. Raises ValueError for a value that is not a message."""
    return tuple(map(_with_files, messages_from_json(value) or ()))


def _with_files(message: Message) -> Message:
    if not isinstance(message.content, tuple):
        return message
    return replace(message, content=tuple(_file_from_part(part) for part in message.content))


def _file_from_part(part: Part) -> Part:
    if not isinstance(part, DataPart) or part.type != "file" or "real_path" not in part.value:
        return part
    binary = part.value.get("binary")
    source: JsonObject = part.value if not isinstance(binary, Mapping) else BlobReference(binary).described()
    return FilePart(
        path=read_text(part.value, "path"),
        real_path=read_text(part.value, "real_path"),
        text=None if binary is not None else optional_text(part.value, "text"),
        sha256=read_text(source, "sha256"),
        size=read_integer(source, "bytes"),
        media_type=read_text(source, "media_type"),
        is_guideline=part.value.get("is_guideline") is True,
    )
