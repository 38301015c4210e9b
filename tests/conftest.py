"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# A busy machine must not turn a run red: no property has a clock in it.
settings.register_profile("agentv", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", settings.get_profile("agentv"), max_examples=20)  # for .ci/run --fast
settings.load_profile("agentv")
