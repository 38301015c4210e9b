"""Credentials for model APIs: a key from the settings, or a token fetched by a cloud's own library."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Protocol, TypeAlias

from msgspec import Struct

from agentv.execution.threads import AbandonedError, call_in_thread
from agentv.types.errors import MissingExtraError
from agentv.types.failures import Failure
from agentv.types.provider import ProviderError

AZURE_SCOPE = "https://cognitiveservices.azure.com/.default"
GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
RENEW_BEFORE_S = 300.0
_EXCERPT = 500


class Credentials(Protocol):
    """Provides the authorization headers of a request."""

    async def headers(self, *, timeout_s: float) -> Mapping[str, str]:
        """Return the headers. Raises ProviderError if they are not available in time."""


class FixedHeaders(Struct, frozen=True):
    """Fixed headers from the settings; empty for servers without authorization."""

    fixed: Mapping[str, str]

    async def headers(self, *, timeout_s: float) -> Mapping[str, str]:  # noqa: ARG002 - there is nothing to wait for
        """Return the headers."""
        return self.fixed


def bearer(key: str | None) -> FixedHeaders:
    """Return a key as an Authorization header."""
    return FixedHeaders({"Authorization": f"Bearer {key}"} if key else {})


class Token(Struct, frozen=True):
    """A bearer token and its expiry in seconds since 1970."""

    text: str
    expires_at: float


FetchToken: TypeAlias = Callable[[], Token]


class FetchedToken:
    """A token that is fetched in a thread on first use, and again before it expires."""

    def __init__(self, fetch: FetchToken, *, what: str, now: Callable[[], float] = time.time) -> None:
        self._fetch = fetch
        self._what = what
        self._now = now
        self._token = Token("", 0.0)
        self._fetching = asyncio.Lock()

    async def headers(self, *, timeout_s: float) -> Mapping[str, str]:
        """Return the header with a token that is valid for some minutes; concurrent calls share one fetch."""
        try:
            async with asyncio.timeout(timeout_s), self._fetching:
                if self._token.expires_at - self._now() < RENEW_BEFORE_S:
                    self._token = await call_in_thread(self._fetch, timeout_s=timeout_s)
        except (AbandonedError, TimeoutError):
            message = f"{self._what} was not received within {round(timeout_s, 2):g} s"
            raise ProviderError(Failure("deadline", message, retryable=True)) from None
        except Exception as error:  # noqa: BLE001 - the libraries raise many kinds, all of which mean that there is no token
            reason = " ".join(str(error).split())[:_EXCERPT]
            raise ProviderError(Failure("auth", f"{self._what} cannot be obtained: {reason}")) from None
        return {"Authorization": f"Bearer {self._token.text}"}


def entra_token() -> FetchedToken:
    """Return credentials that fetch tokens from Microsoft Entra ID, by Azure's default credential chain.

    Raises MissingExtraError if azure-identity is not installed.
    """
    try:
        from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - an extra, slow to import
    except ImportError:
        raise MissingExtraError("azure without api_key", "azure") from None
    # The library's warnings repeat the failure; without a handler they would be printed over the live display.
    logging.getLogger("azure").addHandler(logging.NullHandler())
    credential = DefaultAzureCredential()

    def fetch() -> Token:
        token = credential.get_token(AZURE_SCOPE)
        return Token(token.token, token.expires_on)

    return FetchedToken(fetch, what="an Entra ID token")


def google_token() -> FetchedToken:
    """Return credentials that fetch tokens with Google's default credentials.

    Raises MissingExtraError if google-auth is not installed.
    """
    try:
        import google.auth  # noqa: PLC0415 - an extra, slow to import
        from google.auth.transport.requests import Request  # noqa: PLC0415 - as above
    except ImportError:
        raise MissingExtraError("gemini with a project", "vertex") from None

    def fetch() -> Token:
        credentials, _ = google.auth.default(scopes=[GOOGLE_SCOPE])
        credentials.refresh(Request())  # type: ignore[no-untyped-call] # google-auth types its classes only in part
        expiry = credentials.expiry  # naive, but in UTC
        return Token(credentials.token or "", expiry.replace(tzinfo=UTC).timestamp() if expiry else time.time())

    return FetchedToken(fetch, what="a token of Google's default credentials")
