"""Who may read the viewer's pages: the holder of a token, at the expected host, from the viewer's own pages."""

import secrets
from collections.abc import Mapping, Sequence
from hmac import compare_digest

from msgspec import Struct

from agentv.types.hosts import host_name, is_loopback

_TOKEN_BYTES = 24

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # With no-referrer, browsers would send `Origin: null` with the viewer's own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every response: a page loads only the viewer's own files, and no other page can embed or read it."""

READER = ""
"""The reviewer name of a person who may only read."""


class Access(Struct, frozen=True):
    """The tokens of the viewer by reviewer, and the host that requests may name besides loopback addresses."""

    tokens: Mapping[str, str]
    host: str | None = None

    @classmethod
    def create(cls, *, reviewers: Sequence[str] = (), token: str | None = None, host: str | None = None) -> "Access":
        """Return access with a new token for each reviewer and one for reading, which `token` replaces."""
        names = (READER, *reviewers)
        tokens = {name: secrets.token_urlsafe(_TOKEN_BYTES) for name in names}
        return cls(tokens | ({READER: token} if token is not None else {}), host)

    def reviewer_of(self, token: str) -> str | None:
        """Return the reviewer with a token, `READER` for that of reading, None for an unknown one."""
        given = token.encode(errors="surrogateescape")  # a cookie may have any bytes
        return next((name for name, known in self.tokens.items() if compare_digest(known.encode(), given)), None)

    def is_expected_host(self, host: str | None) -> bool:
        """Return True for a Host header with a loopback name or address, or with the viewer's own host.

        Any other name means that a foreign page had its name resolved to this machine (DNS rebinding).
        """
        name = host_name(host)
        return name is not None and (name == (self.host or "").lower() or is_loopback(name))


def is_same_origin(origin: str | None, host: str | None) -> bool:
    """Return True if the Origin header of a request that changes something names the host that it was sent to."""
    return origin is not None and host is not None and origin.partition("://")[2] == host
