"""Embeddings saved between runs: one file per vector space and text, named after a digest of both.

A file is a mark of its format, a flag for a truncated text, the SHA-256 of the vector, and the vector as little-endian
32-bit floats. A file that is torn, foreign or of another version is treated as missing and written again.
"""

import hashlib
import sys
from array import array
from pathlib import Path

from agentv.storage.cache.folder import MOST_BYTES, CacheFolder, CacheLimit
from agentv.types.provider import Embedding, Vector

_FILE_MARK = b"agentv embedding 1\n"
_CUT_FLAG, _WHOLE_FLAG = b"c", b"w"
_DIGEST_START = len(_FILE_MARK) + 1
_VECTOR_START = _DIGEST_START + hashlib.sha256().digest_size


EMBEDDINGS_FOLDER = "cache/embeddings"
VECTOR_SUFFIX = ".vector"


class EmbeddingCache:
    """The embedding cache of one folder, which is created by the first `save`. Thread-safe.

    Above `most_bytes`, the least recently used files are deleted.
    """

    def __init__(self, folder: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self._files = CacheFolder(folder, VECTOR_SUFFIX)
        self._limit = CacheLimit(self._files, most_bytes)

    def load(self, space: str, text: str) -> Embedding | None:
        """Return the embedding of a text in a vector space, or None when no readable file has it."""
        digest = _digest(space, text)
        content = self._files.read(digest)
        vector = None if content is None else _vector_in(content)
        if content is None or vector is None:
            return None
        self._files.touch(digest)
        return Embedding(vector, content[len(_FILE_MARK) : _DIGEST_START] == _CUT_FLAG, cached=True)

    def save(self, space: str, text: str, embedding: Embedding) -> None:
        """Store an embedding; ignore one that cannot be written."""
        content = _file_content(embedding)
        if len(content) <= self._limit.most_bytes and self._files.write(_digest(space, text), content):
            self._limit.add(len(content))


def _digest(space: str, text: str) -> str:
    return hashlib.sha256(f"{space}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()


def _file_content(embedding: Embedding) -> bytes:
    numbers = _little_endian(embedding.vector).tobytes()
    flag = _CUT_FLAG if embedding.is_cut else _WHOLE_FLAG
    return b"".join((_FILE_MARK, flag, hashlib.sha256(numbers).digest(), numbers))


def _vector_in(content: bytes) -> Vector | None:
    numbers, digest = content[_VECTOR_START:], content[_DIGEST_START:_VECTOR_START]
    is_valid = content.startswith(_FILE_MARK) and digest == hashlib.sha256(numbers).digest()
    vector = array("f")
    if not is_valid or not numbers or len(numbers) % vector.itemsize:
        return None
    vector.frombytes(numbers)
    return _little_endian(vector)


def _little_endian(vector: Vector) -> Vector:
    """Return a vector converted from native to little-endian byte order, or back."""
    if sys.byteorder == "little":
        return vector
    swapped = array("f", vector)
    swapped.byteswap()
    return swapped
