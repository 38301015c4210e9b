"""Parts of a run that several machines make: each case belongs to one of them, wherever it stands in its file."""

import re
from hashlib import blake2b

from msgspec import Struct

from agentv.types.errors import ConfigError

_SHARD = re.compile(r"(\d{1,6})/(\d{1,6})")


class Shard(Struct, frozen=True):
    """Part `number` (from 1) of `count` parts of about the same size."""

    number: int
    count: int

    def takes(self, suite: str, case_id: str) -> bool:
        """Whether a case of a suite (by its path) is of this part."""
        name = f"{suite}\0{case_id}".encode(errors="replace")
        return int.from_bytes(blake2b(name, digest_size=8).digest(), "big") % self.count == self.number - 1


def parse_shard(text: str) -> Shard:
    """Return the part that `2/3` says. Raises ConfigError."""
    found = _SHARD.fullmatch(text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise ConfigError(f"shard must be I/N with I from 1 to N, as in '2/3', not {text!r}")
    return Shard(int(found[1]), int(found[2]))
