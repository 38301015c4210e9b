"""Rows of tables on the fast path: the same cases as the general reader makes of the same rows in JSON Lines."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.nightly import sample

from agentv.engine.plugins.loading import load_specs
from agentv.loading.suites.suites import read_suite
from agentv.types.cases import BrokenCase, EvalCase

ROWS: dict[str, list[dict[str, str]]] = {
    "all roles": [
        {"id": f"c{number}", "input": question, "expected": expected, "expected_outcome": outcome, "note": "n"}
        for number, (question, expected, outcome) in enumerate(
            (question, expected, outcome)
            for question in ("What?", "", "a {{ b }}", " ")
            for expected in ("", "4", "['x']")
            for outcome in ("", "says 4")
        )
    ],
    "no id": [{"question": f'{number}\u2028\x7f\t"?\\', "target": "é🙂", "metadata.level": ""} for number in range(3)],
    "tags": [{"id": f"c{number}", "input": "What?", "tags": "a, b"} for number in range(3)],
    "metadata": [{"id": f"c{number}", "input": "What?", "metadata": "{}"} for number in range(3)],
    "export": [{"input": f"q{n}", "output": "x", "trace_id": "t", "type": "TOOL"} for n in range(3)],
    "log": [{"id": f"c{number}", "prompt": "What?", "response": "x"} for number in range(3)],
    "messages": [{"id": f"c{number}", "messages": '[{"role": "user", "content": "What?"}]'} for number in range(3)],
    "case": [{"id": f"c{number}", "inputMessages": "What?", "input": "x"} for number in range(3)],
    "empty id": [{"id": "", "input": f"What {number}?"} for number in range(3)],
    "several questions": [{"id": f"c{number}", "prompt": "p", "question": "q"} for number in range(3)],
}  # fmt: skip
EVALUATORS = {
    "none": "",
    "judge": "{name: j, type: llm_judge}",
    "length": "{name: e, type: length, max: 9}",
    "by case": "{name: e, type: contains, value: '{{ note }}'}",
}


def cases(folder: Path, file: str, evaluator: str) -> list[EvalCase | BrokenCase]:
    (folder / "suite.yaml").write_text(f"execution: {{evaluators: [{evaluator}]}}\nevalcases: {{file: {file}}}\n")
    suite = read_suite(folder / "suite.yaml", load_specs()).suite
    return [] if suite is None else list(suite.cases)


def shape(case: EvalCase | BrokenCase) -> object:
    if isinstance(case, BrokenCase):
        return case.id, sorted(problem.message.replace("rows.jsonl", "rows.csv") for problem in case.problems)
    return replace(case, location=None)


def many(rows: list[dict[str, str]]) -> Iterator[dict[str, str]]:
    """Yield more rows than are checked ahead, with different ids and questions."""
    for number in range(1_500 // len(rows)):
        for row in rows:
            yield {key: f"{value}-{number}" if key == "id" and value else value for key, value in row.items()} | {
                key: f"{row[key]} {number}" for key in ("input", "question") if row.get(key, "").strip()
            }


TABLES = sample([(name, evaluator) for name in ROWS for evaluator in EVALUATORS], 1, of_each=lambda each: each[0])


@pytest.mark.parametrize(("name", "evaluator"), TABLES)
def test_cases_are_those_of_the_same_rows_in_json_lines(name: str, evaluator: str, tmp_path: Path) -> None:
    rows = list(many(ROWS[name]))
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (tmp_path / "rows.jsonl").write_text("\n" + "".join(f"{json.dumps(row)}\n" for row in rows))  # the same lines
    found = [
        [shape(case) for case in cases(tmp_path, f"rows.{kind}", EVALUATORS[evaluator])] for kind in ("csv", "jsonl")
    ]
    assert len(found[0]) == len(found[1])
    assert [each for each in zip(*found, strict=True) if each[0] != each[1]][:3] == []
