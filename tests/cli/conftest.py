"""What tests of several commands need."""

from pathlib import Path

import pytest
from tests.support.carrying import AGENT, JUDGE, Project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    """A project with three cases."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "judge.py").write_text(JUDGE)
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: python, callable: 'agent.py:answer'}]")
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, capsys, cases={name: f"question {name}" for name in "abc"})
