"""Attach a cancelled call to its CancelledError, so that the layers above can record the partial answer and its cost.

The call is an attribute: before Python 3.13, `asyncio.timeout` does not recognise a subclass of CancelledError.
"""

import asyncio

from agentv.types.failures import Failure
from agentv.types.provider import CallRecord, ProviderError, ProviderResponse

_ATTRIBUTE = "agentv_failed_call"
INTERRUPTED = Failure("cancelled", "the run was interrupted during this call")
"""The failure of a call that was cancelled."""


def attach_call(
    error: asyncio.CancelledError, partial: ProviderResponse | None, *, calls: tuple[CallRecord, ...] = ()
) -> None:
    """Attach the partial answer and the attempts of a cancelled call, if it has a partial answer or used tokens."""
    if partial is not None or any(call.usage is not None for call in calls):
        setattr(error, _ATTRIBUTE, ProviderError(INTERRUPTED, calls=calls, partial=partial))


def attached_call(error: BaseException) -> ProviderError | None:
    """Return the call attached to a cancellation, also to one that became a time-out; None without one."""
    found: BaseException | None = error
    while found is not None:
        call = getattr(found, _ATTRIBUTE, None)
        if isinstance(call, ProviderError):
            return call
        found = found.__cause__ or found.__context__
    return None


def attached_partial(error: BaseException) -> ProviderResponse | None:
    """Return the partial answer attached to a cancellation, also to one that became a time-out, or None."""
    call = attached_call(error)
    return None if call is None else call.partial
