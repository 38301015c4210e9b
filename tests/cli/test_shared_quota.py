"""Runs in several processes that share the rate limit of an account, and a budget, in the team database."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.fake_server import serving_fake
from tests.support.postgres_server import new_database, own_server, upgraded_database, wait_a_moment

from agentv import EvalCase, EvaluatorConfig, Message, TargetConfig, evaluate
from agentv.cli.main import main
from agentv.fake import FakeServer
from agentv.fake.answers import answer
from agentv.fake.api import Question, Reply
from agentv.storage.run.find import list_run_folders
from agentv.storage.run.stored import StoredRun
from agentv.types.protocols import LEASE_S

PRICED: dict[str, Any] = {"price": {"input_per_million": 0, "output_per_million": 1_000}, "max_output_tokens": 6}
"""Six tokens are what an answer has, so that a reservation is what a call costs."""
COST = 0.006
KEY = "sk-quota-canary-1234567890"


@contextmanager
def timed_server(times: list[float]) -> Iterator[FakeServer]:
    def answer_now(question: Question) -> Reply:
        times.append(time.monotonic())
        return answer(question)

    with serving_fake(answer=answer_now) as server:
        yield server


def write_project(folder: Path, server: FakeServer, *, cases: int, **target: Any) -> None:
    (folder / ".git").mkdir(parents=True)
    settings = {"provider": "openai", "model": "fake", "base_url": f"{server.url}/v1", "api_key": KEY, "workers": 8}
    (folder / "targets.yaml").write_text(json.dumps({"targets": [{"name": "model", **settings, **target}]}))
    lines = [
        {"id": f"c{number}", "expected_outcome": "x", "input_messages": [{"role": "user", "content": "Say it again."}]}
        for number in range(cases)
    ]
    evaluators = [{"name": "said", "type": "contains", "value": "again"}]
    suite = {"execution": {"target": "model", "evaluators": evaluators}, "evalcases": lines}
    (folder / "suite.yaml").write_text(json.dumps(suite))


def start(folder: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "agentv", "run", "suite.yaml", "--display", "none", *options],
        cwd=folder,
        env={**os.environ, "AGENTV_STORE": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_at_once(folder: Path, runs: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
    """Start all runs, and return their exit codes and output."""
    started = [start(folder, *options) for options in runs]
    said = [process.communicate(timeout=120)[0] for process in started]
    return [(process.returncode, text) for process, text in zip(started, said, strict=True)]


def stored(folder: Path) -> list[StoredRun]:
    return [StoredRun(each) for each in list_run_folders(folder / ".agentv")]


def query(url: str, text: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(text.encode()).fetchall()


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    return int(left.value.code or 0)


@pytest.mark.slow
def test_two_shards_share_one_rate_limit(tmp_path: Path) -> None:
    url, times = upgraded_database(), list[float]()
    with timed_server(times) as server:
        write_project(tmp_path, server, cases=40, requests_per_minute=240)
        shards = [["--shard", f"{number}/2", "--quota", url] for number in (1, 2)]
        for code, said in run_at_once(tmp_path, shards):
            assert code == 0, said
    assert len(times) == 40
    # At most two seconds' worth at once, then four a second for both together; a run alone does four a second itself.
    assert max(times) - min(times) >= (40 - 8) / 4 - 1
    leased = query(
        url, "SELECT sum(requests), count(DISTINCT holder), count(DISTINCT account) FROM agentv.quota_leases"
    )
    assert leased == [(40, 2, 1)], "what was not used is given back"


def test_two_shards_spend_one_budget_and_no_more(tmp_path: Path) -> None:
    url = upgraded_database()
    with timed_server([]) as server:
        write_project(tmp_path, server, cases=60, **PRICED)
        budget = ["--budget-usd", f"{COST * 20.5:.4f}", "--budget-name", "nightly", "--quota", url]
        ended = run_at_once(tmp_path, [["--shard", f"{number}/2", *budget] for number in (1, 2)])
    assert [code for code, _ in ended] == [2, 2], ended
    assert "of the budget 'nightly' of $" in ended[0][1]
    spent = sum(row.cost_usd or 0.0 for run in stored(tmp_path) for row in run.results())
    assert spent == pytest.approx(20 * COST)
    assert query(url, "SELECT sum(usd) FROM agentv.quota_leases")[0][0] == pytest.approx(spent)


def test_a_resumed_run_goes_on_with_the_shared_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = upgraded_database()
    monkeypatch.chdir(tmp_path)
    with timed_server([]) as server:
        write_project(tmp_path, server, cases=10, **PRICED)
        shared = ["--budget-name", "nightly", "--quota", url, "--display", "none"]
        assert call("run", "suite.yaml", "--budget-usd", f"{COST * 4.5:.4f}", *shared) == 2
        assert call("resume", "--display", "none") == 2, "nothing is left"
        assert len(list(stored(tmp_path)[0].results())) == 4
        assert call("resume", "--budget-usd", f"{COST * 7.5:.4f}", "--display", "none") == 2
        assert len(list(stored(tmp_path)[0].results())) == 7, "the budget is that of all runs of the name"
        assert call("resume", "--budget-usd", f"{COST * 20:.4f}", "--display", "none") == 0


@pytest.mark.slow
def test_calls_stop_while_the_database_is_gone_and_go_on_after(tmp_path: Path) -> None:
    times: list[float] = []
    with own_server() as database, timed_server(times) as server:
        write_project(tmp_path, server, cases=80, requests_per_minute=600)
        run = start(tmp_path, "--quota", upgraded_database(database))
        while len(times) < 20:
            assert run.poll() is None, run.communicate()
            wait_a_moment(0.02)
        database.stop()
        gone_at = time.monotonic()
        wait_a_moment(LEASE_S + 3.0)
        back_at = time.monotonic()
        database.start()
        said = run.communicate(timeout=60)[0]
    assert run.returncode == 0, said
    assert len(times) == 80
    assert not [each for each in times if gone_at + LEASE_S + 0.5 < each < back_at]
    (folder,) = list_run_folders(tmp_path / ".agentv")
    assert "no call is sent until it answers" in (folder / "events.jsonl").read_text()


def test_runs_from_python_share_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = upgraded_database()
    cases = [EvalCase(f"c{n}", (Message("user", "Say it again."),), expected_outcome="x") for n in range(3)]
    with timed_server([]) as server:
        settings = {"model": "fake", "base_url": f"{server.url}/v1", "api_key": KEY, **PRICED}
        codes = [
            evaluate(
                cases,
                target=TargetConfig("model", "openai", settings),
                evaluators=[EvaluatorConfig("said", "contains", {"value": "again"})],
                budget_usd=COST * 4.5,
                budget_name="notebook",
                quota=url,
            ).exit_code
            for _ in range(2)
        ]
        assert codes == [0, 2]
        assert len(server.calls) == 4


def test_a_key_is_not_in_the_database(tmp_path: Path) -> None:
    url = upgraded_database()
    with timed_server([]) as server:
        write_project(tmp_path, server, cases=1, requests_per_minute=600)
        assert call("run", str(tmp_path / "suite.yaml"), "--display", "none", "--quota", url) == 0
    ((account, holder),) = query(url, "SELECT account, holder FROM agentv.quota_leases")
    assert len(account) == 64
    assert KEY not in account + holder


def test_the_store_is_the_quota_of_a_target_with_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = upgraded_database()
    with timed_server([]) as server:
        write_project(tmp_path, server, cases=1)
        assert call("run", "suite.yaml", "--display", "none", "--store", url) == 0
        assert query(url, "SELECT count(*) FROM agentv.quota_leases") == [(0,)]
        (tmp_path / "targets.yaml").write_text(
            (tmp_path / "targets.yaml").read_text().replace('"workers"', '"tokens_per_minute": 9999, "workers"')
        )
        assert call("run", "suite.yaml", "--display", "none", "--store", url, "--quota", "none") == 0
        assert query(url, "SELECT count(*) FROM agentv.quota_leases") == [(0,)]
        assert call("run", "suite.yaml", "--display", "none", "--store", url) == 0
        assert query(url, "SELECT count(*) FROM agentv.quota_leases") == [(1,)]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--budget-usd", "1", "--budget-name", "x"], 4, "--budget-name needs a quota that all runs share"),
        (["--budget-name", "x", "--quota", "postgresql://h/d"], 4, "--budget-name needs a budget to share"),
        (["--quota", "mysql://h/d"], 4, "unknown store 'mysql'"),
        (["--quota", "nonsense"], 4, "expected a store URL"),
    ],
)
def test_a_quota_that_cannot_be_shared_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int, said: str
) -> None:
    with timed_server([]) as server:
        write_project(tmp_path, server, cases=1, **PRICED)
        assert call("run", str(tmp_path / "suite.yaml"), *options) == code
        assert said in capsys.readouterr().err
        assert server.calls == []


def test_a_database_without_the_tables_is_refused_before_it_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with timed_server([]) as server:
        write_project(tmp_path, server, cases=1, requests_per_minute=600)
        assert call("run", str(tmp_path / "suite.yaml"), "--quota", new_database()) == 3
        assert "agentv store upgrade" in capsys.readouterr().err
        assert server.calls == []
