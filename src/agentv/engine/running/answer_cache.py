"""The answer cache of a run (`--cache`)."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from agentv.engine.capture import Cleaner, Redactor
from agentv.engine.planning.plan import RunPlan
from agentv.types.protocols import Clock
from agentv.types.provider import ProviderResponse

if TYPE_CHECKING:
    from agentv.engine.calling.target_answer_cache import RunCache


def make_run_cache(plan: RunPlan, *, run_id: str, clock: Clock) -> "RunCache | None":
    """Return the answer cache of a run, or None for `--cache off`."""
    if plan.options.cache == "off":
        return None
    from agentv.engine.calling.target_answer_cache import RunCache  # noqa: PLC0415 - for runs with --cache only
    from agentv.storage.cache.answers import ANSWERS_FOLDER, AnswerCache  # noqa: PLC0415

    age_s = plan.options.cache_max_age_s
    oldest = None if age_s is None else clock() - timedelta(seconds=age_s)
    cache = AnswerCache(Path(plan.home) / ANSWERS_FOLDER, oldest=oldest)
    return RunCache(
        cache=cache, is_writable=plan.options.cache == "on", run_id=run_id, clock=clock, clean=_CacheCleaner(plan).clean
    )


def uncached_target_notes(plan: RunPlan) -> Iterator[str]:
    """Yield a note for the targets and judges whose answers are not cached although the run has a cache.

    Those with the same provider and reason share a note. Providers of canned answers, which cost nothing, are left out.
    """
    if plan.options.cache == "off":
        return
    from agentv.engine.calling.target_answer_cache import why_not_cached  # noqa: PLC0415

    names: dict[tuple[str, str], dict[str, None]] = {}
    for target in (*plan.targets, *plan.judges):
        spec = plan.specs.providers.get(target.provider)
        reason = why_not_cached(target, spec)
        if reason is not None and not spec.is_canned:
            names.setdefault((target.provider, reason), {})[repr(target.name)] = None
    for (provider, reason), of in names.items():
        subject, verb = ("target", "is") if len(of) == 1 else ("targets", "are")
        yield f"{subject} {', '.join(of)} ({provider}) {verb} called every time, despite --cache: {reason}"


class _CacheCleaner(Struct):
    """Cleans responses for the cache, which all suites share.

    Redacts the secrets of all targets in use, and the matches of all `redact` patterns.
    """

    plan: RunPlan
    _cleaner: Cleaner | None = None
    _target_count: int = -1

    def clean(self, response: ProviderResponse) -> ProviderResponse:
        """Return a response cleaned, so that it can be cached."""
        known = {id(suite.known): suite.known for suite in self.plan.suites}.values()
        # The count grows, because the secrets of a judge are known only from its first call on.
        count = sum(len(targets.resolved) for targets in known)
        if self._cleaner is None or count != self._target_count:
            secrets = {secret for targets in known for secret in targets.secrets}
            for targets in known:
                secrets.update(secret for target in targets.resolved.values() for secret in target.secrets)
            patterns = {pattern for suite in self.plan.suites for pattern in suite.suite.redact}
            self._cleaner, self._target_count = Cleaner(Redactor(secrets, sorted(patterns))), count
        cleaned: ProviderResponse = self._cleaner.clean(response)
        return cleaned
