"""The case door: cases through `evaluate()` in this process, everything stored."""

from collections.abc import Iterator
from tempfile import TemporaryDirectory

from agentv import EvalCase, EvaluatorConfig, Message, evaluate
from bench.measuring import Effort, seconds_per_call
from bench.rows import Row, row_of

CASES = 1000


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the CPU per case, threads that write included, for orientation."""
    count = effort.calls(CASES)
    cases = [EvalCase(f"case-{number}", (Message("user", f"Say {number}"),)) for number in range(count)]
    evaluators = [EvaluatorConfig("says", "contains", {"value": "Say"})]

    def run() -> None:
        with TemporaryDirectory() as folder:
            report = evaluate(cases, task=lambda request: request.question, evaluators=evaluators, folder=folder)
        if report.exit_code != 0:
            raise RuntimeError(f"the run ended with exit code {report.exit_code}")

    (own,) = seconds_per_call(run, calls=1, effort=effort)
    yield row_of(f"per case of {CASES:,}, one contains, all stored", [seconds / count for seconds in own])
