"""`--online`: one short question to each target and judge, with what failed and how to mend it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.fake_server import serving_fake

from agentv.cli.main import main
from agentv.fake import FakeServer

SUITE = """
evalcases:
  - {id: a, expected_outcome: x, input_messages: [{role: user, content: hi}]}
"""


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving_fake() as found:
        yield found


@pytest.fixture
def agentv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    (tmp_path / ".git").mkdir()
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "suite.yaml").write_text(SUITE)
    monkeypatch.chdir(tmp_path)

    def call(targets: str, *arguments: str) -> tuple[int, str]:
        (tmp_path / "targets.yaml").write_text(targets)
        with pytest.raises(SystemExit) as left:
            main(arguments)
        return int(left.value.code or 0), capsys.readouterr().out

    return call


def targets(server: FakeServer, judge: str) -> str:
    address = f"provider: openai, base_url: '{server.url}/v1'"
    return f"""
targets:
  - {{name: default, {address}, model: fake, judge_target: judge}}
  - {{name: judge, {address}, model: '{judge}', max_retries: 3}}
"""


def test_check_asks_the_targets_and_judges_of_the_suites(
    agentv: Callable[..., tuple[int, str]], server: FakeServer
) -> None:
    code, said = agentv(targets(server, "fake"), "check", "--online")
    assert code == 0
    assert [line.split()[:2] for line in said.splitlines()[1:]] == [["answers", "default"], ["answers", "judge"]]
    assert len(server.calls) == 2


def test_a_failing_target_is_called_once_and_reported_with_a_remedy(
    agentv: Callable[..., tuple[int, str]], server: FakeServer
) -> None:
    code, said = agentv(targets(server, "fake@401"), "check", "--online")
    assert code == 3
    assert "FAILS    judge" in said
    assert "401" in said
    assert "Check the key" in said
    assert len(server.calls) == 2
    code, said = agentv(targets(server, "fake@503"), "check", "--online")
    assert code == 3
    assert len(server.calls) == 4


def test_nothing_is_called_while_the_files_have_errors(
    agentv: Callable[..., tuple[int, str]], server: FakeServer
) -> None:
    code, _ = agentv(targets(server, "fake").replace("model: fake", "modell: fake"), "check", "--online")
    assert (code, server.calls) == (4, [])


def test_doctor_asks_every_target_of_the_project(agentv: Callable[..., tuple[int, str]], server: FakeServer) -> None:
    code, said = agentv(targets(server, "fake@404"), "doctor", "--online", "--json")
    found = {entry["about"]: entry for entry in json.loads(said)["findings"]}
    assert code == 3
    assert found["answer default"]["health"] == "ok"
    assert found["answer judge"]["health"] == "error"
    assert found["answer judge"]["remedy"] == "Check the model's name and the settings that go with it."


def test_a_target_is_probed_like_its_first_case_in_its_own_workspace(
    agentv: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    ruled = SUITE + "execution: {evaluators: [{name: any, type: length, min: 1}]}\n"
    (tmp_path / "evals" / "suite.yaml").write_text(ruled)
    (tmp_path / "template").mkdir()
    command = f"echo {{EVAL_ID}} >> {tmp_path / 'ids'}; touch made; echo OK"
    target = (
        f"{{name: default, provider: cli, command_template: {json.dumps(command)}, workspace: {{template: template}}}}"
    )
    code, said = agentv(f"targets: [{target}]", "check", "--online")
    assert code == 0, said
    assert (tmp_path / "ids").read_text() == "a\n"
    assert list((tmp_path / "template").iterdir()) == []
    assert "answers  default" in said


def test_canned_answers_are_not_requested(agentv: Callable[..., tuple[int, str]]) -> None:
    canned = "targets: [{name: default, provider: mock, response: x}]"
    code, said = agentv(canned, "check", "--online")
    assert (code, said.splitlines()[1].split()) == (0, ["canned", "default", "mock", "not", "called"])
    code, said = agentv(canned, "doctor", "--online")
    assert "its answers are canned" in said


def test_check_asks_the_target_that_is_named(agentv: Callable[..., tuple[int, str]], server: FakeServer) -> None:
    code, said = agentv(targets(server, "fake"), "check", "--online", "--target", "judge")
    assert code == 0
    assert [line.split()[:2] for line in said.splitlines()[1:]] == [["answers", "judge"]]
