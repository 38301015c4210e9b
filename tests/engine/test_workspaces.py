"""The workspace of a row: the agent's changes are saved, and judges see them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentv import ConfigError, RunReport, evaluate

AGENT = "import pathlib; p = pathlib.Path('notes.txt'); p.write_text(p.read_text() + 'done'); print('x')"
SUITE = """
execution:
  workspace: {workspace}
evalcases:
  - id: a
    expected_outcome: The notes are done
    input_messages: [{{role: user, content: hi}}]
    evaluators:
      - {{name: file, type: contains, value: done, source: files.notes.txt}}
      - {{name: diff, type: contains, value: "+first done", source: diff}}
      - {{name: seen, type: code_judge, script: ['{python}', judge.py]}}
  - {{id: b, expected_outcome: x, input_messages: [{{role: user, content: hi}}],
      evaluators: [{{name: never, type: contains, value: nothing}}]}}
"""
JUDGE = """
import json, pathlib, sys
folder = pathlib.Path(json.load(sys.stdin)["workspace_path"])
print(json.dumps({"score": 1.0 if (folder / "notes.txt").read_text() == "first done" else 0.0}))
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., RunReport]:
    (tmp_path / ".git").mkdir()
    (tmp_path / "template").mkdir()
    (tmp_path / "template" / "notes.txt").write_text("first ")
    (tmp_path / "judge.py").write_text(JUDGE)
    (tmp_path / "agent.py").write_text(AGENT)

    def go(workspace: str, target: str | None = None, max_retries: int | None = 0) -> RunReport:
        (tmp_path / "suite.yaml").write_text(SUITE.format(workspace=workspace, python=sys.executable))
        command = f"{sys.executable} {tmp_path / 'agent.py'}"
        (tmp_path / "targets.yaml").write_text(
            f"targets: [{target or '{name: t, provider: cli, command_template: ' + repr(command) + '}'}]"
        )
        return evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv", max_retries=max_retries)

    return go


def answers(report: RunReport) -> list[dict[str, Any]]:
    assert report.folder is not None
    return [json.loads(line) for line in (Path(report.folder) / "answers.jsonl").read_text().splitlines()]


def test_every_row_works_in_a_copy_whose_changes_are_kept_and_judged(
    run: Callable[..., RunReport], tmp_path: Path
) -> None:
    report = run("{template: template}")
    assert [(row.eval_id, row.score) for row in report.results] == [("a", 1.0), ("b", 0.0)]
    assert (tmp_path / "template" / "notes.txt").read_text() == "first "
    kept = answers(report)[0]["workspace"]
    assert [(changed["path"], changed["status"]) for changed in kept["changed"]] == [("notes.txt", "modified")]
    assert "+first done" in kept["diff"]
    assert "path" not in kept


def test_workspace_of_a_failed_row_is_kept_if_configured_and_noted(run: Callable[..., RunReport]) -> None:
    report = run("{template: template, keep: failed}")
    (note,) = (note for note in report.notes if "saved to" in note)
    kept = Path(note.partition("saved to ")[2])
    assert ": b: workspace: saved to" in note
    assert (kept / "notes.txt").read_text() == "first done"
    assert list(kept.parent.iterdir()) == [kept]
    paths = {answer["slot"]["eval_id"]: answer["workspace"]["path"] for answer in answers(report)}
    assert paths["b"] == str(kept)
    assert not Path(paths["a"]).exists()


def test_a_workspace_that_is_always_kept_has_its_place_in_the_answer(run: Callable[..., RunReport]) -> None:
    kept = [Path(answer["workspace"]["path"]) for answer in answers(run("{template: template, keep: always}"))]
    assert [(folder / "notes.txt").read_text() for folder in kept] == ["first done", "first done"]


def test_a_second_attempt_finds_the_workspace_as_the_first_did(run: Callable[..., RunReport], tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    stumbling = f"import pathlib; m = pathlib.Path({str(marker)!r}); again = m.exists(); m.touch()"
    (tmp_path / "agent.py").write_text(f"{AGENT}; {stumbling}; again or __import__('threading').Event().wait()")
    command = f"{sys.executable} {tmp_path / 'agent.py'}"
    settings = "timeout_seconds: 2, max_retries: 1, retry_timeouts: true"
    target = f"{{name: t, provider: cli, command_template: {command!r}, {settings}}}"
    report = run("{template: template}", target=target, max_retries=None)
    assert report.results[0].attempt == 1
    assert "+first done\n" in answers(report)[0]["workspace"]["diff"] + "\n"


def test_a_template_that_is_not_there_is_refused_before_the_run(run: Callable[..., RunReport]) -> None:
    with pytest.raises(ConfigError, match=r"no folder .*nowhere to copy"):
        run("{template: nowhere}")


def test_a_setup_that_fails_is_that_rows_error_and_no_call_is_made(run: Callable[..., RunReport]) -> None:
    report = run("{template: template, setup: 'echo no key >&2; exit 3'}")
    assert [row.status for row in report.results] == ["error", "error"]
    error = report.results[0].error
    assert error is not None
    assert (error.kind, "no key" in error.message) == ("target_exit", True)
    assert report.exit_code == 3


def test_a_target_that_works_in_no_folder_is_refused_before_the_run(run: Callable[..., RunReport]) -> None:
    with pytest.raises(ConfigError, match="does not work in a folder"):
        run("{template: template}", target="{name: t, provider: mock, response: x}")


def test_an_answer_with_folders_that_are_too_deep_is_a_stored_error(
    run: Callable[..., RunReport], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "agent.py").write_text(
        "import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nprint('x')\n"
    )
    report = run("{template: template}")
    (error, *others) = [row.error for row in report.results]
    assert error is not None
    assert (error.kind, len(others)) == ("too_large", 1)
    assert "nested more than 500 levels" in error.message
    assert [answer["partial"]["text"].strip() for answer in answers(report)] == ["x", "x"]
    assert list((tmp_path / "temporary").iterdir()) == []


PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEAx1y2z3\nq8w7e6r5t4y3u2i1o0pAsD==\n-----END RSA PRIVATE KEY-----\n"
)
KEYS = (
    "sk_live_0123456789abcdefABCD",
    "AKIA0123456789ABCDEF",
    "sk-ant-api03-abcdefghij_KLMNOP",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "xoxb-123456789012-abcdefABCDEF",
)


def test_keys_in_the_files_of_a_workspace_are_redacted(run: Callable[..., RunReport], tmp_path: Path) -> None:
    (tmp_path / "template" / "deploy.env").write_text("".join(f"K={key}\n" for key in KEYS) + PEM)
    (tmp_path / "agent.py").write_text(
        "from pathlib import Path\nfound = Path('deploy.env').read_text() + Path('made.env').read_text()\n"
        "Path('copy.env').write_text(found)\nprint('spoken of:', found, 'sk-learn task_live_long AKIA')\n"
    )
    setup = "echo glpat-0123456789abcdefghij > made.env"
    report = run(f"{{template: template, setup: '{setup}'}}")
    assert report.folder is not None
    stored = "".join(path.read_text() for path in Path(report.folder).rglob("*.jsonl"))
    secrets = (*KEYS, "glpat-0123456789abcdefghij", *PEM.splitlines()[1:3])
    assert [secret for secret in secrets if secret in stored] == []
    assert "+K=***" in answers(report)[0]["workspace"]["diff"]
    assert "sk-learn task_live_long AKIA" in answers(report)[0]["text"]
    assert "-----BEGIN RSA PRIVATE KEY-----" in answers(report)[0]["text"]
