import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentv.cli.init import TEMPLATES


def agentv(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(cwd)}
    command = [sys.executable, "-m", "agentv", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_a_template_writes_is_valid_and_runs_with_no_key(template: str, tmp_path: Path) -> None:
    assert agentv("init", "--template", template, cwd=tmp_path).returncode == 0
    checked = agentv("check", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    done = agentv("run", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.glob(".agentv/runs/*/results.jsonl"))) == 1


def test_yaml_files_point_editors_to_a_schema_that_is_there(tmp_path: Path) -> None:
    agentv("init", cwd=tmp_path)
    for path in [tmp_path / "evals" / "first.yaml", tmp_path / ".agentv" / "targets.yaml"]:
        head = path.read_text("utf-8").split("\n")[0]
        schema = path.parent / head.removeprefix("# yaml-language-server: $schema=")
        assert json.loads(schema.read_text("utf-8"))["type"] == "object"


def test_files_that_exist_are_kept_and_named(tmp_path: Path) -> None:
    mine = tmp_path / "evals" / "first.yaml"
    mine.parent.mkdir()
    mine.write_text("mine")
    done = agentv("init", cwd=tmp_path)
    assert mine.read_text() == "mine"
    assert "kept   evals/first.yaml" in done.stdout
    assert "wrote  .agentv/targets.yaml" in done.stdout


def test_a_second_init_changes_nothing(tmp_path: Path) -> None:
    agentv("init", cwd=tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    report = json.loads(agentv("init", "--json", cwd=tmp_path).stdout)
    assert report["written"] == []
    assert len(report["kept"]) >= 6
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_another_folder_is_made_and_the_next_step_leads_there(tmp_path: Path) -> None:
    done = agentv("init", "new/project", cwd=tmp_path)
    assert (tmp_path / "new" / "project" / ".env.template").is_file()
    assert (tmp_path / "new" / "project" / ".github" / "workflows" / "agentv.yml").is_file()
    assert done.stdout.endswith("Next: cd new/project && agentv run\n")


def test_an_unknown_template_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    done = agentv("init", "--template", "agents", cwd=tmp_path)
    assert done.returncode == 4
    assert "'agent', 'rag', 'chat', 'python', 'evaluator-plugin'" in done.stderr
    assert list(tmp_path.iterdir()) == []
