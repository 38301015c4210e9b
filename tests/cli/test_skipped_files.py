"""Files of a folder that look like eval files and are not read: `run` and `check` list them."""

import json
from pathlib import Path

import pytest
from tests.support.carrying import Project

CASE = {"id": "a", "expected_outcome": "x", "input_messages": [{"role": "user", "content": "hi"}]}
RECORDS = {
    "rows.jsonl": {"schema": "agentv-result-1", "eval_id": "a", "status": "pass", "score": 1.0},
    "baseline.jsonl": {"schema": "agentv-baseline-1", "run": {}, "cases": 0},
    "labels.jsonl": {"eval_id": "a", "criterion": "c", "score": 1, "annotator": "ann"},
    "old-rows.jsonl": {"test_id": "a", "score": 0.5},
}


@pytest.fixture
def folder(project: Project) -> Path:
    folder = project.folder / "some"
    folder.mkdir()
    return folder


def dump(path: Path, record: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record) + "\n")


@pytest.mark.parametrize(
    ("name", "record", "why"),
    [
        ("alone.jsonl", CASE, "JSON Lines without some/alone.yaml beside it"),
        ("deep/alone.jsonl", CASE, "JSON Lines without some/deep/alone.yaml beside it"),
        ("loud.JSONL", CASE, "the name does not end in .jsonl"),
        ("loud.YAML", {"evalcases": [CASE]}, "the name does not end in .yaml or .yml"),
        ("suite.json", {"evalcases": [CASE]}, "JSON"),
        ("other.yml", {"evalCases": [CASE]}, "its cases are under 'evalCases'"),
        ("typo.yaml", {"evalcase": [CASE]}, "its cases are under 'evalcase'"),
        ("questions.yaml", {"questions": [CASE]}, "it has cases, but no 'evalcases'"),
        ("list.yaml", [CASE], "it has cases, but no 'evalcases'"),
        ("short.yaml", {"evalcase": [{"id": "a", "input": "hi"}]}, "its cases are under 'evalcase'"),
        ("case.yaml", {"case": [{"id": "a", "input": "hi"}]}, "its cases are under 'case'"),
        ("typo.yaml", {"evalcase": [CASE], "evaluators": []}, "its cases are under 'evalcase'"),
        ("typo.yaml", {"targets": [{"name": "a"}], "evalcase": "cases.jsonl"}, "its cases are under 'evalcase'"),
        ("names.yaml", {"targets": ["a", "b"], "evaluators": []}, "it has 'targets', as eval files do, but no"),
        ("mixed.yaml", {"targets": [{"name": "a"}, "b"]}, "it has 'targets', as eval files do, but no 'evalcases'"),
        ("a.eval.yaml", {"description": "x"}, "it is named as an eval file, but has no 'evalcases'"),
        ("a.eval.ts", {}, "suites that are programs are not read"),
        ("promptfooconfig.js", {}, "agentv convert some/promptfooconfig.js -o suite.yaml"),
    ],
)
def test_a_file_that_is_not_read_is_named(project: Project, folder: Path, name: str, record: object, why: str) -> None:
    dump(folder / name, record)
    for command in ("run", "check"):
        code, said = project.call(command, "some")
        assert code == 5
        assert f"some/{name}" in said
        assert "skipped" in said
        assert why in " ".join(said.split())


@pytest.mark.parametrize("text", ["a: [\n", "cases :\n  - id: a\n b: }\n", "\tevalcases:\n"])
def test_a_file_that_is_not_valid_yaml_is_read_or_listed(project: Project, folder: Path, text: str) -> None:
    project.suite = "some/suite.yaml"
    (folder / "broken.yaml").write_text(text)
    for command in ("run", "check"):
        _, said = project.call(command, "some")
        assert "some/broken.yaml" in said


def test_a_comment_does_not_hide_a_file(project: Project, folder: Path) -> None:
    dump(folder / "alone.jsonl", CASE)
    (folder / "suite.yaml").write_text(f"# like alone.jsonl, not typo.yaml\nevalcases: {json.dumps([CASE])}\n")
    dump(folder / "typo.yaml", {"evalcase": [CASE]})
    code, said = project.call("check", "some")
    assert (code, "some/alone.jsonl" in said, "some/typo.yaml" in said) == (0, True, True)


@pytest.mark.usefixtures("folder")
def test_a_named_folder_without_eval_files_is_listed(project: Project) -> None:
    project.suite = "some/suite.yaml"
    (project.folder / "empty").mkdir()
    for command in ("run", "check"):
        code, said = project.call(command, "some", "empty")
        assert code == 0
        assert "it has no eval files" in said


def test_all_files_that_look_like_eval_files_are_listed(project: Project, folder: Path) -> None:
    project.suite = "some/suite.yaml"
    for number in range(8):
        dump(folder / f"typo{number}.yaml", {"evalcase": [CASE]})
        dump(folder / f"alone{number}.jsonl", CASE)
    for command in ("run", "check"):
        _, said = project.call(command, "some")
        assert [f"some/typo{number}.yaml" in said for number in range(8)] == [True] * 8
        assert "3 more files are skipped" in said


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize(("more", "rest"), [(1, "1 more file is skipped"), (3, "3 more files are skipped")])
def test_at_most_five_skipped_json_lines_are_listed(
    project: Project, folder: Path, command: str, more: int, rest: str
) -> None:
    project.suite = "some/suite.yaml"
    for number in range(5 + more):
        dump(folder / f"alone{number}.jsonl", CASE)
    code, said = project.call(command, "some")
    assert code == 0
    assert [f"some/alone{number}.jsonl" in said for number in range(5 + more)] == [True] * 5 + [False] * more
    assert rest in said


def test_records_and_files_in_use_are_not_listed(project: Project, folder: Path) -> None:
    for name, record in RECORDS.items():
        dump(folder / name, record)
    dump(folder / "cases.jsonl", CASE)
    dump(folder / "part-1.jsonl", CASE | {"id": "b"})
    dump(folder / "lines.jsonl", CASE | {"id": "c"})
    (folder / "lines.yaml").write_text("description: top-level keys of lines.jsonl\n")
    (folder / "whole.yaml").write_text("evalcases: {file: cases.jsonl}\n")
    dump(folder / "listed.yaml", [CASE | {"id": "d"}])
    (folder / "of-rows.yaml").write_text("evalcases: {file: listed.yaml}\n")
    (folder / "parts.yaml").write_text("evalcases:\n  file: './part-*.jsonl'\n")
    (folder / ".hidden").mkdir()
    dump(folder / ".hidden" / "x.jsonl", CASE)
    (folder / "workflow.yaml").write_text("jobs: {}\n")
    (folder / "package.json").write_text('{"name": "x"}')
    code, said = project.call("check", "some")
    assert (code, "skipped" in said) == (0, False), said


@pytest.mark.timeout(20)
def test_a_long_word_in_a_yaml_file_takes_no_time(project: Project, folder: Path) -> None:
    (folder / "notes.yaml").write_text(f"text: {'x' * 900_000}\nmore: ./used.jsonl.gz {'y.' * 50_000}\n")
    for name in ("alone.jsonl", "used.jsonl"):
        dump(folder / name, CASE)
    _, said = project.call("check", "some")
    assert ("some/alone.jsonl" in said, "used.jsonl" in said) == (True, False)


def test_a_named_file_is_read_and_not_listed(project: Project, folder: Path) -> None:
    dump(folder / "alone.jsonl", CASE)
    code, said = project.call("check", "some/alone.jsonl")
    assert (code, "skipped" in said) == (0, False)


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize("name", RECORDS)
def test_a_named_file_of_records_is_one_clear_error(project: Project, folder: Path, command: str, name: str) -> None:
    dump(folder / name, RECORDS[name])
    code, said = project.call(command, f"some/{name}")
    assert (code, len(said.splitlines())) == (4, 1)
    assert f"some/{name}" in said
    assert "not cases" in said


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_named_file_without_cases_is_an_error(project: Project, folder: Path, command: str) -> None:
    (folder / "notes.md").write_text("hello\n")
    assert project.call(command, "some/notes.md")[0] == 4


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize("paths", [(), ("some",)])
@pytest.mark.usefixtures("folder")
def test_no_eval_file_is_exit_code_5(project: Project, command: str, paths: tuple[str, ...]) -> None:
    code, said = project.call(command, *paths)
    assert code == 5
    assert ("no eval files found" if paths else "there is no folder 'evals'") in said


def test_skipped_files_are_stored_with_the_run(project: Project, folder: Path) -> None:
    project.suite = "some/suite.yaml"
    dump(folder / "alone.jsonl", CASE)
    project.call("run", "some", "--display", "none")
    assert "some/alone.jsonl" in project.call("report")[1]


def test_links_that_lead_nowhere_are_listed(project: Project, folder: Path) -> None:
    dump(folder / "suite.yaml", {"evalcases": [CASE]})
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "dangling.yaml").symlink_to("nothing.yaml")
    code, output = project.call("check", "some")
    assert (code, "1 file checked: 3 warnings" in output) == (0, True), output
    assert "some/dangling.yaml  $  warning: skipped: it cannot be read" in output
