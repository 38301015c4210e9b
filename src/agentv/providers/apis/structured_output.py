"""Structured output: a JSON Schema that a judge's reply must follow, sent to a server until it refuses one."""

import re
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from agentv.types.failures import Failure
from agentv.types.provider import STRUCTURED_OUTPUT_NOTE, ProviderError, ProviderRequest, ProviderResponse

_REFUSAL_STATUSES = (400, 422)
_NAMES = re.compile(
    r"response[ _]?format|json[ _]?schema|structured[ _]?output|output_config|output_format|text\.format"
    r"|response[ _]?mime[ _]?type|guided|grammar|json mode",
    re.IGNORECASE,
)
"""The names that servers give to structured output, and to the parts of a request that ask for it."""


def refuses_schema(failure: Failure) -> bool:
    """Return True if a server refused a request with HTTP 400 or 422 and a text that names structured output."""
    if failure.kind != "bad_request" or failure.http_status not in _REFUSAL_STATUSES:
        return False
    body = (failure.details or {}).get("body")
    return _NAMES.search(f"{failure.message} {body}") is not None


class SchemaTrial:
    """Sends a server the schema of a reply, until it refuses one and accepts the same request without it."""

    def __init__(self) -> None:
        self._is_refused = False

    async def invoke(
        self, request: ProviderRequest, send: Callable[[ProviderRequest], Awaitable[ProviderResponse]]
    ) -> ProviderResponse:
        """Return the response of `send`, with a note if the server refused the schema. Raises ProviderError."""
        if request.response_schema is None:
            return await send(request)
        plain = replace(request, response_schema=None)
        if self._is_refused:
            return await send(plain)
        try:
            return await send(request)
        except ProviderError as error:
            if not refuses_schema(error.failure):
                raise
        response = await send(plain)
        self._is_refused = True
        return replace(response, notes=(*response.notes, STRUCTURED_OUTPUT_NOTE))
