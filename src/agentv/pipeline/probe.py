"""One cheap call to each target: does it answer, and if not, what would mend it."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agentv.pipeline.capture import Redactor
from agentv.pipeline.clock import make_clock
from agentv.pipeline.resilience import ResilientProvider
from agentv.pipeline.toolbox import Toolbox
from agentv.registry import Specs
from agentv.types.errors import AgentvError, ProviderError
from agentv.types.provider import CheckedProvider, ProviderRequest
from agentv.types.targets import ResolvedTarget

QUESTION = "Reply with the single word OK."
MOST_REPLY_TOKENS = 16
TIMEOUT_S = 60.0

REMEDIES: Mapping[str, str] = {
    "auth": "Check the key: is it set, for this account, and not expired?",
    "bad_request": "Check the model's name and the settings that go with it.",
    "rate_limited": "The account is at its limit: wait, or raise the limit with the provider.",
    "transport": "Check the address and the network: nobody answered there.",
    "deadline": "It took too long: raise timeout_seconds, or look at what it waits for.",
    "target_timeout": "It took too long: raise timeout_seconds, or look at what it waits for.",
    "target_exit": "Run the command by hand with the same prompt.",
    "target_missing": "Install the program, or correct its path.",
    "healthcheck": "Start what the healthcheck looks at, or correct the healthcheck.",
    "unexpected_shape": "Something else than the expected API answers there: check base_url.",
    "malformed_reply": "Something else than the expected API answers there: check base_url.",
}


@dataclass(frozen=True, slots=True)
class Probe:
    """How one target answered. `error` is None when it did; `remedy` says what to try."""

    target: str
    provider: str
    took_s: float
    error: str | None = None
    remedy: str = ""


async def probe_targets(targets: Sequence[ResolvedTarget], *, specs: Specs, home: str) -> list[Probe]:
    """Ask each target one short question, once, one after another."""
    clock = make_clock()
    rng = random.Random(0)  # noqa: S311 - spreads retries, keeps no secret
    async with Toolbox(specs=specs, clock=clock, rng=rng, home=home) as toolbox:
        probes: list[Probe] = []
        for target in targets:
            once = replace(target, retry=replace(target.retry, max_retries=0))
            started = clock()
            error = await _ask(toolbox, once)
            took_s = (clock() - started).total_seconds()
            said = None if error is None else Redactor(target.secrets).text(str(error))
            remedy = REMEDIES.get(error.failure.kind, "") if isinstance(error, ProviderError) else ""
            probes.append(Probe(target.name, target.provider, took_s, said, remedy))
        return probes


async def _ask(toolbox: Toolbox, target: ResolvedTarget) -> Exception | None:
    try:
        provider = toolbox.provider(target)
        await _call(provider)
    except AgentvError as error:
        return error
    except Exception as error:  # noqa: BLE001 - plug-in code: its fault is what is asked for here
        return error
    return None


async def _call(provider: ResilientProvider) -> None:
    if isinstance(provider.provider, CheckedProvider):
        await provider.provider.healthcheck()
    request = ProviderRequest(question=QUESTION, eval_case_id="probe", max_output_tokens=MOST_REPLY_TOKENS)
    await provider.invoke_within(request, total_s=TIMEOUT_S)
