"""`agentv run cases.csv --evaluator contains='{{ answer }}'`: rows without an eval file."""

import json
from pathlib import Path

import pytest

from agentv.cli.main import main

CSV = "input,answer\nWhat is 2+2?,4\nCapital of France?,Paris\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "cases.csv").write_text(CSV)
    rows = [{"input": "What is 2+2?", "answer": "4"}, {"input": "Capital of France?", "answer": "Paris"}]
    (tmp_path / "cases.json").write_text(json.dumps(rows))
    (tmp_path / "cases.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: mock, response: 'It is 4'}]")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


def scores_of(*words: str) -> dict[str, list[float]]:
    assert call("run", *words, "-o", "rows.jsonl", "--gate", "none") == 0
    found: dict[str, list[float]] = {}
    for line in Path("rows.jsonl").read_text().splitlines():
        for each in json.loads(line)["evaluator_results"]:
            found.setdefault(each["name"], []).append(each["score"])
    Path("rows.jsonl").unlink()
    return found


@pytest.mark.parametrize("name", ["cases.csv", "cases.json", "cases.jsonl"])
def test_rows_are_judged_by_the_evaluators_of_the_option(name: str) -> None:
    assert scores_of(name, "--evaluator", "contains={{ answer }}") == {"contains": [1.0, 0.0]}


@pytest.mark.parametrize(
    ("text", "scores"),
    [
        ("numeric=4", [1.0, 1.0]),
        ("numeric={{ answer }}", None),
        ("one_of=It is 4", [1.0, 1.0]),
        ("one_of={values: [It is 4, 5]}", [1.0, 1.0]),
        ("is_json", [0.0, 0.0]),
        ("regex=is \\d$", [1.0, 1.0]),
        ("{type: length, max: 3}", [0.0, 0.0]),
        ("contains = It ", [1.0, 1.0]),
    ],
)
def test_short_forms(text: str, scores: list[float] | None) -> None:
    if scores is None:  # "Paris" is no number
        assert call("run", "cases.csv", "--evaluator", text) == 4
        return
    assert list(scores_of("cases.csv", "--evaluator", text).values()) == [scores]


def test_evaluators_of_one_type_have_names_of_their_own() -> None:
    found = scores_of("cases.csv", "--evaluator", "contains=It", "--evaluator", "contains=is", "--evaluator", "is_json")
    assert list(found) == ["contains", "contains-2", "is_json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("contians=x", "Did you mean 'contains'?"),
        ("length=x", "write the settings as an object ({type: length, …})"),
        ("{type: contains", "not an object as in an eval file"),
        ("contains={{ reply }}", "reply"),
    ],
)
def test_wrong_short_forms_are_refused(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", "cases.csv", "--evaluator", text) == 4
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["cases.csv", "cases.jsonl", "cases.json"])
def test_rows_without_evaluators_are_answered_with_what_they_need(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("run", name) == 4
    said = capsys.readouterr().err
    assert f"agentv run {name} --evaluator contains='{{{{ answer }}}}'\n" in said
    lines = said.split("run that file:\n")[1]
    (folder / "cases.yaml").write_text(lines.replace("\n  ", "\n").removeprefix("  "))
    assert scores_of("cases.yaml") == {"right": [1.0, 0.0]}


@pytest.mark.parametrize(
    "given",
    [
        {"id": "a", "input_messages": "2+2?", "expected": "4"},
        {"input": "2+2?", "expected_outcome": "Says four"},
        {"id": "a", "input": "2+2?", "evaluators": [{"name": "four", "type": "contains", "value": "4"}]},
    ],
)
def test_lines_that_are_cases_need_no_evaluators(given: dict[str, object], folder: Path) -> None:
    (folder / "cases.jsonl").write_text(json.dumps(given))
    assert call("run", "cases.jsonl", "--dry-run") == 0


@pytest.mark.parametrize("name", ["cases.csv", "cases.json"])
def test_check_of_a_file_of_rows_names_the_two_ways_to_run_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", name) == 4
    assert f"`agentv run {name} --evaluator TYPE=VALUE`, or name it in an eval file" in capsys.readouterr().out


def test_an_eval_file_names_its_evaluators_itself(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "suite.yaml").write_text("evalcases: [{id: a, input: hi, expected: ho}]")
    assert call("run", "suite.yaml", "--evaluator", "is_json") == 4
    assert "suite.yaml: --evaluator is for files of rows" in capsys.readouterr().err


def test_a_run_of_rows_can_be_retried_and_rescored(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", "cases.csv", "--evaluator", "contains={{ answer }}") == 1
    assert call("retry", "latest", "--failed") == 1
    assert call("rescore", "latest") == 1
    assert "1 of 2" in capsys.readouterr().out
