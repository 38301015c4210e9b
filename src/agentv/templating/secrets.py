"""Detection of secrets, and their redaction from texts. Pure."""

import json
import re
from collections.abc import Iterable, Mapping

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
