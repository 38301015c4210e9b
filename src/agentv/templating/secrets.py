"""Which values are secrets, and how a text is rid of them. Pure."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, unquote

STRUCK = "***"
SHORTEST_SECRET = 8
"""Shorter values are words that stand in texts for other reasons."""

_WORDS = ("key", "keys", "token", "secret", "secrets", "password", "passwords", "authorization")
_BETWEEN_WORDS = re.compile(r"[_\-.\s]|(?<=[a-z0-9])(?=[A-Z])")


def looks_secret(name: str) -> bool:
    """Whether a field or variable of that name holds a secret: `api_key`, `GITHUB_TOKEN`, `X-Api-Key`."""
    return _BETWEEN_WORDS.split(name)[-1].lower().endswith(_WORDS)


def secret_values(variables: Mapping[str, str]) -> frozenset[str]:
    """Return the values of the variables whose names look secret."""
    return frozenset(value for name, value in variables.items() if looks_secret(name) and len(value) >= SHORTEST_SECRET)


class Striker:
    """Strikes secrets from texts, as they are and as they stand inside JSON."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if secret for form in (secret, *_in_json(secret))}
        self._forms = sorted(forms, key=len, reverse=True)

    def strike(self, text: str) -> str:
        """Return the text with `***` for every secret."""
        for form in self._forms:
            text = text.replace(form, STRUCK)
        return text


def _in_json(secret: str) -> tuple[str, str]:
    return json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]


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
