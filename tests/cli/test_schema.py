"""`agentv schema`."""

import json
from pathlib import Path

import click
import pytest

from agentv.cli.main import agentv
from agentv.types.errors import StorageError, UnknownNameError


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    agentv.main(["schema", *arguments], standalone_mode=False)
    return capsys.readouterr().out


def test_the_schema_of_eval_files_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(run(capsys))["title"] == "agentv eval"
    assert json.loads(run(capsys, "targets"))["title"] == "agentv targets"


def test_a_schema_is_written_to_a_file_with_the_line_that_editors_need(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "eval.schema.json"
    assert f"# yaml-language-server: $schema={path}" in run(capsys, "eval", "-o", str(path))
    assert json.loads(path.read_text())["title"] == "agentv eval"
    assert [entry.name for entry in tmp_path.iterdir()] == ["eval.schema.json"]


def test_the_json_form_has_a_versioned_shape(capsys: pytest.CaptureFixture[str]) -> None:
    shape = json.loads(run(capsys, "config", "--json"))
    assert (shape["schema"], shape["kind"], shape["file"]) == ("agentv-schema-1", "config", None)
    assert shape["json_schema"]["title"] == "agentv config"


def test_an_unknown_kind_and_an_unwritable_place_are_reported(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'results'"):
        agentv.main(["schema", "result"], standalone_mode=False)
    with pytest.raises(StorageError, match="cannot write"):
        agentv.main(["schema", "-o", str(tmp_path / "none" / "x.json")], standalone_mode=False)


def test_the_schemas_of_a_project_are_written_again_after_a_clone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "evals").mkdir()
    monkeypatch.chdir(tmp_path / "evals")
    folder = tmp_path / ".agentv" / "schemas"
    written = [str(folder / name) for name in (".gitignore", "eval.schema.json", "targets.schema.json")]
    assert run(capsys, "--write").splitlines() == [f"Wrote {path}" for path in written]
    (folder / "eval.schema.json").write_text("of an older agentv")
    report = json.loads(run(capsys, "--write", "--json"))
    assert report == {"schema": "agentv-schema-1", "written": written}
    assert json.loads((folder / "eval.schema.json").read_text())["title"] == "agentv eval"
    assert (folder / ".gitignore").read_text().splitlines()[-1] == "*"


@pytest.mark.parametrize("arguments", [["eval", "--write"], ["--write", "-o", "x.json"]])
def test_write_takes_neither_a_kind_nor_a_file(arguments: list[str]) -> None:
    with pytest.raises(click.UsageError, match="--write cannot be combined with KIND or --output"):
        agentv.main(["schema", *arguments], standalone_mode=False)
