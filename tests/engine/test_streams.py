"""Cases from a stream, whose settings are known only when they are read."""

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
    """Run a target whose answers are alternately right and wrong; `cases` are the extra keys of each case."""
    common = {"expected_outcome": "4", "input_messages": [{"role": "user", "content": "2 + 2"}]}
    lines = [json.dumps({"id": f"case-{number}", **common, **case}) for number, case in enumerate(cases)]
    (folder / "cases.jsonl").write_text("\n".join(lines))
    answers = itertools.cycle(["4", "5"])
    return evaluate(
        folder / "cases.jsonl", task=lambda _request: next(answers), evaluators=[FOUR], folder=folder / ".agentv"
    )


def test_a_case_that_says_late_that_it_is_repeated_is_found_flaky(folder: Path) -> None:
    report = run(folder, {}, {}, {}, {"execution": {"trials": 2}}, {})
    assert [row.slot.trial for row in report.results] == [0, 0, 0, 0, 1, 0]
    assert report.flaky == ("case-3 (task)",)
