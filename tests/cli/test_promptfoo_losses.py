"""Configurations of promptfoo from seeds, converted, checked and run: what lost a part never passes."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.nightly import IS_NIGHTLY
from tests.support.promptfoo_configs import ANSWER, FILES, Made, make_config

from agentv.cli.evals.convert import exit_code
from agentv.cli.main import agentv
from agentv.importers.promptfoo.configurations import convert_promptfoo
from agentv.reports.text.yaml_text import yaml_mapping

CONFIGS = 300 if IS_NIGHTLY else 60


def converted(folder: Path, made: Made) -> int:
    """Write a configuration and what it becomes; the target gives ANSWER. Return the exit code of the conversion."""
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    source, output = folder / "promptfooconfig.yaml", folder / "suite.eval.yaml"
    source.write_text(json.dumps(made.config, indent=1))
    result = convert_promptfoo(source, output)
    output.write_text(yaml_mapping(result.suite))
    for name, text in result.code.items():
        (folder / name).write_text(text)
    names = [str(target["name"]) for target in result.targets]
    mocks = [{"name": name, "provider": "mock", "response": ANSWER} for name in names]
    (folder / "targets.yaml").write_text(json.dumps({"targets": mocks}))
    source.unlink()
    return exit_code(result.losses)


def call(*arguments: str) -> int:
    code: int = agentv.main(list(arguments), standalone_mode=False) or 0
    return code


def test_no_result_of_a_test_that_lost_a_part_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "evals").mkdir()
    with_node = shutil.which("node") is not None
    made = {f"c{seed:03}": make_config(seed, with_node=with_node) for seed in range(CONFIGS)}
    codes = {name: converted(tmp_path / "evals" / name, each) for name, each in made.items()}
    assert call("check", "evals") == 0
    call("run", "evals", "-o", "rows.jsonl", "--display", "none", "--gate", "none")
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    wrong = [problem for row in rows if (problem := _problem(row, made[Path(row["suite"]).parent.name])) is not None]
    assert wrong == []
    states = Counter(row["verdict"] or row["status"] for row in rows)
    assert min(states[state] for state in ("pass", "fail", "skipped")) > CONFIGS // 3, states
    assert "error" not in states
    lossy = {Path(row["suite"]).parent.name for row in rows if row["status"] == "skipped"}
    assert {name for name, code in codes.items() if code == 1} >= lossy
    assert len(lossy) > CONFIGS // 3


def _problem(row: dict[str, Any], made: Made) -> str | None:
    """Return what is wrong with the end of a result; None if it may end like that."""
    state = row["verdict"] or row["status"]
    ends = made.ends.get(row["eval_id"], frozenset({"skipped"}))
    if made.lost_prompts and state == "skipped":
        return None
    return (
        None if state in ends else f"{row['suite']} {row['eval_id']} {row.get('prompt')}: {state}, not {sorted(ends)}"
    )
