"""`agentv check` of files that are no eval files, and of what `init` wrote."""

import json
from pathlib import Path

import pytest

from agentv.cli.evals.init import TEMPLATES
from agentv.cli.main import main

CRITERIA = {
    "criteria": [{"name": "right", "description": "is right", "scale": "binary"}],
    "evaluators": [{"type": "contains", "value": "x", "criterion": "right"}],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        main(["check", *words])
    return ended.value.code, capsys.readouterr().out


def test_a_json_file_of_criteria_is_checked_as_such(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "x.json").write_text(json.dumps(CRITERIA))
    assert check(capsys, "x.json") == (0, "1 file checked: no problems found\n")
    (folder / "x.json").write_text(json.dumps(CRITERIA).replace("contains", "contians"))
    code, said = check(capsys, "x.json")
    assert (code, "unknown evaluator type 'contians'" in said, "evalcases" in said) == (4, True, False)


@pytest.mark.parametrize("template", TEMPLATES)
def test_check_is_silent_on_what_init_wrote(template: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["init", "--template", template])
    capsys.readouterr()
    assert check(capsys) == (0, "1 file checked: no problems found\n")


def test_a_type_that_the_source_of_a_plug_in_does_not_name_is_warned_of(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["init", "--template", "evaluator-plugin"])
    suite = folder / "evals" / "first.yaml"
    suite.write_text(suite.read_text().replace("type: my_evaluator", "type: my_evaluatr"))
    capsys.readouterr()
    code, said = check(capsys)
    assert (code, "unknown evaluator type 'my_evaluatr'" in said, "ToxicityEvaluator" in said) == (0, True, False)
