"""No file that looks like an eval file leaves a run without a line, and a named file is run or an error."""

import json
from pathlib import Path

import pytest
from tests.support.carrying import Project

from agentv import evaluate
from agentv.types.errors import EvalFileError

CASES = "evalcases: [{id: a, expected_outcome: ok, input_messages: [{role: user, content: hi}]}]\n"
PROMPTFOO = "prompts: ['{{q}}']\nproviders: [openai:gpt-4o]\ntests: [{vars: {q: hi}}]\n"
TARGETS = "targets:\n  - {name: a, provider: mock, response: hi}\n  - {name: b, provider: mock, response: hi}\n"
JUDGES = "evaluators: [{name: has, type: contains, value: hi}]\n"


@pytest.fixture
def folder(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(project.folder)
    folder = project.folder / "some"
    folder.mkdir()
    (folder / "targets.yaml").write_text(TARGETS)
    (folder / "one.yaml").write_text(f"target: a\n{JUDGES}{CASES}")
    return folder


@pytest.mark.parametrize(
    ("head", "results"),
    [
        ("targets: [a, b]\n", 2),
        ("targets:\n  - {name: own, provider: mock, response: hi}\n  - b\n", 2),
        ("evaluator: contains\ntarget: a\n", None),
        ("$schema: agentv-eval-v2\ntarget: a\n", 1),
        ("$schema: agentv-targets-v2.2\ntarget: a\n", None),
        ("providers: [x]\ntarget: a\n", None),
    ],
)
def test_any_file_with_cases_is_run_or_an_error(project: Project, folder: Path, head: str, results: int | None) -> None:
    (folder / "two.yaml").write_text(f"{head}{JUDGES}{CASES}")
    code, said = project.call("check", "some")
    assert (code, "2 files checked" in said) == (0 if results else 4, True), said
    code, said = project.call("run", "some", "--display", "json")
    assert code == (0 if results else 4), said
    if results:
        assert f"{1 + results} of {1 + results} judged results passed" in said


@pytest.mark.parametrize("arguments", [("run",), ("check",), ("run", "--dry-run")])
@pytest.mark.parametrize(
    "text", [CASES.replace("evalcases", "evalcase"), "targets: [a]\n", TARGETS, "x: 1\n", "- 1\n", "", PROMPTFOO]
)
def test_a_named_file_that_is_not_run_is_exit_code_4(
    project: Project, folder: Path, arguments: tuple[str, ...], text: str
) -> None:
    (folder / "two.yaml").write_text(text)
    code, said = project.call(*arguments, "some/one.yaml", "some/two.yaml")
    assert (code, "some/two.yaml" in said) == (0 if (text, arguments) == (TARGETS, ("check",)) else 4, code == 4), said


@pytest.mark.parametrize(
    ("name", "text", "sign"),
    [
        ("promptfooconfig.yaml", PROMPTFOO, "$"),
        ("promptfooconfig.eval.yaml", CASES, "$"),
        ("a.yaml", PROMPTFOO, "$.providers"),
        ("a.yaml", "prompts: [x]\nproviders: [y]\n", "$.providers"),
        ("a.yaml", "defaultTest: {}\ntests: []\n", "$.defaultTest"),
        ("a.yaml", "evaluateOptions: {}\nscenarios: []\n", "$.evaluateOptions"),
    ],
)
def test_promptfoos_files_are_refused_with_the_line_that_converts_them(
    project: Project, folder: Path, name: str, text: str, sign: str
) -> None:
    (folder / name).write_text(text)
    for command in ("run", "check"):
        for path in ("some", f"some/{name}"):
            code, said = project.call(command, path)
            assert code == 4
            assert f"{sign}  a promptfoo configuration, which is not an eval file; " in said
            assert f"agentv convert some/{name} -o suite.yaml" in said


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.eval.yaml", PROMPTFOO, "an AgentV 5 file"),
        ("a.yaml", f"trials: 2\n{PROMPTFOO}", "an AgentV 5 file"),
        ("promptfooconfig.yaml", f"dialect: agentv\n{CASES}providers: []\n", "unknown key 'providers'"),
        ("a.yaml", f"{CASES}defaultTest: {{}}\n", "`defaultTest` is promptfoo's"),
    ],
)
def test_a_key_or_name_of_agentv_makes_a_file_no_promptfoo_file(
    project: Project, folder: Path, name: str, text: str, why: str
) -> None:
    (folder / name).write_text(text)
    code, said = project.call("check", f"some/{name}")
    assert (code, "agentv convert" in said) == (4, False)
    assert why in said


@pytest.mark.usefixtures("folder")
def test_evaluate_warns_of_files_that_are_not_read(folder: Path) -> None:
    (folder / "two.yaml").write_text(CASES.replace("evalcases", "evalcase"))
    with pytest.warns(UserWarning, match="skipped some/two.yaml: its cases are under 'evalcase'"):
        report = evaluate("some")
    assert report.exit_code == 0
    assert report.notes[0].startswith("skipped some/two.yaml")
    with pytest.raises(EvalFileError, match="evalcase"):
        evaluate("some/two.yaml")


def test_a_resumed_run_names_a_suite_that_is_not_found_any_more(project: Project, folder: Path) -> None:
    (folder / "one.yaml").write_text(f"target: a\n{JUDGES.replace('value: hi', 'value: no')}{CASES}")
    (folder / "two.yaml").write_text(f"target: a\n{JUDGES}{CASES}")
    assert project.call("run", "some", "--fail-fast")[0] in (1, 2)
    (folder / "two.yaml").write_text(f"target: a\n{JUDGES}{CASES.replace('evalcases', 'evalcase')}")
    said = project.call("resume")[1]
    assert "skipped some/two.yaml: its cases are under 'evalcase'" in said
    assert "some/two.yaml is an eval file of this run, but no longer exists; its cases are skipped" in said


def test_targets_of_a_suite_replace_those_of_the_same_name(project: Project, folder: Path) -> None:
    own = "targets: [{name: b, provider: mock, response: hi you}]\n"
    (folder / "one.yaml").write_text(f"{own}{JUDGES}{CASES}")
    (folder / "targets.yaml").write_text("targets: [{name: b, provider: mok}]\n")
    assert project.call("check", "some/one.yaml")[0] == 0
    assert project.call("run", "some/one.yaml")[0] == 0
    (folder / "targets.yaml").unlink()
    assert project.call("run", "some/one.yaml")[0] == 0
    rows = max(project.folder.glob(".agentv/runs/*/results.jsonl")).read_text().splitlines()
    assert [json.loads(row)["candidate_answer"] for row in rows] == ["hi you"]


def test_cluster_makes_cases_with_equal_metadata_one_cluster(project: Project, folder: Path) -> None:
    cases = [
        {"id": str(number), "metadata": {"topic": number % 2}, "input_messages": [{"role": "user", "content": "hi"}]}
        for number in range(4)
    ]
    (folder / "one.yaml").write_text(f"target: a\ncluster: metadata.topic\n{JUDGES}evalcases: {json.dumps(cases)}\n")
    assert project.call("run", "some/one.yaml")[0] == 0
    (path,) = project.folder.glob(".agentv/runs/*/results.jsonl")
    sessions = {row["eval_id"]: row["session_id"] for row in map(json.loads, path.read_text().splitlines())}
    assert sessions == {str(number): f"metadata.topic={number % 2}" for number in range(4)}
