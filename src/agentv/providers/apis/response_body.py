"""The body of an HTTP response: decompressed chunk by chunk, and refused once it is too large. Performs no I/O."""

import zlib
from collections.abc import Iterator

from agentv.types.failures import Failure
from agentv.types.provider import ProviderError

MAX_BODY_BYTES = 10 * 2**20
MAX_STREAM_BYTES = 10 * MAX_BODY_BYTES
"""The maximum size of an event stream, which has an event for every few characters of an answer."""

_PIECE_BYTES = 2**20


class ResponseBody:
    """A body of at most `max_bytes`, compressed or not. `encoding` is the header Content-Encoding.

    Raises ProviderError for an encoding other than gzip, deflate and identity.
    """

    def __init__(self, encoding: str, max_bytes: int) -> None:
        self._decompressor = _decompressor(encoding.lower())
        self._max_bytes = max_bytes
        self._decompressed_bytes = self._received_bytes = 0

    @property
    def is_truncated(self) -> bool:
        """True if the chunks so far are only a part of a compressed body."""
        return self._decompressor is not None and self._received_bytes > 0 and not self._decompressor.eof

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the decompressed pieces of the next chunk. Raises ProviderError if the body becomes too large."""
        self._received_bytes += len(chunk)
        for piece in _decompressed(self._decompressor, chunk) if self._decompressor else (chunk,):
            self._decompressed_bytes += len(piece)
            if max(self._decompressed_bytes, self._received_bytes) > self._max_bytes:
                message = f"the response is larger than {self._max_bytes / 2**20:g} MiB; the answer was discarded"
                raise ProviderError(Failure("too_large", message))
            yield piece


def _decompressed(decompressor: "zlib._Decompress", chunk: bytes) -> Iterator[bytes]:
    """Yield the decompressed chunk in pieces of at most a mebibyte."""
    is_full = False
    while chunk or is_full:
        try:
            piece = decompressor.decompress(chunk, _PIECE_BYTES)
        except zlib.error as error:
            raise ProviderError(Failure("malformed_reply", f"the response cannot be decompressed: {error}")) from None
        chunk, is_full = decompressor.unconsumed_tail, len(piece) == _PIECE_BYTES
        yield piece


def _decompressor(encoding: str) -> "zlib._Decompress | None":
    if encoding in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(wbits=32 + zlib.MAX_WBITS)
    if encoding == "identity":
        return None
    raise ProviderError(
        Failure("malformed_reply", f"the response has the encoding {encoding!r}, which was not requested")
    )
