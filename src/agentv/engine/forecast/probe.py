"""A probe of each target by one cheap call, with a remedy for each kind of failure."""

import random
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.calling.runtime import Runtime
from agentv.engine.capture import Redactor
from agentv.engine.planning.plan import CaseTask
from agentv.engine.planning.workspaces import target_workspace, wanted_workspace
from agentv.engine.running.clock import make_clock
from agentv.engine.running.workspaces import open_wanted_workspace
from agentv.registry import Specs
from agentv.types.cases import EvalCase
from agentv.types.errors import AgentvError
from agentv.types.provider import CheckedProvider, PlacedCheckProvider, ProviderError, ProviderRequest
from agentv.types.targets import ResolvedTarget

QUESTION = "Reply with the single word OK."
MAX_REPLY_TOKENS = 16
TIMEOUT_S = 60.0

REMEDIES: Mapping[str, str] = {
    "auth": "Check the key: is it set, for this account, and not expired?",
    "bad_request": "Check the model's name and the settings that go with it.",
    "rate_limited": "The account is at its limit: wait, or raise the limit with the provider.",
    "transport": "Check the address and the network: no server answered there.",
    "deadline": "Raise timeout_seconds, or find out what the target waits for.",
    "target_timeout": "Raise timeout_seconds, or find out what the target waits for.",
    "target_exit": "Run the command by hand with the same prompt.",
    "target_missing": "Install the program, or correct its path.",
    "healthcheck": "Start the service that the healthcheck checks, or correct the healthcheck.",
    "unexpected_shape": "The server does not speak the expected API: check base_url.",
    "malformed_reply": "The server does not speak the expected API: check base_url.",
}


class Probe(Struct, frozen=True):
    """The result of one probe."""

    target: str
    provider: str
    took_s: float
    error: str | None = None
    """None if the target answered."""
    remedy: str = ""
    """What to do about the error."""
    is_canned: bool = False
    """True for a target with canned answers (mock, replay), which is not called: it cannot be unreachable."""


async def probe_targets(
    targets: Sequence[ResolvedTarget],
    *,
    specs: Specs,
    home: str,
    first_task: Callable[[ResolvedTarget], CaseTask | None] = lambda _target: None,
) -> list[Probe]:
    """Call each target once with a short prompt, one after another.

    `first_task` returns the first task of a target: the probe uses the id, metadata and workspace of its case.
    """
    clock = make_clock()
    rng = random.Random(0)  # noqa: S311 - spreads retries, keeps no secret
    async with Runtime(specs=specs, clock=clock, rng=rng, home=home) as runtime:
        probes: list[Probe] = []
        for target in targets:
            if specs.providers.get(target.provider).is_canned:
                probes.append(Probe(target.name, target.provider, 0.0, is_canned=True))
                continue
            without_retries = replace(target, retry=replace(target.retry, max_retries=0))
            started = clock()
            error = await _probe(runtime, without_retries, first_task(target))
            took_s = (clock() - started).total_seconds()
            message = None if error is None else Redactor(target.secrets).text(str(error))
            remedy = REMEDIES.get(error.failure.kind, "") if isinstance(error, ProviderError) else ""
            probes.append(
                Probe(target=target.name, provider=target.provider, took_s=took_s, error=message, remedy=remedy)
            )
        return probes


async def _probe(runtime: Runtime, target: ResolvedTarget, task: CaseTask | None) -> Exception | None:
    try:
        provider = runtime.provider(target)
        if isinstance(provider.provider, PlacedCheckProvider) and task is not None:
            await provider.provider.healthcheck_in((task.suite.base_dir,))
        elif isinstance(provider.provider, CheckedProvider):
            await provider.provider.healthcheck()
        await _call(runtime, provider, task)
    except AgentvError as error:
        return error
    except Exception as error:  # noqa: BLE001 - plug-in code: its error is the result of the probe
        return error
    return None


async def _call(runtime: Runtime, provider: ResilientProvider, task: CaseTask | None) -> None:
    """Call a target as for the case of `task`: with its id and metadata, and in a workspace if it has one."""
    request = ProviderRequest(question=QUESTION, eval_case_id="probe", max_output_tokens=MAX_REPLY_TOKENS)
    wanted = target_workspace(provider.target)
    if task is not None and isinstance(task.case, EvalCase):
        case, suite = task.case, task.suite
        request = replace(request, eval_case_id=case.id, eval_dir=suite.base_dir, metadata=case.metadata)
        wanted = wanted_workspace(case, suite, provider.target)
    if wanted is None or not runtime.specs.providers.get(provider.target.provider).works_in_folder:
        await provider.invoke_within(request, total_s=TIMEOUT_S)
        return
    async with open_wanted_workspace(wanted, "probe", runtime) as workspace:
        await provider.invoke_within(replace(request, workspace=str(workspace.path)), total_s=TIMEOUT_S)
        await workspace.finish(failed=False)
