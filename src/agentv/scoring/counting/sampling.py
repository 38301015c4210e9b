"""Sampling of a stream. The decision on a line depends only on the line and the seed, so it is the same everywhere."""

import hashlib
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache

from msgspec import Struct

from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonValue, camel_case, snake_case
from agentv.types.messages_json import compact_json

_HASH_RANGE = 2**64
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_SHARE = re.compile(r"\d*\.\d+")
_COUNT = re.compile(r"[1-9]\d*")


class Sample(Struct, frozen=True):
    """A seeded share of the lines."""

    bound: int = _HASH_RANGE
    """Lines with a hash below it (of 2**64) are included; not used if `count` is set."""
    count: int | None = None
    """The number of lines to include; None if `bound` decides."""
    by: tuple[str, ...] = ()
    """The path of a JSON key whose value is hashed instead of the line.

    Lines with the same value are thus included or left out together.
    """
    seed: int = 0

    def hash_of(self, key: bytes) -> int:
        """Return the hash of a key, uniform in 0 to 2**64 - 1 (BLAKE2b of the seed and the key)."""
        hashed = _seeded_hash(self.seed).copy()
        hashed.update(key)
        return int.from_bytes(hashed.digest(), "big")

    def includes(self, key_hash: int) -> bool:
        """Return True if a key with this hash is in the sample. A larger share includes all smaller ones."""
        return key_hash < self.bound

    @property
    def is_all(self) -> bool:
        """True if nothing is left out."""
        return self.count is None and self.bound == _HASH_RANGE

    def key_of(self, value: JsonValue) -> bytes | None:
        """Return the value at `by` as JSON bytes; keys may be in camelCase or snake_case. None if there is no value."""
        for key in self.by:
            value = _entry(value, key)
        return None if value is None else compact_json(value).encode("utf-8", "surrogatepass")


@cache
def _seeded_hash(seed: int) -> "hashlib.blake2b":
    """Return the hash of a seed, ready for a key to be added: a third faster than hashing both (bench/)."""
    return hashlib.blake2b(b"%d\n" % seed, digest_size=8)


def _entry(value: JsonValue, key: str) -> JsonValue:
    if not isinstance(value, Mapping):
        return None
    if key in value:  # first, as making spellings takes a third of the time of `Sampler.offer` (bench/)
        return value[key]
    return next((value[way] for way in (camel_case(key), snake_case(key)) if way in value), None)


def make_sample(text: str | None, *, by: str | None, seed: int) -> Sample:
    """Return the sample for `1%`, `0.01` or `100` (lines); None is every line. Raises ConfigError."""
    path = tuple(by.split(".")) if by else ()
    if text is None:
        return Sample(by=path, seed=seed)
    if _COUNT.fullmatch(text):
        if path:
            raise ConfigError(f"--sample-by needs a share, such as 1% or 0.01; {text} lines may split a session")
        return Sample(count=int(text), seed=seed)
    percent = _PERCENT.fullmatch(text)
    if percent is None and not _SHARE.fullmatch(text):
        raise ConfigError(f"--sample {text!r}: write a share, such as 1% or 0.01, or how many lines, such as 100")
    share = Fraction(text) if percent is None else Fraction(percent[1]) / 100
    if not 0 < share <= 1:
        raise ConfigError(f"--sample {text!r}: a share must be above 0 and at most 1 (100%)")
    return Sample(int(share * _HASH_RANGE), by=path, seed=seed)
