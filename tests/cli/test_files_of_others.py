"""Files of other programs, given to `run` and `check`: one error that names the command which reads them."""

import shutil
from pathlib import Path

import pytest

from agentv.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples" / "from-others"
LOGS = Path(__file__).parents[1] / "fixtures" / "inspect"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "targets.yaml").write_text("targets: [{name: default, provider: mock, response: hi}]\n")
    return tmp_path


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize(
    ("source", "advice"),
    [
        (EXAMPLES / "promptfoo" / "promptfooconfig.yaml", "a promptfoo configuration > suite.yaml"),
        (EXAMPLES / "goldens.json", "a dataset of DeepEval > suite.yaml"),
        (EXAMPLES / "dataset.yaml", "a dataset of pydantic-evals > suite.yaml"),
        (LOGS / "capitals.json", "a log of inspect > .agentv/runs"),
        (LOGS / "capitals.eval", "a log of inspect > .agentv/runs"),
    ],
)
def test_the_command_that_reads_the_file_is_named(
    command: str, source: Path, advice: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    what, output = advice.split(" > ")
    shutil.copy(source, project)
    with pytest.raises(SystemExit) as left:
        main([command, source.name])
    assert left.value.code == 4
    written = "".join(capsys.readouterr())
    assert f"{what}, which is not an eval file" in written
    assert f"agentv convert {source.name} -o {output}" in written
    assert written.count("$") == 1
