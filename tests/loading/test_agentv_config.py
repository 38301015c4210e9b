"""`.agentv/config.yaml` of AgentV: what is ignored, what is warned of, and its `eval_patterns`."""

from pathlib import Path

import pytest

from agentv.loading.files.places import find_targets_file
from agentv.loading.project import paths_to_read, read_project
from agentv.types.errors import ConfigError, NothingFoundError

CONFIG = """\
$schema: agentv-config-v2
required_version: ">=4.0"
eval_patterns: ["suites/**/*.EVAL.yaml", "suites/**/eval.{yaml,yml}", "!suites/old/**/*.yaml"]
execution: {verbose: true}
results: {repository: x/y}
projects: []
dashboard: {port: 1}
guideline_patterns: ["**/*.rules.md"]
hooks: {before_session: x}
guidelines: x
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, ".git/HEAD")
    return tmp_path


def write(root: Path, name: str, text: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_keys_of_agentv_are_ignored_and_lost_ones_are_warned_of(root: Path) -> None:
    write(root, ".agentv/config.yaml", CONFIG)

    project, problems = read_project(root, root)

    assert [(each.line, each.severity, each.message) for each in problems] == [
        (9, "warning", "AgentV's `hooks` of a project do not run here; a workspace has `setup` and `teardown`"),
        (10, "warning", "'guidelines' is not a key of AgentV's configuration, and has no effect"),
    ]
    assert project.guideline_patterns == ("**/*.rules.md",)


def test_a_configuration_of_ours_stays_strict(root: Path) -> None:
    write(root, ".agentv/config.yaml", "gatess: []\n")
    write(root, ".agentv.yaml", "required_version: 4\n")

    _, problems = read_project(root, root)

    assert sorted((each.severity, each.message) for each in problems) == [
        ("error", "unknown key 'gatess'"),
        ("error", "unknown key 'required_version'"),
    ]


def test_without_paths_the_eval_patterns_name_the_files(root: Path) -> None:
    write(root, ".agentv/config.yaml", CONFIG)
    for name in ("a.EVAL.yaml", "b/eval.yml", "b/other.yaml", "old/c.EVAL.yaml", ".hidden/eval.yaml"):
        write(root, f"suites/{name}")

    assert paths_to_read((), cwd=root) == [Path("suites/a.EVAL.yaml"), Path("suites/b/eval.yml")]
    assert paths_to_read(("x",), cwd=root) == ("x",)


def test_patterns_start_from_the_project_also_in_a_folder_below(root: Path) -> None:
    write(root, ".agentv/config.yaml", CONFIG)
    write(root, "suites/b/eval.yaml")

    assert paths_to_read((), cwd=root / "suites") == [Path("b/eval.yaml")]


def test_without_eval_patterns_the_default_folder_is_left(root: Path) -> None:
    assert paths_to_read((), cwd=root) == ()


def test_patterns_that_match_nothing_are_an_error(root: Path) -> None:
    write(root, ".agentv/config.yaml", CONFIG)

    with pytest.raises(NothingFoundError, match="no file matches the eval_patterns of"):
        paths_to_read((), cwd=root)


def test_a_pattern_that_leads_outside_is_refused(root: Path) -> None:
    write(root, ".agentv/config.yaml", "required_version: '4'\neval_patterns: ['../**/*.yaml']\n")

    with pytest.raises(ConfigError, match="leads outside of"):
        paths_to_read((), cwd=root)


def test_the_nearest_targets_file_counts(root: Path) -> None:
    for name in ("targets.yaml", "evals/.agentv/targets.yaml", "evals/deep/x"):
        write(root, name)

    assert find_targets_file(root / "evals" / "deep", root, root, None) == root / "evals" / ".agentv" / "targets.yaml"
    assert find_targets_file(root, root, root, None) == root / "targets.yaml"
