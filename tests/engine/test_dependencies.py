"""Cases that depend on others run after them, and not at all if those ended with an error."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentv.cli.main import agentv
from agentv.engine.plugins.loading import load_specs
from agentv.loading.suites.suites import load_suite
from agentv.types.errors import EvalFileError

TARGETS = """
targets:
  - name: t
    provider: cli
    command_template: sh -c 'echo {EVAL_ID} >> order.txt; test {EVAL_ID} != broken && echo yes'
    cwd: .
"""


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("targets.yaml").write_text(TARGETS)


def run(text: str, *options: str) -> dict[str, dict[str, Any]]:
    Path("suite.eval.yaml").write_text(f"target: t\n{text}")
    agentv.main(["run", "suite.eval.yaml", "-o", "rows.jsonl", *options], standalone_mode=False)
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    return {row["eval_id"]: row for row in rows}


def case(name: str, more: str = "") -> str:
    return f"  - {{id: {name}, input: hi, assertions: [{{type: contains, value: yes}}]{more}}}\n"


@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_case_runs_after_those_that_it_depends_on(workers: str) -> None:
    text = "tests:\n" + case("c", ", depends_on: [b]") + case("b", ", depends_on: [a]") + case("a") + case("d")
    rows = run(text, "--workers", workers)
    assert {row["status"] for row in rows.values()} == {"pass"}
    order = Path("order.txt").read_text().split()
    assert order.index("a") < order.index("b") < order.index("c")


def test_an_error_blocks_the_cases_that_depend_on_it_unless_they_say_run() -> None:
    text = (
        "tests:\n"
        + case("broken")
        + case("skipped", ", depends_on: [broken]")
        + case("failed", ", depends_on: [broken], on_dependency_failure: fail")
        + case("runs", ", depends_on: [broken], on_dependency_failure: run")
        + case("last", ", depends_on: [skipped]")
    )
    rows = run(text)
    assert {name: row["status"] for name, row in rows.items()} == {
        "broken": "error",
        "skipped": "error",
        "failed": "error",
        "runs": "pass",
        "last": "error",
    }
    error = rows["skipped"]["error"]
    assert (error["kind"], error["message"]) == (
        "dependency",
        "skipped: this case depends on 'broken', which ended with an error",
    )
    assert sorted(set(Path("order.txt").read_text().split())) == ["broken", "runs"]


def test_a_low_score_blocks_nothing() -> None:
    low = "  - {id: low, input: hi, assertions: [{type: contains, value: never}]}\n"
    rows = run("tests:\n" + low + case("next", ", depends_on: [low]"))
    assert {name: row["status"] for name, row in rows.items()} == {"low": "fail", "next": "pass"}


def test_a_case_alone_does_not_wait_for_one_outside_the_run() -> None:
    rows = run("tests:\n" + case("a") + case("b", ", depends_on: [a]"), "--case", "b")
    assert {name: row["status"] for name, row in rows.items()} == {"b": "pass"}


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        (case("a", ", depends_on: [b]") + case("b", ", depends_on: [a]"), "the cases a -> b -> a depend on each other"),
        (case("a", ", depends_on: [a]"), "the cases a -> a depend on each other in a circle"),
        (case("a", ", depends_on: [nothing]"), "case 'a': it depends on 'nothing', which is not a case of the suite"),
    ],
)
def test_a_circle_and_an_unknown_case_are_errors_with_their_line(cases: str, message: str) -> None:
    Path("suite.eval.yaml").write_text(f"tests:\n{cases}")
    with pytest.raises(EvalFileError) as caught:
        load_suite("suite.eval.yaml", specs=load_specs())
    (problem,) = caught.value.problems
    assert message in problem.message
    assert problem.line == 2


LINE = '"input_messages": [{"role": "user", "content": "q"}], "expected_outcome": "ok"'


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"suite.eval.yaml": "tests:\n" + case("a", ", depends_on: [prepar]") + case("prepare")},
         r"suite\.eval\.yaml:2:\d\d+ +\$\.evalcases\[0\]\.execution\.depends_on\[0\] .*did you mean 'prepare'"),
        ({"suite.eval.yaml": "evalcases:\n  - {id: a, expected_outcome: ok, input_messages: [{role: user, content: q}]"
          ",\n     execution: {depends_on: [b, zz]}}\n"
          "  - {id: b, expected_outcome: ok, input_messages: [{role: user, content: q}]}\n"},
         r"suite\.eval\.yaml:3:34 +\$\.evalcases\[0\]\.execution\.depends_on\[1\] +case 'a': it depends on 'zz'"),
        ({"suite.eval.yaml": "evalcases: {file: more/cases.jsonl}\n",
          "more/cases.jsonl": f'{{"id": "b", {LINE}}}\n{{"id": "a", {LINE}, "execution": {{"depends_on": ["zz"]}}}}\n'},
         r"more/cases\.jsonl:2:1 +\$ +case 'a': it depends on 'zz'"),
        ({"suite.eval.yaml": "evalcases: {file: more/cases.yaml}\n",
          "more/cases.yaml": f'evalcases:\n  - {{"id": "a", {LINE},\n     "execution": {{"depends_on": ["a"]}}}}\n'},
         r"more/cases\.yaml:3:35 +\$\.evalcases\[0\]\.execution\.depends_on\[0\] .* in a circle"),
    ],
)  # fmt: skip
def test_a_wrong_dependency_is_an_error_with_its_place(files: dict[str, str], expected: str) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    with pytest.raises(EvalFileError, match=f"^{expected}"):
        load_suite("suite.eval.yaml", specs=load_specs())


def test_our_own_files_have_it_under_execution() -> None:
    Path("suite.eval.yaml").write_text(
        "evalcases:\n"
        "  - id: b\n    expected_outcome: ok\n    input_messages: [{role: user, content: hi}]\n"
        "    execution: {depends_on: [a]}\n"
        "  - id: a\n    expected_outcome: ok\n    input_messages: [{role: user, content: hi}]\n"
    )
    cases = load_suite("suite.eval.yaml", specs=load_specs()).cases
    assert [each.id for each in cases] == ["a", "b"]
