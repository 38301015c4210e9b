"""Searches for repository roots, eval files of a folder, targets files and the `.agentv` folder."""

import os
from pathlib import Path

import pytest

from agentv.loading.files.attached import matches_any
from agentv.loading.files.places import (
    find_eval_files,
    find_home,
    find_repository_root,
    find_targets_file,
    targets_searched,
)
from agentv.loading.project import load_project
from agentv.types.errors import ConfigError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(paths: tuple[Path, ...], root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in paths]


def test_a_folder_stands_for_its_eval_files_at_any_depth(root: Path) -> None:
    write(
        root,
        **{
            "evals/a.yaml": "evalcases: []\n",
            "evals/b.yml": "description: x\ncases: []\n",
            "evals/c.yaml": "$schema: agentv-eval-v2\n",
            "evals/d.yaml": '{"tags": [], "evalcases": []}',
            "evals/broken.yaml": "tags: [\nevalcases:\n  - id: a\n",
            "evals/deep/e.yaml": "evalcases: []\n",
            "evals/lines.jsonl": "{}\n",
            "evals/lines.yaml": "$schema: agentv-eval-v2\n",
            "evals/alone.jsonl": "{}\n",
            "evals/targets.yaml": "targets: []\n",
            "evals/other.yaml": "jobs: {cases: [1]}\nlist: [cases]\n",
            "evals/list.yaml": "- evalcases\n- cases\n",
            "evals/text.yaml": "evalcases\n",
            "evals/empty.yaml": "",
            "evals/broken-other.yaml": "a: [\n",
            "evals/.hidden/f.yaml": "evalcases: []\n",
            "evals/node_modules/g.yaml": "evalcases: []\n",
        },
    )
    expected = ["a.yaml", "b.yml", "broken.yaml", "c.yaml", "d.yaml", "deep/e.yaml", "lines.jsonl"]
    assert names(find_eval_files([], cwd=root), root / "evals") == expected
    assert names(find_eval_files(["evals"], cwd=root), root / "evals") == expected


def test_a_file_stands_for_itself_whatever_it_holds_and_only_once(root: Path) -> None:
    write(root, **{"a.yaml": "x: 1\n", "evals/b.yaml": "cases: []\n"})
    found = find_eval_files(["a.yaml", "evals", "evals/b.yaml", "a.yaml"], cwd=root)
    assert names(found, root) == ["a.yaml", "evals/b.yaml"]


def test_a_missing_path_is_reported(root: Path) -> None:
    with pytest.raises(ConfigError, match="evil: there is no such file or folder"):
        find_eval_files(["evil"], cwd=root)
    with pytest.raises(ConfigError, match="no path is given, and there is no folder 'evals'"):
        find_eval_files([], cwd=root)


def test_repository_root_is_the_nearest_folder_with_git(root: Path) -> None:
    write(root, **{"a/.git/HEAD": "", "a/b/c/suite.yaml": "", "x/y/suite.yaml": ""})
    assert find_repository_root(root / "a" / "b" / "c" / "suite.yaml") == root / "a"
    assert find_repository_root(root / "a" / "b") == root / "a"
    assert find_repository_root(root / "x" / "y" / "suite.yaml") == root / "x" / "y"


def test_a_worktree_is_a_repository_though_its_git_is_a_file(root: Path) -> None:
    write(root, **{"a/.git": "gitdir: elsewhere", "a/b/suite.yaml": ""})
    assert find_repository_root(root / "a" / "b") == root / "a"


def test_runs_go_to_the_nearest_folder_upward_else_to_the_root_else_here(root: Path) -> None:
    here = root / "a" / "b" / "c"
    here.mkdir(parents=True)
    assert find_home(here) == here / ".agentv"
    (root / "a" / ".git").mkdir()
    assert find_home(here) == root / "a" / ".agentv"
    (root / "a" / "b" / ".agentv").mkdir()
    assert find_home(here) == root / "a" / "b" / ".agentv"


def test_a_folder_above_the_repository_does_not_collect_its_runs(root: Path) -> None:
    (root / "a" / ".git").mkdir(parents=True)
    (root / ".agentv").mkdir()
    assert find_home(root / "a") == root / "a" / ".agentv"


def test_targets_are_searched_up_to_the_root_then_in_cwd(root: Path) -> None:
    suite, cwd = root / "repo" / "a" / "b", root / "cwd"
    suite.mkdir(parents=True)
    (root / "repo" / ".git").mkdir()
    cwd.mkdir()
    write(root, **{"targets.yaml": "outside the repository"})
    assert find_targets_file(suite, root / "repo", cwd, None) is None
    order = ["cwd/targets.yaml", "repo/.agentv/targets.yml", "repo/targets.yaml", "repo/a/b/.agentv/targets.yaml"]
    for name in order:
        write(root, **{name: ""})
        assert find_targets_file(suite, root / "repo", cwd, None) == root / name


def test_targets_are_searched_upward_without_a_repository(root: Path) -> None:
    write(root, **{"project/targets.yaml": "", "project/evals/deep/a.yaml": ""})
    found = find_targets_file(root / "project" / "evals" / "deep", root / "project" / "evals" / "deep", root, None)
    assert found == root / "project" / "targets.yaml"


def test_targets_searched_returns_the_searched_places(root: Path) -> None:
    write(root, **{".git/HEAD": "", "evals/a.yaml": ""})
    names = "targets.yaml, targets.yml, .agentv/targets.yaml, .agentv/targets.yml"
    above = f"looked for {names} in {root / 'evals'} and the folders above it up to {root}"
    assert targets_searched(root / "evals", root, root) == above
    assert targets_searched(root / "evals", root, Path("/")) == f"{above}, and in /"
    assert targets_searched(root, root, root) == f"looked for {names} in {root}"


def test_an_override_is_a_file_or_a_folder_that_has_one(root: Path) -> None:
    write(root, **{"my.yaml": "", "there/.agentv/targets.yaml": ""})
    (root / "empty").mkdir()
    assert find_targets_file(root, root, root, root / "my.yaml") == root / "my.yaml"
    assert find_targets_file(root, root, root, root / "there") == root / "there" / ".agentv" / "targets.yaml"
    with pytest.raises(ConfigError, match=r"no targets file at .*empty"):
        find_targets_file(root, root, root, root / "empty")


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("**/*.md", "a.md", True),
        ("**/*.md", "a/b/c.md", True),
        ("**/*.md", ".github/c.md", True),
        ("*.md", "a/b.md", False),
        ("*.md", ".md", True),
        ("a/**", "a/b/c", True),
        ("a/**", "a", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("./a", "a", True),
        ("a\\b", "a/b", True),
        ("[a].md", "[a].md", True),
        ("[a].md", "a.md", False),
        ("a+(b)", "a+(b)", True),
        ("**", "anything/at/all", True),
    ],
)
def test_patterns(pattern: str, path: str, expected: bool) -> None:
    assert matches_any(path, [pattern]) is expected


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the owner of a folder")
def test_outside_a_repository_the_search_ends_at_other_users_folders(root: Path) -> None:
    write(root, **{"theirs/.agentv.yaml": "plugins: [evil.py]", "theirs/mine/evals/a.yaml": "cases: []"})
    write(root, **{"theirs/mine/.agentv.yaml": "gates: ['mean >= 0.5']"})
    folder = root / "theirs/mine/evals"
    assert load_project(folder, find_repository_root(folder)).plugins, "the same owner's file is found"
    os.chown(root / "theirs", 12345, 12345)
    project = load_project(folder, find_repository_root(folder))
    assert (project.plugins, project.gates) == ((), ("mean >= 0.5",))


def test_links_lead_to_each_file_and_folder_once(root: Path) -> None:
    write(root, **{"evals/a.yaml": "evalcases: []\n", "evals/deep/b.yaml": "evalcases: []\n"})
    (root / "evals/loop").symlink_to(root / "evals")
    (root / "evals/deep/up").symlink_to(root)
    (root / "evals/z.yaml").symlink_to(root / "evals/a.yaml")
    (root / "evals/itself.yaml").symlink_to(root / "evals/itself.yaml")
    assert names(find_eval_files(["evals", "evals/z.yaml"], cwd=root), root) == ["evals/a.yaml", "evals/deep/b.yaml"]
