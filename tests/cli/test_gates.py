"""Gates as people give them: on each command's line and in files, read by one reader, judged by one function."""

import pytest
from tests.support.carrying import Project

from agentv.engine.stored.report import load_report
from agentv.storage.run.stored import open_run

WRONG = "mean => 0.8"
SYNTAX_ERROR = "gate 'mean => 0.8', column 6: expected one of >= <= == != > <; found '=>'. Did you mean '>='?"
DRAWN = "    mean => 0.8\n         ^\n"


@pytest.mark.parametrize(
    "gates",
    [
        ("pass_rate >= 20% with 95%", "mean > 0.9"),
        ("pass_rate >= 99% with 95%",),
        ("evaluator(has).mean >= 0.5", "target(t).pass_rate >= 100%"),
        ("criterion(unknown).mean >= 0.5",),
        ("errors <= 0", "cost_usd <= 1"),
        ("pass_hat(2) >= 50%", "pass_at(2) >= 90% with 95%"),
    ],
)
@pytest.mark.parametrize("broken", ["", "b"])
def test_a_stored_run_that_kept_no_verdict_is_held_to_its_gates_again(
    project: Project, gates: tuple[str, ...], broken: str
) -> None:
    (project.folder / "broken").write_text(broken)
    options = [word for gate in gates for word in ("--gate", gate)]
    code, said = project.call("run", "suite.yaml", "--trials", "2", "--max-errors", "2", *options)
    project.forget("events.jsonl", [1])
    report = load_report(open_run(project.run))
    assert report.exit_code == code
    assert said.splitlines()[-1] == f"{report.verdict.sentence} Exit code {code}."
    assert [gate.expression for gate in report.verdict.gates] == list(gates)


@pytest.mark.parametrize("command", ["run", "compare", "score"])
def test_each_command_points_at_what_is_wrong_and_asks_nothing(project: Project, command: str) -> None:
    (project.folder / "lines.jsonl").write_text('{"output": "hi"}\n')
    (project.folder / "config.yaml").write_text("evaluators: [{type: contains, value: hi}]\n")
    arguments = {
        "run": ("suite.yaml",),
        "compare": ("latest", "latest~1"),
        "score": ("lines.jsonl", "--config", "config.yaml"),
    }
    code, said = project.call(command, *arguments[command], "--gate", WRONG)
    assert (code, SYNTAX_ERROR in said, DRAWN in said) == (4, True, True)
    assert project.calls() == []


def test_in_a_file_it_is_reported_with_line_and_column(project: Project) -> None:
    (project.folder / ".agentv.yaml").write_text(f"allow_outside: false\ngates:\n  - mean >= 0.5\n  - {WRONG}\n")
    for command in "run", "check":
        code, said = project.call(command, "suite.yaml")
        assert (code, f".agentv.yaml:4:5  $.gates[1]  {SYNTAX_ERROR}" in said) == (4, True)
    assert project.calls() == []


def test_gate_none_cannot_be_combined_with_a_gate(project: Project) -> None:
    code, said = project.call("run", "suite.yaml", "--gate", "none", "--gate", "mean >= 0.5")
    assert (code, "none" in said) == (4, True)


@pytest.mark.parametrize(
    ("broken", "arguments", "code", "word"),
    [
        ("", (), 0, "PASS"),
        ("", ("--gate", "none"), 0, "NO GATE"),
        ("", ("--gate", "mean < 1"), 1, "FAIL"),
        ("", ("--gate", "cost_usd <= 1"), 3, "INCOMPLETE"),
        ("", ("--gate", "criterion(x).mean >= 0"), 3, "INCOMPLETE"),
        ("b", ("--gate", "criterion(x).mean >= 0"), 3, "INCOMPLETE"),
        ("b", (), 3, "INCOMPLETE"),
        ("b", ("--max-errors", "1"), 0, "PASS"),
        ("b", ("--max-errors", "1", "--gate", "errors <= 0"), 1, "FAIL"),
        ("b", ("--gate", "mean < 1"), 1, "FAIL"),
        ("a b c", ("--max-errors", "9", "--gate", "errors <= 9"), 3, "INCOMPLETE"),
        ("", ("--case", "unknown"), 5, "NOTHING SELECTED"),
    ],
)
def test_the_exit_code_is_that_of_the_sentence(
    project: Project, broken: str, arguments: tuple[str, ...], code: int, word: str
) -> None:
    (project.folder / "broken").write_text(broken)
    left, said = project.call("run", "suite.yaml", *arguments)
    assert (left, said.splitlines()[-1].split(":")[0]) == (code, word)
