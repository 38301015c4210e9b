"""Numbers by which the index finds what has a long name."""

from hashlib import blake2b


def digest_number(raw: bytes) -> int:
    """Return 63 bits of a digest, never 0."""
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "big") >> 1 or 1


def name_number(*parts: str) -> int:
    """Return the number of a name that has several parts."""
    return digest_number("\0".join(parts).encode(errors="surrogatepass"))
