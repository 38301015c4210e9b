"""Evaluators and contexts for benchmarks, made as `run_evaluation` makes them."""

import random
from datetime import UTC, datetime
from pathlib import Path

from agentv import EvaluationInput, EvaluatorConfig
from agentv.engine.calling.given_answer import context_of_input
from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.inputs import load_project_parts
from agentv.engine.planning.targets import KnownTargets
from agentv.engine.running.clock import make_clock
from agentv.engine.running.score import SuiteTools
from agentv.loading.files.places import find_home
from agentv.types.evaluation import EvaluationContext, Evaluator
from agentv.types.json_value import JsonObject

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def make_evaluator(type_: str, settings: JsonObject) -> Evaluator:
    """Return an evaluator as a run makes it. Raises AgentvError for an unknown type or a bad setting."""
    here = Path.cwd()
    specs, _ = load_project_parts([here])
    rng = random.Random(0)  # noqa: S311 - not for cryptography
    runtime = Runtime(specs=specs, clock=make_clock(), rng=rng, home=str(find_home(here)))
    tools = SuiteTools(runtime, KnownTargets({}, {}, specs))
    return runtime.evaluator(EvaluatorConfig(type_, type_, settings), tools)


def context_of(given: EvaluationInput) -> EvaluationContext:
    """Return the context in which evaluators score an answer."""
    return context_of_input(given, given.criteria, judge=None, now=NOW)
