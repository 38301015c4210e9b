"""Large values of a run: kept once under their SHA-256, with a reference in the place where they stood."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from agentv.storage.records.case_messages import BLOB_KEY, BlobReference
from agentv.storage.records.json_line import decode_value, encode
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject, JsonValue

BLOB_LIMIT = 256 * 1024
"""Strings and message parts of more than this many bytes leave their line."""

_NAME = re.compile(r"sha256:([0-9a-f]{64})")
_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json; charset=utf-8"


class BlobFolder:
    """The `blobs/` folder of one run. It is made when the first large value comes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, data: bytes, media_type: str) -> BlobReference:
        """Keep `data` and return what stands in its place. Raises OSError when the disk does not take it."""
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.folder / f"sha256-{sha256}"
        if not path.exists():
            self.folder.mkdir(mode=0o700, exist_ok=True)
            part = path.with_suffix(".part")
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                # A line may survive a power loss that its blob does not; blobs are rare enough to wait for each.
                file.flush()
                os.fsync(file.fileno())
            part.rename(path)
        return BlobReference.to(sha256, size=len(data), media_type=media_type)

    def load(self, reference: JsonObject) -> JsonValue:
        """Return the text or JSON value that a reference stands for; a binary stays the reference.

        Raises StorageError when the blob is missing or its content is not what was written.
        """
        media_type = reference.get("media_type")
        if media_type not in (_TEXT, _JSON):
            return reference
        name = _NAME.fullmatch(str(reference[BLOB_KEY]))
        if name is None:
            raise StorageError(f"{reference[BLOB_KEY]!r} is no reference to a blob")
        path = self.folder / f"sha256-{name[1]}"
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise StorageError(f"{path}: this large value of the run is missing") from error
        if hashlib.sha256(data).hexdigest() != name[1]:
            raise StorageError(f"{path}: this large value was changed after it was written")
        decoded: JsonValue = data.decode() if media_type == _TEXT else decode_value(data)
        return decoded

    def take_out(self, value: JsonValue) -> JsonValue:
        """Return `value`, which is fitted, with its large strings and message parts kept here and referred to.

        An object of somebody else's that has the key `$blob` is kept as a blob whatever its size: a reference in a
        stored line is always one of ours.
        """
        if isinstance(value, str):
            data = value.encode() if len(value) > BLOB_LIMIT // 4 else b""
            return self.save(data, _TEXT) if len(data) > BLOB_LIMIT else value
        if isinstance(value, BlobReference):
            return value
        if isinstance(value, Mapping):
            if BLOB_KEY in value:
                return self.save(encode(value), _JSON)
            return {key: self._parts(item) if key == "content" else self.take_out(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.take_out(item) for item in value]
        return value

    def _parts(self, content: JsonValue) -> JsonValue:
        if not isinstance(content, list | tuple):
            return self.take_out(content)
        return [self._part(part) for part in content]

    def _part(self, part: JsonValue) -> JsonValue:
        smaller = self.take_out(part)
        data = encode(smaller)
        return smaller if len(data) <= BLOB_LIMIT else self.save(encode(part), _JSON)

    def resolve(self, record: JsonObject) -> JsonObject:
        """Return `record` with every reference replaced by what it stands for."""
        return {key: self._put_back(value) for key, value in record.items()}

    def _put_back(self, value: JsonValue) -> JsonValue:
        if isinstance(value, Mapping):
            if BLOB_KEY in value:
                return self.load(value)
            return {key: self._put_back(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._put_back(item) for item in value]
        return value
