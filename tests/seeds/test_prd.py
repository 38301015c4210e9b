"""Seed evaluation-framework-prd.md: what already holds of its non-functional requirements."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentv import EvalCase, EvaluationContext, ProviderRequest, evaluate

ROOT = Path(__file__).parent.parent.parent
PLUGIN = '''
from agentv import evaluator, provider

@evaluator("shouts")
def shouts(context, *, mark: str = "!"):
    """Scores answers that end as they should."""
    return context.candidate.endswith(mark)

@provider("parrot")
def parrot(request):
    """Says what it is told."""
    return request.question + "?"
'''
SUITE = """
evalcases:
  - id: c
    expected_outcome: Shouts
    input_messages: [{role: user, content: hi}]
    evaluators:
      - {name: loud, type: shouts}
      - {name: asks, type: shouts, mark: "?"}
"""


def test_adding_an_evaluator_or_a_provider_touches_no_file_of_ours(run: Callable[..., Any]) -> None:
    files = {".agentv.yaml": "plugins: [mine.py]\n", "mine.py": PLUGIN}
    done = run(SUITE, targets="targets: [{name: t, provider: parrot}]", files=files)
    (row,) = done.rows
    assert row["candidate_answer"] == "hi?"
    assert [(result["type"], result["score"]) for result in row["evaluator_results"]] == [("shouts", 0), ("shouts", 1)]


def test_every_part_that_a_run_depends_on_can_be_given() -> None:
    class Always:
        kind = "always"

        def evaluate(self, context: EvaluationContext) -> float:
            return float(len(context.candidate) > 0)

    def task(request: ProviderRequest) -> str:
        return f"heard {request.question}"

    case = EvalCase(id="c", input_messages="hi")
    report = evaluate([case], task=task, evaluators=[Always()])
    (row,) = report.results
    assert (row.candidate_answer, row.score) == ("heard hi", 1.0)
