"""Evaluators that are created for each case, and those that score many answers."""

import random

import pytest

from agentv import EvaluatorConfig
from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.targets import KnownTargets
from agentv.engine.plugins.loading import load_specs
from agentv.engine.running.clock import make_clock
from agentv.engine.running.score import SuiteTools

REUSABLE = EvaluatorConfig("has", "contains", {"value": "a"})
NEW_FOR_EACH = EvaluatorConfig("script", "code_judge", {"script": ["true"]})


@pytest.fixture
def tools() -> SuiteTools:
    specs = load_specs()
    rng = random.Random(0)  # it spreads retries
    return SuiteTools(Runtime(specs=specs, clock=make_clock(), rng=rng, home="."), KnownTargets({}, {}, specs))


def test_an_evaluator_that_keeps_nothing_is_made_once_of_its_config(tools: SuiteTools) -> None:
    first = tools.runtime.evaluator(REUSABLE, tools)
    assert tools.runtime.evaluator(REUSABLE, tools) is first
    twin = EvaluatorConfig(REUSABLE.name, REUSABLE.type, REUSABLE.settings)
    assert tools.runtime.evaluator(twin, tools) is not first


def test_a_code_evaluator_is_new_for_each_case(tools: SuiteTools) -> None:
    first = tools.runtime.evaluator(NEW_FOR_EACH, tools)
    assert tools.runtime.evaluator(NEW_FOR_EACH, tools) is not first


def test_settings_are_read_once_of_a_config(tools: SuiteTools) -> None:
    settings = tools.runtime.settings(NEW_FOR_EACH)
    assert tools.runtime.settings(NEW_FOR_EACH) is settings
