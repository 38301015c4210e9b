"""The URL of a store for runs, which is shown and recorded without its password."""

import re
from collections.abc import Collection, Iterable, Iterator
from urllib.parse import parse_qsl, quote, unquote, urlencode

from msgspec import Struct

from agentv.templating.secrets import REDACTED, SecretRedactor
from agentv.types.errors import ConfigError
from agentv.types.structs import repr_without

_SECRET_PARAMETER = re.compile("pass|secret|scram_.*_key")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9_+.-]*://.*", re.DOTALL)
_SHOWN_PARAMETERS = ("host", "port", "dbname")
_PUBLIC_PARAMETERS = (
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "gssdelegation",
    "gssencmode",
    "gsslib",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "load_balance_hosts",
    "max_protocol_version",
    "min_protocol_version",
    "options",
    "passfile",
    "port",
    "require_auth",
    "requirepeer",
    "service",
    "servicefile",
    "ssl",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcert",
    "sslcertmode",
    "sslcrl",
    "sslcrldir",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "sslsni",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
)
"""The connection parameters that may be stored with a run, because they cannot contain a password.

Without one that protects the connection, such as `sslcrl`, a resumed run would connect with less protection.
"""


class StoreUrl(Struct, frozen=True):
    """The URL of a store; its scheme is the name of the store's plug-in."""

    text: str
    """Contains the password: use it only to connect."""
    hint: str = ""
    """Advice for the user if the store cannot be reached."""

    def __repr__(self) -> str:
        """Return the default repr without `text`, which contains the password."""
        return repr_without(self, "text")

    @property
    def scheme(self) -> str:
        """The name of the store's plug-in, or one of its aliases."""
        return self.text.partition("://")[0]

    @property
    def shown(self) -> str:
        """The URL for messages: without its password, and of its parameters only those that name the database.

        If the query may hold a part of the password, only the scheme and `***`.
        """
        address, query = self._address_and_query()
        if "@" in query:
            return f"{self.scheme}://{REDACTED}"
        parameters = "&".join(f"{name}={value}" for name, value in parse_qsl(query) if name in _SHOWN_PARAMETERS)
        return f"{self.scheme}://{_without_password(address)}{f'?{parameters}' if parameters else ''}"

    @property
    def public(self) -> str:
        """The URL to store with a run: without its password, or `***` if its query may hold a part of it."""
        address, query = self._address_and_query()
        if "@" in query:
            return REDACTED
        public = [(name, value) for name, value in parse_qsl(query) if name in _PUBLIC_PARAMETERS]
        parameters = urlencode(public, quote_via=quote)
        return f"{self.scheme}://{_without_password(address)}{f'?{parameters}' if parameters else ''}"

    def unknown_parameters(self, known: Collection[str]) -> list[str]:
        """Return the names of its parameters that are not known; none if the query may hold a part of the password."""
        _, query = self._address_and_query()
        return [] if "@" in query else [name for name, _ in parse_qsl(query) if name not in known]

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

    def _address_and_query(self) -> tuple[str, str]:
        """Return the parts before and after the first `?`, without the scheme.

        If the second part contains an `@`, it may hold a part of the password, namely if the password contains an
        unescaped `?`. The `@` may also belong to a parameter; the two cannot be distinguished.
        """
        address, _, query = self.text.partition("://")[2].partition("?")
        return address, query


def parse_store_url(text: str) -> StoreUrl:
    """Return the URL of a store, like `postgresql://user:password@host/database`. Raises ConfigError for other text."""
    if _URL.fullmatch(text.strip()) is None:
        raise ConfigError("expected a store URL like postgresql://user@host/database")
    return StoreUrl(text.strip())


def _without_password(address: str) -> str:
    """Return `user@host/database` for `user:password@host/database`."""
    credentials, _, place = address.rpartition("@")
    user = credentials.partition(":")[0]
    return f"{user}@{place}" if user else place


SHORTEST_REDACTED = 4
"""A shorter password is redacted only inside its URL, because elsewhere it may be a part of words."""


def secrets_of_urls(words: Iterable[str]) -> tuple[str, ...]:
    """Return the texts to redact, so that no password is shown of a URL in one of these words (`--store=URL`)."""
    urls = (found[0] for word in words if (found := _URL.search(word)) is not None)
    return tuple(dict.fromkeys(part for url in urls for part in store_secrets(url) if part != url))


def store_secrets(url: str, password: str = "") -> tuple[str, ...]:
    """Return the texts to redact, so that no password of a database is shown.

    `password` is a further password, such as that of an environment variable. A password that is also a word of the
    URL (`postgres:postgres@`) is redacted only inside the URL, because the word may occur anywhere.
    """
    return tuple(dict.fromkeys(_secrets(url, password)))


def _secrets(url: str, password: str) -> Iterator[str]:
    scheme, _, rest = url.partition("://")
    credentials, at, place = rest.rpartition("@")
    user, _, url_password = credentials.partition(":")
    in_query = [value for name, value in parse_qsl(url.rpartition("?")[2]) if _SECRET_PARAMETER.search(name)]
    if url_password or in_query:
        yield url
    if at and url_password:
        yield f":{url_password}@"
    words = {scheme, unquote(user), *place.partition("?")[0].replace("/", ":").split(":")}
    for secret in (url_password, *in_query, password):
        for form in (secret, unquote(secret)):
            if len(form) >= SHORTEST_REDACTED and form not in words:
                yield form
