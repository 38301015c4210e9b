"""The session of a target: cached objects are renewed when targets are added."""

import random

from agentv.engine.calling.fingerprints import Fingerprints
from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.plan import CaseTask
from agentv.engine.planning.targets import KnownTargets
from agentv.engine.plugins.loading import load_specs
from agentv.engine.running.clock import make_clock
from agentv.engine.running.target_session import TargetSession
from agentv.types.cases import EvalCase, EvalSuite, listed_cases
from agentv.types.targets import ResolvedTarget, TargetConfig


def test_secrets_of_a_target_named_by_a_late_line_are_redacted() -> None:
    specs = load_specs()
    runtime = Runtime(specs=specs, clock=make_clock(), rng=random.Random(0), home=".")
    known = KnownTargets({}, {}, specs)
    known.resolved["t"] = target = ResolvedTarget("t", "mock", None, secrets=("first",))
    case = EvalCase("a", "?")
    suite = EvalSuite("s.yaml", listed_cases([case]))
    target_session = TargetSession(CaseTask(case, suite, target, known), runtime, Fingerprints(runtime))
    assert target_session.cleaner().text("first and second") == "*** and second"

    known.resolved["judge"] = ResolvedTarget("judge", "mock", None, secrets=("second",))

    assert target_session.cleaner().text("first and second") == "*** and ***"


def test_the_account_of_a_target_depends_on_no_other_secret() -> None:
    specs = load_specs()
    runtime = Runtime(specs=specs, clock=make_clock(), rng=random.Random(0), home=".")
    model, other = (
        TargetConfig(name, "openai", {"model": "m", "api_key": key})
        for name, key in (("t", "sk-0123456789"), ("o", "sk-9876543210"))
    )
    alone = KnownTargets({}, {}, specs).with_targets([model])
    among = KnownTargets({}, {}, specs, secrets=("inherited-secret",)).with_targets([model, other])
    assert set(among.get("t").secrets) == {"inherited-secret", "sk-0123456789", "sk-9876543210"}
    assert runtime.account_of(alone.get("t")) == runtime.account_of(among.get("t"))
    assert runtime.account_of(among.get("o")) != runtime.account_of(among.get("t"))
