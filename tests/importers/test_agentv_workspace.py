"""`workspace` of AgentV: every key, translated, ignored, warned of or refused."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from msgspec import Struct

from agentv.importers.agentv.workspace import translate_workspace
from agentv.loading.files.composer import compose
from agentv.loading.files.documents import Document
from agentv.loading.translation.translation import Translation
from agentv.types.json_value import JsonValue
from agentv.types.workspaces import workspace_from_json

SHARED = "AgentV shares one workspace among all cases; here each result has a copy of its own"


def translated(written: str, folder: Path) -> Translation:
    document, problems = compose(written, "a.yaml")
    assert document is not None
    assert problems == ()
    return translate_workspace(document, folder)


class Row(Struct, frozen=True):
    """A row of the mapping: a workspace, what it becomes, and the notes that it leaves."""

    name: str
    written: str
    ours: Mapping[str, JsonValue]
    warnings: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


ROWS = [
    Row("template", "{template: ./w, isolation: per_test}", {"template": "./w"}),
    Row("shared by default", "{template: ./w}", {"template": "./w"}, (SHARED,)),
    Row("shared", "{template: ./w, isolation: shared, mode: pooled}", {"template": "./w"}, (SHARED,)),
    Row("mode temp", "{template: ./w, isolation: per_test, mode: temp}", {"template": "./w"}),
    Row(
        "mode static",
        "{mode: static, path: ./w, isolation: per_test}",
        {"template": "./w"},
        ("AgentV works in the folder `path` itself; here each result has a copy of it",),
    ),
    Row(
        "repos",
        "{isolation: per_test, repos: [{path: ./a, repo: 'https://x/a.git', commit: abc, ancestor: 2, sparse: [src]}, "
        "{repo: 'https://x/b.git', base_commit: def}]}",
        {
            "repos": [
                {"path": "./a", "git": "https://x/a.git", "ref": "abc~2", "sparse": ["src"]},
                {"path": "b", "git": "https://x/b.git", "ref": "def"},
            ]
        },
    ),
    Row(
        "repos of AgentV 3",
        "{isolation: per_test, repos: [{path: ./a, source: {type: git, url: 'https://x/a.git'}, "
        "checkout: {ref: main, resolve: remote, ancestor: 1}, clone: {depth: 2, filter: 'blob:none', sparse: [src]}}, "
        "{path: b, source: {type: local, path: ../b}}]}",
        {
            "repos": [
                {"path": "./a", "git": "https://x/a.git", "ref": "main~1", "sparse": ["src"]},
                {"path": "b", "git": "../b"},
            ]
        },
    ),
    Row(
        "docker",
        "{isolation: per_test, template: ./w, docker: {image: x}}",
        {"template": "./w"},
        refused=("workspaces in docker are not supported",),
    ),
    Row(
        "unknown key",
        "{isolation: per_test, template: ./w, isolaton: x}",
        {"template": "./w"},
        ("'isolaton' is not a key of AgentV's `workspace`, and has no effect",),
    ),
    Row(
        "hooks that are switched off, and `reset`",
        "{isolation: per_test, template: ./w, hooks: {enabled: false, before_each: {command: [x]}, "
        "after_each: {reset: fast}}}",
        {"template": "./w"},
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_workspace_of_agentv_becomes_ours(row: Row, tmp_path: Path) -> None:
    translation = translated(row.written, tmp_path)

    assert translation.document.value == row.ours
    notes = {"dropped": list(row.warnings), "refused": list(row.refused), "ignored": []}
    for effect in ("dropped", "refused"):
        assert [note.problem.message for note in translation.notes if note.effect == effect] == notes[effect]
    assert workspace_from_json(row.ours).keep == "never"


def test_hooks_become_setup_and_teardown_with_the_workspace_on_standard_input(tmp_path: Path) -> None:
    written = """
isolation: per_test
hooks:
  before_all: {script: [sh, all.sh]}
  before_each: {command: [sh, each.sh, "{{workspace_path}}/a b"], timeout_ms: 900000, cwd: sub}
  after_each: {command: "cat > after.json"}
  after_all: {command: [x]}
env: {required_commands: [sh, git], python: 3}
"""
    translation = translated(written, tmp_path)

    assert translation.document.value == {
        "setup": (
            '(for name in sh git; do command -v "$name" >/dev/null || '
            '{ echo "the required command $name is not installed" >&2; exit 1; }; done) &&\n'
            f'(workspace=$PWD; cd {tmp_path} && printf \'{{"workspace_path":"%s"}}\' "$workspace" | sh all.sh) &&\n'
            f'(workspace=$PWD; cd {tmp_path}/sub && printf \'{{"workspace_path":"%s"}}\' "$workspace" | '
            "sh each.sh \"$workspace\"'/a b')"
        ),
        "teardown": (
            f'(workspace=$PWD; cd {tmp_path} && printf \'{{"workspace_path":"%s"}}\' "$workspace" | '
            "sh -c 'cat > after.json') &&\n"
            f'(workspace=$PWD; cd {tmp_path} && printf \'{{"workspace_path":"%s"}}\' "$workspace" | x)'
        ),
    }
    assert [(note.effect, note.problem.line, note.problem.message) for note in translation.notes] == [
        ("dropped", 8, "AgentV's `env.python` of a workspace has no counterpart here"),
        (
            "dropped",
            4,
            "AgentV runs `before_all` once for all cases; here it runs for each result, in its own workspace",
        ),
        ("dropped", 5, "a command of a workspace may take ten minutes at most"),
        (
            "dropped",
            7,
            "AgentV runs `after_all` once for all cases; here it runs for each result, in its own workspace",
        ),
    ]


def test_hooks_without_the_key_hooks_are_read_as_in_agentv_2(tmp_path: Path) -> None:
    translation = translated("{isolation: per_test, before_each: {script: [ls]}}", tmp_path)

    value = translation.document.value
    assert isinstance(value, dict)
    assert str(value["setup"]).endswith("| ls)")


def test_a_workspace_in_a_file_of_its_own_has_paths_from_there(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "evals").mkdir()
    inner = {"isolation": "per_test", "template": "./w", "repos": [{"path": "r", "repo": "../r"}], "colour": "red"}
    (shared / "work.yaml").write_text(yaml.safe_dump(inner))

    translation = translated("../shared/work.yaml", tmp_path / "evals")

    assert translation.document.value == {
        "template": "../shared/w",
        "repos": [{"path": "r", "git": "../r"}],
    }
    (problem,) = translation.problems()
    assert problem.path == str(shared / "work.yaml")
    assert problem.line == 1


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("missing.yaml", "the file of the workspace cannot be read"),
        ("../../outside.yaml", "the workspace '../../outside.yaml' leads outside of"),
        ("[1]", "`workspace` must be an object, or the path of a YAML file"),
        ("7", "`workspace` must be an object, or the path of a YAML file"),
    ],
)
def test_a_workspace_that_cannot_be_read_is_refused(written: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "evals").mkdir()
    (tmp_path / ".git").mkdir()

    (note,) = translated(written, tmp_path / "evals").notes

    assert note.effect == "refused"
    assert note.problem.message.startswith(message)


def test_a_workspace_in_an_eval_file_has_the_positions_of_the_file(tmp_path: Path) -> None:
    written = "name: x\nworkspace:\n  template: ./w\n  isolaton: per_test\n  hooks: {before_each: {command: [ls]}}\n"
    document, _ = compose(written, "a.yaml")
    assert document is not None

    at = ("workspace",)
    workspace = Document(document.path, document.at(at), document.mark(at), document.marks)
    translation = translate_workspace(workspace, tmp_path)

    assert [(note.problem.path, note.problem.line, note.problem.column) for note in translation.notes] == [
        ("a.yaml", 3, 3),
        ("a.yaml", 4, 3),
    ]
    made = translation.document
    assert (made.mark(("template",)).line, made.mark(("setup",)).line) == (3, 5)


def test_the_document_given_is_not_changed(tmp_path: Path) -> None:
    document, _ = compose("{template: ./w, mode: temp}", "a.yaml")
    assert isinstance(document, Document)

    translate_workspace(document, tmp_path)

    assert document.value == {"template": "./w", "mode": "temp"}
