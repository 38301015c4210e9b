"""What stands in a line for a large value that is kept beside it."""

from agentv.types.json_value import JsonObject, JsonValue

BLOB_KEY = "$blob"


class BlobReference(dict[str, JsonValue]):
    """Our `{"$blob": "sha256:…", "bytes": n, "media_type": …}`, told by its class from objects that look like it."""

    @classmethod
    def to(cls, sha256: str, *, size: int, media_type: str) -> "BlobReference":
        """Refer to the blob with this hash."""
        return cls({BLOB_KEY: f"sha256:{sha256}", "bytes": size, "media_type": media_type})

    def described(self) -> JsonObject:
        """Return `sha256` (hexadecimal), `bytes` and `media_type` of what is referred to."""
        return {**self, "sha256": str(self[BLOB_KEY]).removeprefix("sha256:")}
