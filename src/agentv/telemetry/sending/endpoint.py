"""Where requests are sent: an address with its headers and limits."""

from collections.abc import Iterator, Mapping
from urllib.parse import unquote, urlsplit, urlunsplit

from msgspec import Struct

from agentv.types.errors import ConfigError


class Endpoint(Struct, frozen=True):
    """An address that takes requests."""

    url: str
    headers: Mapping[str, str]
    timeout_s: float
    is_compressed: bool = True
    certificate: str | None = None
    """The path of a file with the certificates of authorities to trust; None for those of the system."""
    client_certificate: str | None = None
    client_key: str | None = None

    def __repr__(self) -> str:
        """Return the address alone: the headers are secrets."""
        return f"Endpoint({shown_url(self.url)!r})"


def parse_headers(text: str, *, name: str) -> Iterator[tuple[str, str]]:
    """Yield the headers of a variable such as `api-key=secret,x-tenant=a%20b`. Raises ConfigError without its value."""
    for part in filter(str.strip, text.split(",")):
        key, equals, value = (each.strip() for each in part.partition("="))
        decoded = unquote(value)
        if not key or not equals or not key.isascii() or any(not " " <= each <= "~" for each in key + decoded):
            raise ConfigError(f"{name} must be a list such as api-key=VALUE,x-other=VALUE (its value is not shown)")
        yield key, decoded


def shown_url(url: str) -> str:
    """Return a URL without user-info, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def checked_url(url: str, problem: str) -> str:
    """Return the URL. Raises ConfigError with the problem for one that is not an http URL with a host."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ConfigError(problem)
    return url
