"""Where the database is: a URL that is used whole and shown without its password. Pure."""

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from agentv.templating.secrets import STRUCK, Striker
from agentv.types.errors import ConfigError

_URL = re.compile(r"postgres(?:ql)?://(?P<rest>.*)", re.DOTALL)
_SHOWN_PARAMETERS = ("host", "port", "dbname")
_SHORTEST_STRUCK = 4
"""A shorter password would strike pieces of words; no message of the server or its library carries one."""


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """A PostgreSQL URL. `text` has the password and is for connecting alone; `shown` is for people."""

    text: str = field(repr=False)
    shown: str

    def strike(self, message: str) -> str:
        """Return a message about this database without what is secret in its URL."""
        return Striker((self.text, *_secrets(self.text))).strike(message)

    def __str__(self) -> str:
        """Return what may be shown."""
        return self.shown


def parse_store_url(text: str) -> StoreUrl:
    """Return the URL of a store, `postgresql://user:password@host/database`. Raises ConfigError for anything else."""
    found = _URL.fullmatch(text.strip())
    if found is None:
        scheme = text.partition("://")[0] if "://" in text else ""
        told = f", not {scheme}://…" if re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme) else ""
        raise ConfigError(f"a store is given as postgresql://user@host/database{told}")
    return StoreUrl(text.strip(), f"postgresql://{_shown(found['rest'])}")


def _shown(rest: str) -> str:
    """Return what follows the scheme without password and parameters that may hold one."""
    before, _, query = rest.partition("?")
    if "@" in query:
        # A password with a bare `?`, or a parameter with a bare `@`: what is secret cannot be told from what is not.
        return STRUCK
    who, _, place = before.rpartition("@")
    user = who.partition(":")[0]
    kept = "&".join(f"{name}={value}" for name, value in parse_qsl(query) if name in _SHOWN_PARAMETERS)
    return f"{f'{user}@' if user else ''}{place}{f'?{kept}' if kept else ''}"


def _secrets(text: str) -> tuple[str, ...]:
    """Return whatever in a URL may be a password, as it is written and as it is meant."""
    who = text.partition("://")[2].rpartition("@")[0]
    written = [who.partition(":")[2], *(value for name, value in parse_qsl(text.rpartition("?")[2]) if "pass" in name)]
    both = (form for each in written for form in (each, unquote(each)))
    return tuple(form for form in both if len(form) >= _SHORTEST_STRUCK)
