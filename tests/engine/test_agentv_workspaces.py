"""Workspaces of AgentV 4 in a run: templates, hooks with their input, and cases that add to those of the suite."""

import json
from pathlib import Path

from agentv import evaluate

SUITE = """
name: files
workspace:
  isolation: per_test
  template: ./template
  hooks:
    before_each: {command: [sh, prepare.sh, "{{workspace_path}}"]}
    after_each: {command: [sh, clean.sh]}
  env: {required_commands: [sh]}
tests:
  - id: of-suite
    criteria: The files are listed
    input: hi
    assertions: [{type: contains, value: "given prepared template.txt"}]
  - id: of-case
    criteria: The files are listed
    input: hi
    workspace:
      hooks: {before_each: {command: "sh case.sh {{workspace_path}}"}}
    assertions: [{type: contains, value: "from-case.json template.txt"}]
"""


def test_hooks_of_suite_and_case_prepare_each_workspace(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "template").mkdir()
    (tmp_path / "template" / "template.txt").touch()
    (tmp_path / "prepare.sh").write_text('cat > "$1/given"; touch "$1/prepared"\n')
    (tmp_path / "case.sh").write_text('cat > "$1/from-case.json"\n')
    (tmp_path / "clean.sh").write_text("cat >> cleaned.json; echo >> cleaned.json\n")
    (tmp_path / "files.eval.yaml").write_text(SUITE)
    (tmp_path / "targets.yaml").write_text("targets: [{name: default, provider: cli, command: 'echo $(ls)'}]\n")

    report = evaluate(tmp_path / "files.eval.yaml", folder=tmp_path / ".agentv")

    assert [(row.eval_id, row.candidate_answer, row.status) for row in report.results] == [
        ("of-suite", "given prepared template.txt", "pass"),
        ("of-case", "from-case.json template.txt", "pass"),
    ]
    cleaned = [json.loads(line) for line in (tmp_path / "cleaned.json").read_text().splitlines()]
    assert all(Path(each["workspace_path"]).name == "work" for each in cleaned)
    assert len(cleaned) == 2
