"""What is secret in the URL of a database. Pure."""

from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote

SHORTEST_STRUCK = 4
"""A shorter password would strike pieces of words; where it stands in its URL it is struck all the same."""


def store_secrets(url: str, password: str = "") -> tuple[str, ...]:
    """Return whatever must be struck from a text, so that the password of a database's URL is not in it.

    `password` is one that stands beside the URL. A password that is a word of the URL as well (`postgres:postgres@`)
    is struck where it stands in the URL alone: as a word it may stand anywhere.
    """
    return tuple(dict.fromkeys(_secrets(url, password)))


def _secrets(url: str, password: str) -> Iterator[str]:
    scheme, _, rest = url.partition("://")
    who, at, place = rest.rpartition("@")
    user, _, written = who.partition(":")
    given = [value for name, value in parse_qsl(url.rpartition("?")[2]) if "pass" in name or "secret" in name]
    if not (written or given or password):
        return
    if written or given:
        yield url
    if at and written:
        yield f":{written}@"
    words = {scheme, unquote(user), *place.partition("?")[0].replace("/", ":").split(":")}
    for each in (written, *given, password):
        for form in (each, unquote(each)):
            if len(form) >= SHORTEST_STRUCK and form not in words:
                yield form
