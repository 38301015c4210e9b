"""Detection of secrets, and their redaction from texts. Pure."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, unquote

REDACTED = "***"
SHORTEST_SECRET = 8
"""Shorter values are words that occur in texts for other reasons."""

_WORDS = ("key", "keys", "token", "secret", "secrets", "password", "passwords", "authorization")
_BETWEEN_WORDS = re.compile(r"[_\-.\s]|(?<=[a-z0-9])(?=[A-Z])")


def looks_secret(name: str) -> bool:
    """Return True if a field or variable of that name holds a secret: `api_key`, `GITHUB_TOKEN`, `X-Api-Key`."""
    return _BETWEEN_WORDS.split(name)[-1].lower().endswith(_WORDS)


def secret_values(variables: Mapping[str, str]) -> frozenset[str]:
    """Return the values of the variables whose names look secret."""
    return frozenset(value for name, value in variables.items() if looks_secret(name) and len(value) >= SHORTEST_SECRET)


class SecretRedactor:
    """Redacts secrets from texts, also where they are escaped in JSON."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if secret for form in (secret, *_in_json(secret))}
        self._forms = sorted(forms, key=len, reverse=True)

    def redact(self, text: str) -> str:
        """Return the text with `***` for every secret."""
        for form in self._forms:
            text = text.replace(form, REDACTED)
        return text


def _in_json(secret: str) -> tuple[str, str]:
    return json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]


SHORTEST_REDACTED = 4
"""A shorter password would redact parts of words; inside its URL it is redacted all the same."""


def store_secrets(url: str, password: str = "") -> tuple[str, ...]:
    """Return the texts to redact so that the password of a database's URL is not shown.

    `password` is one given separately from the URL. A password that is also a word of the URL (`postgres:postgres@`)
    is redacted only inside the URL, because the word may occur anywhere.
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
            if len(form) >= SHORTEST_REDACTED and form not in words:
                yield form
