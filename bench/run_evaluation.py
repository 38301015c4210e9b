"""The overhead of `run_evaluation` beyond the work of the evaluators themselves."""

import asyncio
from collections.abc import Iterator

from agentv import EvaluationCriteria, EvaluationInput, EvaluationRunConfig, run_evaluation
from bench.evaluators import context_of, make_evaluator
from bench.measuring import Effort, seconds_per_call
from bench.rows import AtMost, Row, row_of
from bench.words import make_text, make_words

CALLS = 4000
ANSWER = f"{make_text(make_words(200, seed=1), 1000, seed=2)} Please wait"
CRITERIA = (
    EvaluationCriteria("polite"),
    EvaluationCriteria("short", scale="likert5"),
    EvaluationCriteria("ends well", scale="numeric"),
)
RULES = (
    ("contains", {"value": "Please"}, "polite"),
    ("length", {"max": 4000}, "short"),
    ("ends_with", {"value": "wait"}, "ends well"),
)


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the CPU time per call beyond the evaluators' own work, compared with that work."""
    given = EvaluationInput(
        ANSWER, CRITERIA, prompt="May I return it?", ground_truth="Yes, within 30 days.", context={"seen": [1, 2]}
    )
    config = EvaluationRunConfig(
        evaluators=[{"type": type_, **settings, "criterion": criterion} for type_, settings, criterion in RULES]
    )
    context = context_of(given)
    evaluators = [make_evaluator(type_, dict(settings)) for type_, settings, _ in RULES]
    loop = asyncio.new_event_loop()
    calls = effort.calls(CALLS)

    async def call_many() -> None:
        for _ in range(calls):
            await run_evaluation(given, config)

    def judge_many() -> None:
        for _ in range(calls):
            for evaluator in evaluators:
                evaluator.evaluate(context)

    try:
        result = loop.run_until_complete(run_evaluation(given, config))
        if result.run_errors or result.overall_score != 1.0:
            raise RuntimeError(f"unexpected result of the evaluators: {result.run_errors}")
        whole, own = seconds_per_call(lambda: loop.run_until_complete(call_many()), judge_many, calls=1, effort=effort)
    finally:
        loop.close()
    yield row_of(
        "3 rules on 1 kB, beyond their own work",
        [(total - work) / calls for total, work in zip(whole, own, strict=True)],
        beside="their own work",
        theirs=[work / calls for work in own],
        target=AtMost(80e-6),
    )
