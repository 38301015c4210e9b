"""A name that matches nothing is an error, also beside others that match."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agentv.cli.main import main

SUITE = """
evaluators: [{name: fine, type: contains, value: Paris}]
evalcases:
  - {id: c1, input: "Where is it?", tags: [smoke]}
  - {id: c2, input: "And where is it now?"}
"""
TARGETS = "targets: [{name: default, provider: mock, response: Paris}]"
Call = Callable[..., tuple[int, str]]


@pytest.fixture
def agentv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that calls the command line in a project of two cases."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".agentv").mkdir()
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "targets.yaml").write_text(TARGETS)

    def call(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as left:
            main(arguments)
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out + said.err

    return call


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("run", "suite.yaml", "--case", "c1", "--case", "nope"), 5, "no case matches --case 'nope' (2 loaded)"),
        (
            ("run", "suite.yaml", "--tag", "smoke", "--tag", "smok"),
            5,
            "no case has the tag 'smok', did you mean 'smoke'?",
        ),
        (("run", "suite.yaml", "--target", "default", "--target", "nope"), 4, "'nope'"),
        (("run", "suite.yaml", "--dry-run", "--case", "c1", "--case", "nope"), 5, "no case matches --case 'nope'"),
    ],
)
def test_an_unknown_name_beside_others_starts_no_run(
    agentv: Call, arguments: tuple[str, ...], code: int, message: str
) -> None:
    exit_code, said = agentv(*arguments)
    assert (exit_code, message in said) == (code, True), said
    assert not list(Path(".agentv").glob("runs/*"))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("retry", "--case", "c1", "--case", "nope"), 4, "no case matches --case 'nope'"),
        (("runs", "export", "--case", "c1", "--case", "nope", "-o", "x.yaml"), 5, "no case matches --case 'nope'"),
        (("show", "latest", "--tag", "smoke", "--tag", "smok"), 4, "unknown tag 'smok'; known: smoke."),
        (("show", "latest", "--target", "default", "--target", "nope"), 4, "unknown target 'nope'; known: default."),
    ],
)
def test_an_unknown_name_is_an_error_of_commands_on_a_run(
    agentv: Call, arguments: tuple[str, ...], code: int, message: str
) -> None:
    agentv("run", "suite.yaml")
    exit_code, said = agentv(*arguments)
    assert (exit_code, message in said) == (code, True), said
    assert not Path("x.yaml").exists()
