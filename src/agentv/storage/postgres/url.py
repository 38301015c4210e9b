"""The URL of the team's database, which is shown without its password. Pure."""

import re
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import Struct

from agentv.templating.secrets import REDACTED, SecretRedactor, store_secrets
from agentv.types.errors import ConfigError
from agentv.types.struct_fields import repr_without

_URL = re.compile(r"postgres(?:ql)?://(?P<rest>.*)", re.DOTALL)
_SHOWN_PARAMETERS = ("host", "port", "dbname")
_PUBLIC_PARAMETERS = (
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
"""The parameters that may be stored with a run: those for connecting that cannot hold a password."""


class StoreUrl(Struct, frozen=True):
    """A PostgreSQL URL. `text` has the password and is only for connecting; `shown` is for messages.

    `hint` is advice for the user when the database cannot be reached.
    """

    text: str
    shown: str
    hint: str = ""

    def __repr__(self) -> str:
        """Return the default repr without the password."""
        return repr_without(self, "text")

    @property
    def public(self) -> str:
        """The URL to store with a run: without its password, or `***` when it cannot be parsed."""
        scheme, _, rest = self.text.partition("://")
        before, _, query = rest.partition("?")
        if "@" in query:
            return REDACTED
        known = [(name, value) for name, value in parse_qsl(query) if name in _PUBLIC_PARAMETERS]
        parameters = urlencode(known, quote_via=quote)
        return f"{scheme}://{_without_password(before)}{f'?{parameters}' if parameters else ''}"

    @property
    def place(self) -> str:
        """The host and the database, without the user."""
        return self.shown.partition("://")[2].rpartition("@")[2]

    def redact(self, message: str) -> str:
        """Return a message about this database without the secrets of its URL."""
        return SecretRedactor((self.text, *store_secrets(self.text))).redact(message)

    def __str__(self) -> str:
        """Return the URL without its password."""
        return self.shown


def parse_store_url(text: str) -> StoreUrl:
    """Return the URL of a store, `postgresql://user:password@host/database`. Raises ConfigError for anything else."""
    found = _URL.fullmatch(text.strip())
    if found is None:
        scheme = text.partition("://")[0] if "://" in text else ""
        found_scheme = f", not {scheme}://…" if re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme) else ""
        raise ConfigError(f"expected a store URL of the form postgresql://user@host/database{found_scheme}")
    return StoreUrl(text.strip(), f"postgresql://{_shown(found['rest'])}")


def _shown(rest: str) -> str:
    """Return the part after the scheme without the password and parameters that may hold one."""
    before, _, query = rest.partition("?")
    if "@" in query:
        # A password with an unescaped `?`, or a parameter with an unescaped `@`: ambiguous, so nothing is shown.
        return REDACTED
    parameters = "&".join(f"{name}={value}" for name, value in parse_qsl(query) if name in _SHOWN_PARAMETERS)
    return f"{_without_password(before)}{f'?{parameters}' if parameters else ''}"


def _without_password(before: str) -> str:
    """Return `user@host/database` of `user:password@host/database`."""
    credentials, _, place = before.rpartition("@")
    user = credentials.partition(":")[0]
    return f"{f'{user}@' if user else ''}{place}"
