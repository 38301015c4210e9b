"""What a call that was cancelled leaves behind: carried by the CancelledError on its way through the layers.

An attribute and not a subclass: before Python 3.13 `asyncio.timeout` recognises no subclass of CancelledError.
"""

import asyncio

from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.provider import CallRecord, ProviderResponse

_ATTRIBUTE = "agentv_failed_call"
INTERRUPTED = Failure("cancelled", "the run was interrupted during this call")
"""The failure of a call that was cancelled."""


def keep_call(
    error: asyncio.CancelledError, partial: ProviderResponse | None, *, calls: tuple[CallRecord, ...] = ()
) -> None:
    """Attach to a cancellation what its target said before, and the attempts; nothing if they say and cost nothing."""
    if partial is not None or any(call.usage is not None for call in calls):
        setattr(error, _ATTRIBUTE, ProviderError(INTERRUPTED, calls=calls, partial=partial))


def kept_call(error: BaseException) -> ProviderError | None:
    """Return the failed call that a cancellation carries, also if it was turned into a time-out; None without one."""
    found: BaseException | None = error
    while found is not None:
        kept = getattr(found, _ATTRIBUTE, None)
        if isinstance(kept, ProviderError):
            return kept
        found = found.__cause__ or found.__context__
    return None


def kept_partial(error: BaseException) -> ProviderResponse | None:
    """Return what the target said before its call was cancelled or cut off; None when nothing is known."""
    kept = kept_call(error)
    return None if kept is None else kept.partial
