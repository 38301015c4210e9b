"""The two spellings of a key on the wire: our snake_case, and the camelCase of the older documents."""

import re
from functools import lru_cache

_UPPER = re.compile(r"(?<=[a-z0-9])([A-Z])")


@lru_cache(maxsize=1024)
def camel_case(name: str) -> str:
    """Return `max_retries` as `maxRetries`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def snake_case(name: str) -> str:
    """Return `maxRetries` as `max_retries`."""
    return _UPPER.sub(lambda match: "_" + match[1].lower(), name)
