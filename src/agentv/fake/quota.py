"""Rate limits per key, in requests and tokens per minute, and the headers that report the remaining amounts."""

import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from msgspec import Struct, field

_MINUTE = 60.0


class Quota(Struct, frozen=True):
    """The limits of each API key. A minute's requests and tokens may be used at once, and are refilled steadily."""

    requests_per_minute: float
    tokens_per_minute: float | None = None
    burst: float | None = None
    """Replaces the number of requests that may be made at once."""
    concurrent: int | None = None
    """The maximum number of requests that are being answered."""
    headers: bool = True
    """False if no headers report the limits or the time to wait."""
    clock: Callable[[], float] = time.monotonic
    """Returns seconds."""


class Meter(Struct):
    """An amount of requests or tokens that is used up and refilled steadily."""

    per_minute: float
    capacity: float
    left: float
    """Negative after a request for more than the capacity."""
    refilled_at: float
    """A time of the quota's clock."""

    def refill(self, now: float) -> None:
        """Add the amount for the time since the last refill."""
        self.left = min(self.capacity, self.left + (now - self.refilled_at) * self.per_minute / _MINUTE)
        self.refilled_at = now

    def wait_s(self, amount: float) -> float:
        """Return the seconds until `amount` is available; for more than the capacity, until the meter is full."""
        return max(0.0, (min(amount, self.capacity) - self.left) * _MINUTE / self.per_minute)

    @property
    def reset_s(self) -> float:
        """The seconds until the meter is full."""
        return (self.capacity - self.left) * _MINUTE / self.per_minute


class Account(Struct):
    """The meters of one key. `running` is the number of its requests that are being answered."""

    requests: Meter
    tokens: Meter | None
    running: int = 0


class Permit(Struct, frozen=True):
    """The decision on a request, and the headers for its reply. `retry_after_s` is 0 for an allowed request."""

    allowed: bool
    retry_after_s: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


class Quotas(Struct):
    """The accounts of all keys under one quota; without a quota everything is allowed."""

    quota: Quota | None
    _accounts: dict[str, Account] = field(default_factory=dict)

    def take(self, key: str, tokens: int) -> Permit:
        """Take one request and `tokens` from the key's account, or refuse the request.

        It is allowed if `Meter.wait_s` is 0 for both, and if fewer than `Quota.concurrent` requests of the key are
        being answered. Call `end_request` when an allowed request has been answered.
        """
        if self.quota is None:
            return Permit(allowed=True)
        account = self._account(key, self.quota)
        meters = ((account.requests, 1.0), (account.tokens, float(tokens)))
        wait_s = max(meter.wait_s(amount) for meter, amount in meters if meter is not None)
        is_busy = self.quota.concurrent is not None and account.running >= self.quota.concurrent
        allowed = wait_s <= 0 and not is_busy
        if allowed:
            account.running += 1
            for meter, amount in meters:
                if meter is not None:
                    meter.left -= amount
        headers = _headers(account) if self.quota.headers else {}
        return Permit(allowed, 0.0 if allowed else max(wait_s, 0.001), headers)

    def end_request(self, key: str) -> None:
        """End an allowed request; it no longer counts as concurrent."""
        if self.quota is not None:
            self._accounts[key].running -= 1

    def _account(self, key: str, quota: Quota) -> Account:
        now = quota.clock()
        account = self._accounts.get(key)
        if account is None:
            burst = quota.requests_per_minute if quota.burst is None else quota.burst
            per_minute = quota.tokens_per_minute
            tokens = None if per_minute is None else Meter(per_minute, per_minute, per_minute, now)
            account = Account(Meter(quota.requests_per_minute, burst, burst, now), tokens)
            self._accounts[key] = account
        for meter in (account.requests, account.tokens):
            if meter is not None:
                meter.refill(now)
        return account


def _headers(account: Account) -> dict[str, str]:
    """Return the rate limit headers of OpenAI and Azure, and those of Anthropic."""
    headers: dict[str, str] = {}
    for name, meter in (("requests", account.requests), ("tokens", account.tokens)):
        if meter is not None:
            left = str(max(0, math.floor(meter.left)))
            limit = str(round(meter.per_minute))
            headers[f"x-ratelimit-limit-{name}"] = headers[f"anthropic-ratelimit-{name}-limit"] = limit
            headers[f"x-ratelimit-remaining-{name}"] = headers[f"anthropic-ratelimit-{name}-remaining"] = left
            headers[f"x-ratelimit-reset-{name}"] = f"{meter.reset_s:.3f}s"
            reset = datetime.fromtimestamp(time.time() + meter.reset_s, UTC)
            headers[f"anthropic-ratelimit-{name}-reset"] = reset.strftime("%Y-%m-%dT%H:%M:%SZ")
    return headers
