"""Cases that come from a stream: what is learnt of them only as they come."""

import itertools
import json
from pathlib import Path

import pytest

from agentv import EvaluatorConfig, RunReport, evaluate

FOUR = EvaluatorConfig("four", "contains", {"value": "4"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path


def run(folder: Path, *cases: dict[str, object]) -> RunReport:
    """Ask a target whose answers are right and wrong by turns, cases given as the keys they have besides a question."""
    asked = {"expected_outcome": "4", "input_messages": [{"role": "user", "content": "2 + 2"}]}
    lines = [json.dumps({"id": f"case-{number}", **asked, **case}) for number, case in enumerate(cases)]
    (folder / "cases.jsonl").write_text("\n".join(lines))
    answers = itertools.cycle(["4", "5"])
    return evaluate(
        folder / "cases.jsonl", task=lambda _request: next(answers), evaluators=[FOUR], folder=folder / ".agentv"
    )


def test_a_case_that_says_late_that_it_is_repeated_is_found_flaky(folder: Path) -> None:
    report = run(folder, {}, {}, {}, {"execution": {"trials": 2}}, {})
    assert [row.slot.trial for row in report.results] == [0, 0, 0, 0, 1, 0]
    assert report.flaky == ("case-3 (task)",)
