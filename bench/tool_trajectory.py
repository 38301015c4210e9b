"""`tool_trajectory`: an agent that called fifty tools, compared in each mode."""

from collections.abc import Iterator
from functools import partial

from agentv import EvaluationInput, Message, ToolCall
from agentv.types.json_value import JsonObject
from bench.evaluators import context_of, make_evaluator
from bench.measuring import Effort, seconds_per_call
from bench.rows import AtMost, Row, row_of

CALLS = 2000
TOOLS = ("search", "fetch", "read_file", "calculate", "write_file")
STEPS = 50

MADE = tuple(ToolCall(TOOLS[step % len(TOOLS)], {"step": step}) for step in range(STEPS))
EXPECTED = [{"tool": call.tool} for call in MADE]
WITH_INPUTS = [{"tool": call.tool, "input": call.input} for call in MADE]
EVERY_FIFTH = EXPECTED[::5]
SETTINGS: dict[str, JsonObject] = {
    "any_order": {"minimums": {"search": 5, "fetch": 5}, "maximums": {"write_file": 20}, "forbidden": ["delete"]},
    "in_order": {"mode": "in_order", "expected": EVERY_FIFTH},
    "exact": {"mode": "exact", "expected": EXPECTED},
    "exact with inputs": {"mode": "exact", "expected": WITH_INPUTS},
    "exact, partial": {"mode": "exact", "expected": EXPECTED, "score": "partial"},
    "unordered": {"mode": "unordered", "expected": EXPECTED},
    "superset": {"mode": "superset", "expected": EVERY_FIFTH},
}


def measure(effort: Effort) -> Iterator[Row]:
    """Yield a row for each mode."""
    turns = tuple(Message("assistant", tool_calls=(call,)) for call in MADE)
    context = context_of(EvaluationInput("Done.", prompt="Refund it.", message_history=turns))
    for mode, settings in SETTINGS.items():
        evaluator = make_evaluator("tool_trajectory", settings)
        (own,) = seconds_per_call(partial(evaluator.evaluate, context), calls=CALLS, effort=effort)
        yield row_of(f"{mode}, {STEPS} calls", own, target=AtMost(50e-6))
