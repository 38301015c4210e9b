"""Configurations of promptfoo in files: what each becomes, what is listed as lost, and how its suite ends.

The verdicts are those of promptfoo 0.121.20 itself, except where a loss is listed (tests/fixtures/promptfoo/README.md).
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentv.cli.main import agentv

CONFIGS = Path(__file__).parents[1] / "fixtures" / "promptfoo"
ENDS: dict[str, dict[str, str]] = json.loads((CONFIGS / "ends.json").read_text())


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(CONFIGS, tmp_path / "project")
    (tmp_path / "project" / ".git").mkdir()
    monkeypatch.chdir(tmp_path / "project")


def call(*arguments: str) -> int:
    code: int = agentv.main(list(arguments), standalone_mode=False) or 0
    return code


def converted(name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    call("convert", f"{name}.yaml", "-o", "converted.yaml", "--json")
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def rows_of(name: str) -> list[dict[str, Any]]:
    call("run", "converted.yaml", "-o", f"{name}.jsonl", "--display", "none")
    return [json.loads(line) for line in Path(f"{name}.jsonl").read_text().splitlines()]


def evaluators(rows: list[dict[str, Any]]) -> str:
    return " ".join(sorted({each["type"] for row in rows for each in row["evaluator_results"]}))


def verdicts(rows: list[dict[str, Any]]) -> str:
    targets = {row["target"] for row in rows}
    ended = []
    for row in rows:
        parts = (row["eval_id"], row["target"] if len(targets) > 1 else None, row.get("prompt"))
        ended.append(f"{'/'.join(filter(None, parts))} {row['verdict'] or row['status']}")
    return ", ".join(sorted(ended))


def test_every_configuration_has_an_expected_end() -> None:
    assert set(ENDS) == {path.stem for path in CONFIGS.glob("*.yaml")}
    assert len(ENDS) >= 60


@pytest.mark.parametrize("name", ENDS)
def test_what_is_lost_is_listed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    notes = converted(name, capsys)["notes"]
    assert " ".join(note["json_path"].removeprefix("$.") for note in notes) == ENDS[name]["lost"]


@pytest.mark.parametrize("name", ENDS)
def test_a_converted_suite_has_no_errors(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    converted(name, capsys)
    assert call("check", "converted.yaml") == 0, capsys.readouterr().out


HAS_NODE = shutil.which("node") is not None


@pytest.mark.parametrize(
    "name", [name for name, end in ENDS.items() if "verdicts" in end and (HAS_NODE or name != "a-javascript")]
)
def test_a_converted_suite_ends_as_in_promptfoo(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    converted(name, capsys)
    rows = rows_of(name)
    assert (evaluators(rows), verdicts(rows)) == (ENDS[name]["evaluators"], ENDS[name]["verdicts"])
