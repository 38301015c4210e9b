"""Cases given to evaluate() as rows: dicts, an iterable, a data frame, or a table file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentv import (
    AgentvError,
    EvalCase,
    EvaluationContext,
    EvaluatorConfig,
    ProviderRequest,
    RunReport,
    evaluate,
)

pd: Any = pytest.importorskip("pandas")
ROWS: list[dict[str, Any]] = [
    {"input": "What is 2 + 2?", "expected": "four", "answer": 4},
    {"input": "What is 3 + 3?", "expected": "six", "answer": 6},
]
RIGHT = EvaluatorConfig("right", "contains", {"value": "{{ answer }}"})


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def calculator(request: ProviderRequest) -> str:
    return f"It is {eval(request.question.removeprefix('What is ').removesuffix('?'))}."


def scores(report: RunReport) -> list[tuple[float | None, ...]]:
    return [tuple(each.score for each in row.evaluator_results) for row in report.results]


class Frame:
    """A data frame of polars, as far as its rows are read."""

    columns = ("input", "expected", "answer")

    def iter_rows(self, *, named: bool) -> Iterator[dict[str, Any]]:
        assert named
        yield from ROWS


class ArrowTable:
    """A table of Arrow, as far as its rows are read."""

    columns = ()

    def to_pylist(self) -> list[dict[str, Any]]:
        return ROWS


@pytest.mark.parametrize(
    "make",
    [lambda: ROWS, lambda: iter(ROWS), lambda: pd.DataFrame(ROWS), Frame, ArrowTable],
    ids=["a list", "an iterator", "pandas", "polars", "Arrow"],
)
def test_rows_are_cases_whose_other_keys_are_variables(make: Callable[[], Any]) -> None:
    report = evaluate(make(), task=calculator, evaluators=[RIGHT])
    assert scores(report) == [(1.0,), (1.0,)]
    assert {row.suite for row in report.results} == {"cases"}


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_table_file_is_a_suite_whose_columns_are_variables(suffix: str) -> None:
    pd.DataFrame(ROWS).to_csv(f"cases.{suffix}", index=False, sep="\t" if suffix == "tsv" else ",")
    report = evaluate(f"cases.{suffix}", task=calculator, evaluators=[RIGHT])
    assert scores(report) == [(1.0,), (1.0,)]
    assert {row.suite for row in report.results} == {f"cases.{suffix}"}
    assert len(list(Path(".agentv/runs").iterdir())) == 1


@pytest.mark.parametrize(("source", "place"), [("cases.csv", "evaluate()"), (ROWS, "rows:1:1")], ids=["file", "rows"])
def test_a_wrong_evaluator_is_named_by_its_place_in_the_list(source: Any, place: str) -> None:
    pd.DataFrame(ROWS).to_csv("cases.csv", index=False)
    says_it = EvaluatorConfig("it", "contains", {"value": "It is"})
    wrong = {"name": "right", "type": "contains", "value": "{{ answr }}"}
    with pytest.raises(AgentvError) as raised:
        evaluate(source, task=calculator, evaluators=[says_it, wrong])
    assert str(raised.value).startswith(f"{place}  $.evaluators[1].value  there is no variable 'answr'")


def test_a_table_file_needs_no_evaluators_with_variables() -> None:
    pd.DataFrame(ROWS).to_csv("cases.csv", index=False)
    says_it = EvaluatorConfig("it", "contains", {"value": "It is"})
    assert scores(evaluate(Path("cases.csv"), task=calculator, evaluators=[says_it])) == [(1.0,), (1.0,)]


def test_functions_judge_beside_evaluators_with_variables() -> None:
    def no_six(context: EvaluationContext) -> bool:
        return "6" not in context.candidate

    report = evaluate(ROWS, task=calculator, evaluators=[RIGHT, no_six])
    assert scores(report) == [(1.0, 1.0), (1.0, 0.0)]


def test_the_expected_answer_is_the_reference() -> None:
    seen: list[str | None] = []

    def remember(context: EvaluationContext) -> bool:
        seen.append(context.reference_answer)
        return True

    evaluate(ROWS, task=calculator, evaluators=[remember])
    assert sorted(map(str, seen)) == ["four", "six"]


def test_missing_cells_of_a_data_frame_are_no_values() -> None:
    frame = pd.DataFrame(
        {
            "input": ["a", "b"],
            "expected": pd.array(["yes", pd.NA], dtype="string"),
            "expected_outcome": [float("nan"), "Says no."],
            "metadata.at": pd.to_datetime(["2026-01-02", None]),
            "metadata.count": pd.Series([1, 2], dtype=object).map(lambda value: pd.Series([value]).to_numpy()[0]),
        }
    )
    seen: dict[str, EvaluationContext] = {}

    def remember(context: EvaluationContext) -> bool:
        seen[context.prompt_inputs.question] = context
        return True

    evaluate(frame, task=lambda request: request.question, evaluators=[remember])
    assert seen["a"].reference_answer == "yes"
    assert (seen["b"].reference_answer, seen["b"].eval_case.expected_outcome) == (None, "Says no.")
    assert seen["a"].eval_case.expected_outcome == ""
    assert seen["a"].metadata == {"at": "2026-01-02T00:00:00", "count": 1}
    assert seen["b"].metadata["at"] is None


def test_dicts_may_have_evaluators_of_their_own_and_are_then_cases() -> None:
    six = {"name": "six", "type": "contains", "value": "6"}
    cases = [{"id": "a", **ROWS[0]}, {"id": "b", **ROWS[1], "evaluators": [six]}]
    without_variables: list[dict[str, Any]] = [{k: v for k, v in case.items() if k != "answer"} for case in cases]
    four = EvaluatorConfig("four", "contains", {"value": "4"})
    report = evaluate(without_variables, task=calculator, evaluators=[four])
    assert [[each.name for each in row.evaluator_results] for row in report.results] == [["four"], ["six"]]
    assert report.passed


def test_dicts_with_messages_are_cases() -> None:
    cases = ({"id": str(number), "inputMessages": row["input"]} for number, row in enumerate(ROWS))
    report = evaluate(cases, task=calculator, evaluators=[EvaluatorConfig("it", "contains", {"value": "It"})])
    assert [row.eval_id for row in report.results] == ["0", "1"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([{"inptu": "x"}], "rows:1:1  $  the row has no question"),
        ([{"id": "a", "input": "x", "evaluators": [], "answer": 1}], "cases[0]: Unexpected keyword argument 'answer'"),
        ([{"input": "x"}, EvalCase("a", "x")], "rows:2: an EvalCase among rows"),
        ([{"input": "x", "answer": 1}, {"input": "y"}], "there is no variable 'answer'"),
        ([{"input": "x", "answer": 1}, {"input": "x", "answer": 1}], "is used twice, first in line 1"),
        (
            {"input": "x"},
            "evaluate() takes a path, an EvalSuite, an iterable of cases or rows, or a DataFrame; got dict",
        ),
        (7, "got int"),
        ("missing.csv", "missing.csv"),
    ],
)
def test_what_is_no_row_is_refused(source: Any, message: str) -> None:
    with pytest.raises(AgentvError) as raised:
        evaluate(source, task=calculator, evaluators=[RIGHT])
    assert message in str(raised.value)
