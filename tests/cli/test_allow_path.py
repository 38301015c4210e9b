"""`--allow-path`: files outside of the project, in every command that reads eval files."""

import json
from pathlib import Path

import pytest

from agentv import evaluate
from agentv.cli.main import agentv
from agentv.types.errors import EvalFileError

SUITE = """\
evalcases:
  - id: a
    expected_outcome: ok
    input_messages:
      - {role: user, content: [{type: file, value: ../../shared/order.txt}]}
    evaluators: [{name: c, type: contains, value: hi}]
"""


@pytest.fixture(autouse=True)
def _in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / "evals").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "order.txt").write_text("7")
    (tmp_path / "shared" / "prompt.md").write_text("Judge {{ candidate_answer }}")
    (tmp_path / "shared" / "terms.txt").write_text("awful\n")
    monkeypatch.chdir(tmp_path / "project")
    Path("evals/a.yaml").write_text(SUITE)
    Path("targets.yaml").write_text("targets: [{name: t, provider: mock, response: hi}]\n")


def called(*arguments: str) -> int:
    code = agentv.main(list(arguments), standalone_mode=False)
    assert isinstance(code, int)
    return code


def test_check_and_run_refuse_without_it_and_print_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("check") == 4
    assert f"allow it with --allow-path {tmp_path.resolve()}/shared" in capsys.readouterr().out
    with pytest.raises(EvalFileError, match=r"leads outside of .*/project, to "):
        called("run")
    assert called("check", "--allow-path", "../shared") == 0


def test_run_stores_it_for_commands_that_continue_the_run() -> None:
    assert called("run", "--allow-path", "../shared") == 0
    (run,) = Path(".agentv/runs").glob("*/run.json")
    assert json.loads(run.read_text())["plan"]["options"]["allow_paths"] == ["../shared"]
    assert called("resume", "latest") == 0
    assert called("rescore", "latest") == 0


def test_commands_that_continue_a_run_take_another_folder() -> None:
    Path("local.txt").write_text("7")
    suite = Path("evals/a.yaml")
    suite.write_text(SUITE.replace("../../shared/order.txt", "../local.txt"))
    assert called("run") == 0
    suite.write_text(SUITE)
    with pytest.raises(EvalFileError, match="leads outside"):
        called("resume", "latest")
    assert called("resume", "latest", "--allow-path", "../shared") == 0
    assert called("rescore", "latest", "--allow-path", "../shared") == 0


def test_score_takes_it_for_the_files_of_its_evaluators() -> None:
    Path("config.yaml").write_text("evaluators: [{type: toxicity, toxic_terms: ../shared/terms.txt}]\n")
    Path("log.jsonl").write_text('{"response": "hello"}\n')
    with pytest.raises(EvalFileError, match="leads outside"):
        called("score", "log.jsonl", "--config", "config.yaml")
    assert called("score", "log.jsonl", "--config", "config.yaml", "--allow-path", "../shared") == 0


def test_evaluate_takes_folders(tmp_path: Path) -> None:
    with pytest.raises(EvalFileError, match="leads outside"):
        evaluate("evals/a.yaml")
    assert evaluate("evals/a.yaml", allow_paths=["../shared"]).exit_code == 0
    assert evaluate("evals/a.yaml", allow_paths=tmp_path / "shared").exit_code == 0


def test_generate_takes_a_folder_too() -> None:
    before = Path("evals/a.yaml").read_text()
    Path("targets.yaml").write_text("targets: [{name: t, provider: mock, response: 'no rubrics'}]\n")
    with pytest.raises(EvalFileError, match=r"leads outside of .*/project, to "):
        called("generate", "rubrics", "evals/a.yaml", "--dry-run")
    assert called("generate", "rubrics", "evals/a.yaml", "--dry-run", "--allow-path", "../shared") == 0
    assert Path("evals/a.yaml").read_text() == before
    Path("records.jsonl").write_text('"a record"\n')
    append = ["generate", "evals", "--in", "records.jsonl", "--out", "evals/a.yaml", "--append", "--dry-run"]
    with pytest.raises(EvalFileError, match=r"leads outside of .*/project, to "):
        called(*append)
    assert called(*append, "--allow-path", "../shared") == 0


def test_the_run_that_pairwise_compares_with_lies_in_the_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other" / ".agentv" / "runs" / "r1"
    other.mkdir(parents=True)
    (other / "answers.jsonl").write_text("")
    Path("evals/a.yaml").write_text(
        "evalcases:\n  - id: a\n    expected_outcome: ok\n    input_messages: [{role: user, content: hi}]\n"
        "    evaluators: [{name: p, type: pairwise, against_run: ../../other/.agentv/runs/r1}]\n"
    )
    assert called("check") == 4
    said = capsys.readouterr().out
    assert "'../../other/.agentv/runs/r1' leads outside of" in said
    assert f"allow it with --allow-path {other.resolve()}" in said
    assert called("check", "--allow-path", str(other)) == 0
