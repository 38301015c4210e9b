"""Large values of a run: each is stored once under its SHA-256, and lines hold a reference to it."""

import hashlib
import re
from collections.abc import Mapping
from operator import is_
from pathlib import Path

from agentv.storage.files.line_file import write_by_rename
from agentv.storage.records.json_line import BLOB_KEY, BlobReference, decode_value, encode
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject, JsonValue

BLOB_LIMIT = 256 * 1024
"""Strings and message parts larger than this many bytes are stored as blobs."""

_REFERENCE = re.compile(r"sha256:([0-9a-f]{64})")
_TEXT_TYPE = "text/plain; charset=utf-8"
_JSON_TYPE = "application/json; charset=utf-8"


_MOST_BYTES = 4
"""The bytes of a character at most."""


def may_have_blobs(line: bytes) -> bool:
    """Return True if a line may have a part to store as a blob: it is long, or has a key `$blob`."""
    return len(line) > BLOB_LIMIT or b'"$blob":' in line


class BlobFolder:
    """The `blobs/` folder of one run, created with the first large value."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._saved: set[str] = set()

    def save(self, data: bytes, media_type: str) -> BlobReference:
        """Store `data` and return a reference to it. Raises OSError when it cannot be written."""
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.folder / f"sha256-{sha256}"
        if not path.exists():
            self.folder.mkdir(mode=0o700, exist_ok=True)
            # A line must not survive a power loss without its blob; blobs are rare enough to fsync each.
            write_by_rename(path, data)
        self._saved.add(path.name)
        return BlobReference.to(sha256, size=len(data), media_type=media_type)

    def count_lost(self) -> int:
        """Return the number of blobs that were saved and are no longer there."""
        try:
            return len(self._saved.difference(each.name for each in self.folder.iterdir())) if self._saved else 0
        except OSError:
            return len(self._saved)

    def load(self, reference: JsonObject) -> JsonValue:
        """Return the text or JSON value of a blob; for a binary blob return the reference itself.

        Raises StorageError when the blob is missing or its content does not match its hash.
        """
        media_type = reference.get("media_type")
        if media_type not in (_TEXT_TYPE, _JSON_TYPE):
            return reference
        name = _REFERENCE.fullmatch(str(reference[BLOB_KEY]))
        if name is None:
            raise StorageError(f"{reference[BLOB_KEY]!r} is not a valid reference to a blob")
        path = self.folder / f"sha256-{name[1]}"
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise _missing_error(path) from error
        if hashlib.sha256(data).hexdigest() != name[1]:
            raise StorageError(f"{path}: this blob was changed after it was written; restore it from a copy")
        decoded: JsonValue = data.decode() if media_type == _TEXT_TYPE else decode_value(data)
        return decoded

    def beginning(self, reference: JsonObject, limit: int) -> str:
        """Return the first `limit` characters of the text of a blob, "" if it has none.

        Only these are read, so they are not compared with its hash. Raises StorageError when the blob is missing.
        """
        name = _REFERENCE.fullmatch(str(reference[BLOB_KEY]))
        if name is None or reference.get("media_type") != _TEXT_TYPE:
            return ""
        path = self.folder / f"sha256-{name[1]}"
        try:
            with path.open("rb") as file:
                return file.read(limit * _MOST_BYTES).decode(errors="ignore")[:limit]
        except FileNotFoundError as error:
            raise _missing_error(path) from error

    def extract(self, value: JsonValue) -> JsonValue:
        """Return `value` (the output of `to_encodable`) with large strings and message parts replaced by references.

        What has none is not copied.

        An object of the user's data with the key `$blob` is stored as a blob whatever its size, so that every `$blob`
        in a stored line is a reference.
        """
        if isinstance(value, str):
            data = value.encode() if len(value) > BLOB_LIMIT // 4 else b""  # a character has at most four bytes
            return self.save(data, _TEXT_TYPE) if len(data) > BLOB_LIMIT else value
        if isinstance(value, BlobReference):
            return value
        if isinstance(value, Mapping):
            if BLOB_KEY in value:
                return self.save(encode(value), _JSON_TYPE)
            changes = {
                key: extracted
                for key, item in value.items()
                if (extracted := self._parts(item) if key == "content" else self.extract(item)) is not item
            }
            return {**value, **changes} if changes else value
        if isinstance(value, list | tuple):
            items = [self.extract(item) for item in value]
            return value if all(map(is_, items, value)) else items
        return value

    def _parts(self, content: JsonValue) -> JsonValue:
        if not isinstance(content, list | tuple):
            return self.extract(content)
        return [self._part(part) for part in content]

    def _part(self, part: JsonValue) -> JsonValue:
        extracted = self.extract(part)
        data = encode(extracted)
        return extracted if len(data) <= BLOB_LIMIT else self.save(encode(part), _JSON_TYPE)

    def resolve(self, record: JsonObject) -> JsonObject:
        """Return `record` with every reference replaced by its value."""
        return {key: self._restored(value) for key, value in record.items()}

    def _restored(self, value: JsonValue) -> JsonValue:
        if isinstance(value, Mapping):
            if BLOB_KEY in value:
                return self.load(value)
            return {key: self._restored(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._restored(item) for item in value]
        return value


def _missing_error(path: Path) -> StorageError:
    return StorageError(f"{path}: this blob of the run is missing; restore it from a copy")
