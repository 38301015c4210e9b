"""Where the database is: a URL that is used whole and shown without its password. Pure."""

import re
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import Struct

from agentv.templating.secrets import STRUCK, Striker, store_secrets
from agentv.types.errors import ConfigError
from agentv.types.struct_fields import repr_without

_URL = re.compile(r"postgres(?:ql)?://(?P<rest>.*)", re.DOTALL)
_SHOWN_PARAMETERS = ("host", "port", "dbname")
_KEPT_PARAMETERS = (
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "gssencmode",
    "host",
    "hostaddr",
    "options",
    "passfile",
    "port",
    "require_auth",
    "service",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "target_session_attrs",
    "user",
)
"""What may be kept with a run: everything that says how to connect and holds no password."""


class StoreUrl(Struct, frozen=True):
    """A PostgreSQL URL. `text` has the password and is for connecting alone; `shown` is for people.

    `hint` is what to do when nobody answers there.
    """

    text: str
    shown: str
    hint: str = ""

    def __repr__(self) -> str:
        """Return the usual text without the password."""
        return repr_without(self, "text")

    @property
    def kept(self) -> str:
        """The URL as a run keeps it: without its password. `***` stands for one that cannot be taken apart."""
        scheme, _, rest = self.text.partition("://")
        before, _, query = rest.partition("?")
        if "@" in query:
            return STRUCK
        known = [(name, value) for name, value in parse_qsl(query) if name in _KEPT_PARAMETERS]
        parameters = urlencode(known, quote_via=quote)
        return f"{scheme}://{_without_password(before)}{f'?{parameters}' if parameters else ''}"

    @property
    def place(self) -> str:
        """The database alone, whoever asks it."""
        return self.shown.partition("://")[2].rpartition("@")[2]

    def strike(self, message: str) -> str:
        """Return a message about this database without what is secret in its URL."""
        return Striker((self.text, *store_secrets(self.text))).strike(message)

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
    kept = "&".join(f"{name}={value}" for name, value in parse_qsl(query) if name in _SHOWN_PARAMETERS)
    return f"{_without_password(before)}{f'?{kept}' if kept else ''}"


def _without_password(before: str) -> str:
    """Return user and place of a URL, `user:password@host/database`."""
    who, _, place = before.rpartition("@")
    user = who.partition(":")[0]
    return f"{f'{user}@' if user else ''}{place}"
