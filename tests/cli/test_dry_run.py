"""`agentv run --dry-run` and `--dump-prompts`: what would be asked, without asking."""

import json
from pathlib import Path

import pytest

from agentv.cli.main import agentv
from agentv.types.errors import ConfigError

CASE = '{"id": "NAME", "expected_outcome": "x", "input_messages": [{"role": "user", "content": "hi"}]}'


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    Path("targets.yaml").write_text("targets: [{name: mock, provider: mock, response: hi}]")
    Path("lines.jsonl").write_text("".join(CASE.replace("NAME", name) + "\n" for name in "abc"))
    Path("lines.yaml").write_text("execution: {evaluators: [{name: greets, type: contains, value: hi}]}")
    Path("suite.yaml").write_text(f"evalcases: [{CASE}]")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert agentv.main(["run", *arguments], standalone_mode=False) == 0
    return capsys.readouterr().out


def test_a_streams_evaluators_are_those_of_its_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "lines.jsonl", "--dry-run", "--gate", "mean >= 0.5") == (
        "lines.jsonl: a stream of cases against mock\n"
        "rows planned: unknown (a stream); calls of targets: unknown (a stream); "
        "cost: unknown (nothing was measured yet)\n"
        "evaluators: greets (contains); cases of a stream may name others\n"
        "gate: mean >= 0.5\n"
    )


def test_the_plan_comes_as_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(run(capsys, "suite.yaml", "lines.jsonl", "--dry-run", "--json", "--trials", "2"))
    assert shown == {
        "schema": "agentv-plan-1",
        "suites": [
            {"suite": "suite.yaml", "cases": 1, "rows": 2, "trials": 2, "targets": ["mock"]},
            {"suite": "lines.jsonl", "cases": None, "rows": None, "trials": 2, "targets": ["mock"]},
        ],
        "rows": None,
        "evaluators": [{"name": "llm_judge", "type": "llm_judge"}, {"name": "greets", "type": "contains"}],
        "gates": ["every judged row passes"],
        "warnings": [],
        "prompts": None,
    }


def test_prompts_are_written_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "suite.yaml", "--dump-prompts", "out").endswith("\n1 prompt written to out\n")
    assert [path.name for path in Path("out").iterdir()] == ["suite.yaml.a.mock.md".replace(".a.", ".NAME.")]


def test_a_file_where_prompts_should_go_is_told() -> None:
    Path("out").write_text("mine")
    with pytest.raises(ConfigError, match=r"--dump-prompts needs a folder to write into; .*out: File exists"):
        agentv.main(["run", "suite.yaml", "--dump-prompts", "out"], standalone_mode=False)
    assert Path("out").read_text() == "mine"
