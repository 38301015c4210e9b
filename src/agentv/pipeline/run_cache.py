"""The cache of answers as a run asks for it: where it lies, how old answers may be, what must not be kept."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from agentv.pipeline.capture import Cleaner, Redactor
from agentv.pipeline.plan import RunPlan
from agentv.types.protocols import Clock
from agentv.types.provider import ProviderResponse

if TYPE_CHECKING:
    from agentv.pipeline.answer_memory import RunCache


def make_run_cache(plan: RunPlan, *, run_id: str, clock: Clock) -> "RunCache | None":
    """Return the cache that a run was asked to use, None for a run without."""
    if plan.options.cache == "off":
        return None
    from agentv.pipeline.answer_memory import RunCache  # noqa: PLC0415 - for those alone who use it
    from agentv.storage.answer_cache import ANSWERS_FOLDER, AnswerCache  # noqa: PLC0415

    age_s = plan.options.cache_max_age_s
    oldest = None if age_s is None else clock() - timedelta(seconds=age_s)
    cache = AnswerCache(Path(plan.home) / ANSWERS_FOLDER, oldest=oldest)
    return RunCache(cache, plan.options.cache == "on", run_id, clock, _Strike(plan).clean)


def uncached_targets(plan: RunPlan) -> Iterator[str]:
    """Yield a sentence for each target that is asked every time although a cache was asked for."""
    if plan.options.cache == "off":
        return
    from agentv.pipeline.answer_memory import why_not_cached  # noqa: PLC0415

    for target in (*plan.targets, *plan.judges):
        spec = plan.specs.providers.get(target.provider)
        why = why_not_cached(target, spec)
        if why is not None and not spec.is_canned:
            yield f"target {target.name!r} ({target.provider}) is asked every time, with or without --cache: {why}"


class _Strike(Struct):
    """Strikes the secrets of every target in use, and what the suites' `redact` names: a cache is shared by all."""

    plan: RunPlan
    _cleaner: Cleaner | None = None
    _known: int = -1

    def clean(self, response: ProviderResponse) -> ProviderResponse:
        """Return a response that may be kept."""
        resolved = {id(known): known.resolved for known in (suite.known for suite in self.plan.suites)}
        count = sum(map(len, resolved.values()))  # a judge's secrets are known when it is first asked
        if self._cleaner is None or count != self._known:
            secrets = [secret for each in resolved.values() for target in each.values() for secret in target.secrets]
            patterns = {pattern for suite in self.plan.suites for pattern in suite.suite.redact}
            self._cleaner, self._known = Cleaner(Redactor(secrets, sorted(patterns))), count
        cleaned: ProviderResponse = self._cleaner.clean(response)
        return cleaned
