"""Health checks of targets and judges before the first row."""

from collections.abc import Iterable
from functools import partial

from agentv.engine.calling.capture import Redactor
from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.plan import RunPlan
from agentv.execution.user_code import call_user_code
from agentv.types.errors import ProviderError
from agentv.types.provider import CheckedProvider, PlacedCheckProvider
from agentv.types.targets import ResolvedTarget


async def failed_check(targets: Iterable[ResolvedTarget], plan: RunPlan, runtime: Runtime) -> str | None:
    """Run the healthcheck of each target that has one; return what the first failing one says, None if none fails."""
    for target in targets:
        provider = runtime.provider(target).provider
        if not isinstance(provider, CheckedProvider):
            continue
        try:
            if isinstance(provider, PlacedCheckProvider):
                await call_user_code(partial(provider.healthcheck_in, plan.folders_of(target)), timeout_s=None)
            else:
                await call_user_code(provider.healthcheck, timeout_s=None)
        except Exception as error:  # noqa: BLE001 - plug-in code: any exception means that the check failed
            message = Redactor(target.secrets).text(str(error))
            known = isinstance(error, ProviderError)
            return message if known else f"the healthcheck of target {target.name!r} failed: {message}"
    return None
