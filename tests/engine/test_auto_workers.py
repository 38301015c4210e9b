"""`workers: auto`: where it may be set, and runs with it against a server that refuses calls above a number."""

import asyncio
import json
from pathlib import Path
from typing import Literal

import pytest
from tests.support.loopback import Writer, reply, serving

from agentv import evaluate
from agentv.cli.main import agentv
from agentv.engine.planning.inputs import load_inputs
from agentv.engine.planning.plan import RunPlan
from agentv.engine.planning.planning import make_plan
from agentv.execution.auto_workers import MOST, START
from agentv.types.run_options import make_options

CASE = "  - {id: NAME, input_messages: [{role: user, content: NAME}], expected_outcome: x}\n"
SUITE = "execution: {evaluators: [{name: says, type: contains, value: yes}]}\nevalcases:\n"
TARGET = "{name: t, provider: mock, response: 'yes'}"
ANSWER = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}}]})


class Server:
    """Holds each call for 100 ms, and refuses calls while `limit` others are held."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = self.most_held = self.refused = 0

    async def answer(self, writer: Writer) -> None:
        if self.held >= self.limit:
            self.refused += 1
            await reply('{"error": {"message": "slow down"}}', status="429 Too Many Requests")(writer)
            return
        self.held += 1
        self.most_held = max(self.most_held, self.held)
        is_over = asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, is_over.set)
        await is_over.wait()
        self.held -= 1
        await reply(ANSWER)(writer)


def write_suite(folder: Path, *, cases: int = 1, target: str = TARGET, settings: str = "") -> None:
    (folder / "targets.yaml").write_text(f"targets: [{target}]\n")
    names = (f"c{number}" for number in range(cases))
    (folder / "suite.yaml").write_text(settings + SUITE + "".join(CASE.replace("NAME", name) for name in names))


def test_a_run_finds_how_many_calls_a_server_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    server = Server(limit=10)
    with serving(server.answer) as running:
        retries = "max_retries: 8, retry_initial_delay_ms: 5, retry_backoff_factor: 1"
        target = f"{{name: t, provider: openai, model: m, api_key: k, base_url: '{running.url}/v1', {retries}}}"
        write_suite(tmp_path, cases=60, target=target)
        report = evaluate("suite.yaml", workers="auto")
    assert report.verdict.exit_code == 0
    assert START < server.most_held <= 10
    assert server.refused < 50


def planned(folder: Path, workers: int | Literal["auto"] | None = None, *, backend: str = "local") -> RunPlan:
    options = make_options({"workers": workers, "backend": backend})
    inputs = load_inputs([folder / "suite.yaml"], options, cwd=folder, env={})
    return make_plan(inputs.suites, options, specs=inputs.specs, home=str(folder / ".agentv"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None, None, None), 1),
        ((None, None, None, 7), 7),
        ((None, None, None, "auto"), MOST),
        ((None, None, 3, "auto"), 3),
        ((None, 5, "auto", 7), 5),
        ((None, "auto", 3, 7), MOST),
        ((2, "auto", 3, 7), 2),
        (("auto", 5, 3, 7), MOST),
    ],
)
def test_the_number_of_a_project_comes_after_all_others(
    tmp_path: Path, given: tuple[int | Literal["auto"] | None, ...], expected: int
) -> None:
    option, of_suite, of_target, of_project = given
    target = TARGET if of_target is None else TARGET.replace("}", f", workers: {of_target}}}")
    write_suite(tmp_path, target=target, settings="" if of_suite is None else f"workers: {of_suite}\n")
    if of_project is not None:
        (tmp_path / ".agentv.yaml").write_text(f"workers: {of_project}\n")
    plan = planned(tmp_path, option)
    assert plan.workers(plan.targets[0]) == expected
    assert plan.adapts_workers(plan.targets[0]) == (expected == MOST)


def test_the_nodes_of_a_cluster_stay_at_the_first_number(tmp_path: Path) -> None:
    write_suite(tmp_path)
    plan = planned(tmp_path, "auto", backend="ray")
    assert plan.workers(plan.targets[0]) == START
    assert not plan.adapts_workers(plan.targets[0])


def test_a_run_with_auto_is_stored_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_suite(tmp_path, cases=3)
    assert agentv.main(["run", "suite.yaml", "--workers", "auto", "--fail-fast"], standalone_mode=False) == 0
    (stored,) = tmp_path.glob(".agentv/runs/*/run.json")
    assert json.loads(stored.read_text())["plan"]["options"]["workers"] == "auto"
    for command in ("resume", "rescore"):
        assert agentv.main([command, "latest"], standalone_mode=False) == 0
    assert "3 of 3" in capsys.readouterr().out
