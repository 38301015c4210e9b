"""The folder of a command healthcheck: its own, else the target's, else the eval file's; once per folder."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agentv import evaluate
from agentv.types.results import RunReport

PROBE = f"{sys.executable} -c \"open('probed', 'a').write('x')\""
SUITE = "evalcases: [{id: a, expected_outcome: x, input_messages: [{role: user, content: hi}], evaluators: [%s]}]"
IS_OK = "{name: ok, type: contains, value: ok}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Three suites in two folders below the targets file."""
    (tmp_path / ".git").mkdir()
    for name in ("one/a.yaml", "one/b.yaml", "two/c.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(SUITE % IS_OK)
    for folder in ("one/own", "two/own", "one/target", "two/target", "fixed"):
        (tmp_path / folder).mkdir()
    return tmp_path


def run(project: Path, *, healthcheck: dict[str, Any], **target: Any) -> RunReport:
    probe = {"type": "command", "command_template": PROBE, **healthcheck}
    targets = [{"name": "t", "provider": "cli", "command_template": "echo ok", "healthcheck": probe, **target}]
    (project / "targets.yaml").write_text(json.dumps({"targets": targets}))
    return evaluate(project, folder=project / ".agentv")


def probes(project: Path) -> dict[str, str]:
    return {str(path.parent.relative_to(project)): path.read_text() for path in project.rglob("probed")}


@pytest.mark.parametrize(
    ("own", "of_target", "expected"),
    [
        (None, None, {"one": "x", "two": "x"}),
        (None, "target", {"one/target": "x", "two/target": "x"}),
        ("own", "target", {"one/own": "x", "two/own": "x"}),
        ("../fixed", "target", {"fixed": "x"}),
        (None, "../fixed", {"fixed": "x"}),
    ],
)
def test_healthcheck_runs_once_in_each_resolved_folder(
    project: Path, own: str | None, of_target: str | None, expected: dict[str, str]
) -> None:
    report = run(project, healthcheck={"cwd": own} if own else {}, **({"cwd": of_target} if of_target else {}))
    assert report.exit_code == 0, report.verdict.sentence
    assert probes(project) == expected


def test_healthcheck_that_fails_in_one_folder_ends_the_run(project: Path) -> None:
    (project / "one" / "here").touch()
    report = run(project, healthcheck={"command_template": "test -e here"})
    assert report.exit_code == 3
    assert "healthcheck of target 't' failed" in report.verdict.sentence
    assert str(project / "two") in report.verdict.sentence


def test_healthcheck_in_a_missing_folder_names_it(project: Path) -> None:
    report = run(project, healthcheck={"cwd": "nowhere"})
    assert report.exit_code == 3
    assert str(project / "one" / "nowhere") in report.verdict.sentence
