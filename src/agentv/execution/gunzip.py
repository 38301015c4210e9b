"""gzip, decompressed in bounded memory."""

import zlib
from collections.abc import Iterator

_PIECE_BYTES = 2**16
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class BrokenGzipError(OSError):
    """Bytes that are not gzip, or not all of it."""


class Gunzip:
    """Decompresses gzip or zlib, possibly several concatenated streams, in pieces of bounded size."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_GZIP_OR_ZLIB)

    def decompress(self, block: bytes) -> Iterator[bytes]:
        """Yield the decompressed pieces of a block. Raises BrokenGzipError."""
        piece = b""
        # After a full piece more output may be pending, even if the block is consumed.
        while block or len(piece) == _PIECE_BYTES:
            if self._stream.eof and block:
                self._stream = zlib.decompressobj(_GZIP_OR_ZLIB)
            try:
                piece = self._stream.decompress(block, _PIECE_BYTES)
            except zlib.error as error:
                raise BrokenGzipError(f"broken gzip: {error}") from None
            if piece:
                yield piece
            block = self._stream.unconsumed_tail or self._stream.unused_data

    def check_end(self) -> None:
        """Raise BrokenGzipError if the end is missing."""
        if not self._stream.eof:
            raise BrokenGzipError("the gzip data is truncated")
