"""The folders that files named by an eval file must lie in."""

from pathlib import Path

import pytest

from agentv.api import load_suite
from agentv.loading.files.path_guard import FileProblemError, PathGuard, find_matching, guard_for
from agentv.types.errors import EvalFileError

CASE = '{"id": "%s", "expected_outcome": "ok", "input_messages": [{"role": "user", "content": "hi"}]}\n'
HEAD = "evalcases:\n  - id: a\n    expected_outcome: ok\n    input_messages: [{role: user, content: hi}]\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a folder beside others, where the working directory is."""
    top = tmp_path.resolve()
    for name in ("project/.git", "project/evals", "other"):
        (top / name).mkdir(parents=True)
    (top / "other" / "secret.txt").write_text("s")
    (top / "other" / "cases.jsonl").write_text(CASE % "b")
    monkeypatch.chdir(top / "project")
    return top / "project"


def problems(root: Path, text: str) -> str:
    path = root / "evals" / "a.yaml"
    path.write_text(text)
    with pytest.raises(EvalFileError) as caught:
        load_suite(path)
    return str(caught.value)


def judged_by(evaluator: str) -> str:
    return f"{HEAD}    evaluators:\n      - {evaluator}\n"


@pytest.mark.parametrize("marker", [".git", ".agentv"])
def test_root_is_the_nearest_folder_with_a_marker(tmp_path: Path, marker: str) -> None:
    top = tmp_path.resolve()
    (top / "a" / marker).mkdir(parents=True)
    (top / "a" / "b" / "c").mkdir(parents=True)
    assert guard_for(top / "a" / "b" / "c", cwd=top / "a" / "b").root == top / "a"


def test_without_a_marker_the_root_is_a_working_directory_around_the_file(tmp_path: Path) -> None:
    top = tmp_path.resolve()
    (top / "a" / "b").mkdir(parents=True)
    assert guard_for(top / "a" / "b", cwd=top / "a").root == top / "a"
    assert guard_for(top / "a" / "b", cwd=top / "elsewhere").root == top / "a" / "b"


def test_home_folder_with_agent_workspaces_is_no_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path.resolve()
    (top / ".agentv").mkdir()
    (top / "evals").mkdir()
    monkeypatch.setenv("HOME", str(top))
    assert guard_for(top / "evals", cwd=top / "elsewhere").root == top / "evals"


@pytest.mark.parametrize(
    ("text", "place", "leads_to"),
    [
        (HEAD.replace("content: hi", "content: [{type: file, value: ../../other/secret.txt}]"), "4:65", "secret.txt"),
        (HEAD.replace("content: hi", "content: [{type: file, value: link.txt}]"), "4:65", "secret.txt"),
        ("evalcases: {file: ../../other/cases.jsonl}\n", "1:19", "cases.jsonl"),
        ("evalcases: ../../other/*.jsonl\n", "1:12", "other"),
        ("evalcases: '../../../../../../../../**/*.jsonl'\n", "1:12", ""),
        ("evalcases: 'linked/*.jsonl'\n", "1:12", "other"),
        (judged_by("{name: j, type: llm_judge, prompt: ../../other/secret.txt}"), "6:44", "secret.txt"),
        (judged_by("{name: j, type: llm_judge, prompt: link.txt}"), "6:44", "secret.txt"),
        (judged_by("{name: j, type: toxicity, toxic_terms: ../../other/secret.txt}"), "6:48", "secret.txt"),
        (f"execution: {{workspace: {{template: ../../other}}}}\n{HEAD}", "1:35", "other"),
        (f"execution: {{workspace: {{git: 'file:///etc'}}}}\n{HEAD}", "1:30", "/etc"),
    ],
)
def test_files_outside_are_refused_with_their_place_and_the_option(
    root: Path, text: str, place: str, leads_to: str
) -> None:
    (root / "evals" / "link.txt").symlink_to(root.parent / "other" / "secret.txt")
    (root / "evals" / "linked").symlink_to(root.parent / "other")
    said = problems(root, text)
    assert f"a.yaml:{place}  " in said
    assert f"leads outside of {root}, to " in said
    assert "allow it with --allow-path /" in said
    assert leads_to in said


def test_link_to_a_file_outside_that_a_pattern_matches_is_refused(root: Path) -> None:
    (root / "evals" / "x.jsonl").symlink_to(root.parent / "other" / "cases.jsonl")
    assert f"to {root.parent}/other/cases.jsonl" in problems(root, "evalcases: '*.jsonl'\n")


@pytest.mark.parametrize("pattern", ["/etc/*.conf", "~/*.jsonl", "\\etc\\*.conf"])
def test_absolute_pattern_is_an_error_with_its_place(root: Path, pattern: str) -> None:
    said = problems(root, f"evalcases: '{pattern}'\n")
    assert "a.yaml:1:12  $.evalcases  the pattern " in said
    assert "must not be absolute; write it relative to" in said


def test_dots_after_a_wildcard_are_refused(root: Path) -> None:
    assert "has '..' after a wildcard" in problems(root, "evalcases: '*/../../../other/*.jsonl'\n")


def test_impossible_pattern_is_an_error(root: Path) -> None:
    with pytest.raises(FileProblemError, match="cannot be searched"):
        find_matching("\x00/*", root, PathGuard(root))


def test_pattern_that_looks_at_too_many_files_is_refused(root: Path) -> None:
    for number in range(30):
        (root / "evals" / f"{number}.jsonl").write_text(CASE % number)
    with pytest.raises(FileProblemError, match="makes the search visit more than 20 files and folders"):
        find_matching("**/*.jsonl", root, PathGuard(root), limit=20)
    assert len(find_matching("**/*.jsonl", root / "evals", PathGuard(root), limit=30)) == 30


def test_pattern_visits_each_folder_once(root: Path) -> None:
    place = root / "deep"
    for _ in range(40):
        place /= "d"
    place.mkdir(parents=True)
    (place / "x.jsonl").write_text(CASE % "x")
    assert find_matching("**/" * 30 + "*.jsonl", root / "deep", PathGuard(root)) == [place / "x.jsonl"]


def test_patterns_find_what_they_describe(root: Path) -> None:
    for name in ("a.jsonl", "b.yaml", "sub/c.jsonl", "sub/deep/d.jsonl", ".hidden/e.jsonl"):
        (root / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "data" / name).write_text(CASE % name)

    def found(pattern: str) -> list[str]:
        return [path.relative_to(root).as_posix() for path in find_matching(pattern, root / "evals", PathGuard(root))]

    assert found("../data/*.jsonl") == ["data/a.jsonl"]
    assert found("../data/[ab].*") == ["data/a.jsonl", "data/b.yaml"]
    assert found("../data/*/*.jsonl") == ["data/.hidden/e.jsonl", "data/sub/c.jsonl"]
    assert found("../data/sub/**/*.jsonl") == ["data/sub/c.jsonl", "data/sub/deep/d.jsonl"]
    assert found("../none/*.jsonl") == []


def test_allowed_folder_widens_the_root(root: Path) -> None:
    path = root / "evals" / "a.yaml"
    path.write_text("evalcases: ../../other/*.jsonl\n")
    assert [case.id for case in load_suite(path, allow_paths=["../other"]).cases] == ["b"]


def test_code_of_an_evaluator_may_lie_anywhere(root: Path) -> None:
    (root.parent / "other" / "judge.py").write_text("def judge(given): return 1.0\n")
    path = root / "evals" / "a.yaml"
    path.write_text(judged_by("{name: j, type: code_judge, python: '../../other/judge.py:judge'}"))
    assert load_suite(path).path == "evals/a.yaml"
