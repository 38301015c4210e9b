"""Embeddings on disk: one file per text, named after its content, so that no text is asked twice.

A file is a mark, a flag, the SHA-256 of what follows, and the numbers as little-endian floats of 32 bits. It is
written beside its place and then renamed: two processes may write the same one. A file that is torn, foreign or of
another version is taken for absent and written again.
"""

import contextlib
import hashlib
import os
import secrets
import sys
from array import array
from pathlib import Path

from agentv.types.embeddings import Embedding, Vector

_MARK = b"agentv embedding 1\n"
_CUT, _WHOLE = b"c", b"w"
_HEAD = len(_MARK) + 1
_BODY = _HEAD + hashlib.sha256().digest_size


class EmbeddingCache:
    """The cache in one folder, which is made when something is first kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, space: str, text: str) -> Embedding | None:
        """Return the embedding of a text in a space of vectors, or None when there is none that can be read."""
        try:
            content = self._place(space, text).read_bytes()
        except OSError:
            return None
        vector = _read(content)
        return None if vector is None else Embedding(vector, content[len(_MARK) : _HEAD] == _CUT, cached=True)

    def save(self, space: str, text: str, embedding: Embedding) -> None:
        """Keep an embedding. One that cannot be written is asked again another time."""
        path = self._place(space, text)
        beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(_written(embedding))
            beside.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink()

    def _place(self, space: str, text: str) -> Path:
        name = hashlib.sha256(f"{space}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / name[:2] / f"{name[2:]}.vector"


def _written(embedding: Embedding) -> bytes:
    numbers = _little_endian(embedding.vector).tobytes()
    return b"".join((_MARK, _CUT if embedding.is_cut else _WHOLE, hashlib.sha256(numbers).digest(), numbers))


def _read(content: bytes) -> Vector | None:
    numbers = content[_BODY:]
    is_ours = content.startswith(_MARK) and content[_HEAD:_BODY] == hashlib.sha256(numbers).digest()
    vector = array("f")
    if not is_ours or not numbers or len(numbers) % vector.itemsize:
        return None
    vector.frombytes(numbers)
    return _little_endian(vector)


def _little_endian(vector: Vector) -> Vector:
    """Return a vector with its bytes as they lie on disk, or back; on most machines they lie so already."""
    if sys.byteorder == "little":
        return vector
    turned = array("f", vector)
    turned.byteswap()
    return turned
