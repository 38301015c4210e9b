"""A database that accepts connections and answers no statement is an error after its connect_timeout."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.support.hanging_postgres import hanging_postgres
from tests.support.postgres_server import upgraded_database

from agentv import EvaluationInput, EvaluationRunConfig, EvaluationRunError, run_evaluation
from agentv.storage.postgres.quotas import PostgresQuota
from agentv.storage.postgres.store import MirroredRun, PostgresStore
from agentv.storage.run.folder import RunFolder
from agentv.templating.store_url import parse_store_url
from agentv.types.errors import QuotaError, StorageError
from agentv.types.protocols import QuotaLimits, QuotaRequest

NO_ANSWER = r"the store postgresql://ann@127\.0\.0\.1:\d+/evals does not answer within 2 s"


@pytest.fixture
def url() -> Iterator[str]:
    with hanging_postgres() as text:
        yield text


def config(url: str) -> EvaluationRunConfig:
    return EvaluationRunConfig(
        evaluators=[{"type": "contains", "value": "please", "criterion": "polite"}],
        criteria=[{"name": "polite"}],
        storage={"type": "postgres", "url": url},
    )


def test_a_run_is_refused_before_it_has_a_folder(url: str) -> None:
    def open_folder() -> RunFolder:
        raise AssertionError("the folder was opened")

    with pytest.raises(StorageError, match=NO_ANSWER):
        MirroredRun(parse_store_url(url), open_folder)


def test_a_command_that_reads_runs_ends_with_the_error(url: str) -> None:
    with pytest.raises(StorageError, match=NO_ANSWER), PostgresStore(parse_store_url(url)).opened():
        raise AssertionError("the store was opened")


@pytest.mark.parametrize("given", ["", "&connect_timeout=0", "&connect_timeout=10"])
def test_a_server_that_answers_is_read_with_any_timeout(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "10")
    with PostgresStore(parse_store_url(upgraded_database() + given)).opened() as runs:
        assert runs.list() == ()


def test_a_quota_is_refused_before_the_first_call(url: str) -> None:
    with pytest.raises(StorageError, match=NO_ANSWER):
        PostgresQuota(parse_store_url(url)).check()


def test_an_exchange_ends(url: str) -> None:
    request = QuotaRequest(account="a", holder="h", lease="l", limits=QuotaLimits(requests=60))
    with pytest.raises(QuotaError, match="does not answer within 2 s"):
        asyncio.run(PostgresQuota(parse_store_url(url)).exchange(request))


def test_a_judgement_is_returned_with_the_error_while_other_threads_go_on(url: str) -> None:
    async def judge() -> list[EvaluationRunError]:
        results = asyncio.gather(*(run_evaluation(EvaluationInput("Wait, please."), config(url)) for _ in range(40)))
        assert await asyncio.to_thread(lambda: "free") == "free"
        return [error for result in await results for error in result.run_errors]

    errors = asyncio.run(judge())
    assert {error.kind for error in errors} == {"store_error"}
    assert len(errors) == 40
    assert "s3cret" not in str(errors)


PROGRAM = """
import sys
from tests.storage.postgres.test_hanging_server import config
from agentv import EvaluationInput, run_evaluation_sync
print(run_evaluation_sync(EvaluationInput("Wait, please."), config(sys.argv[1])).run_errors[0].kind)
"""


def test_a_program_that_judged_ends(url: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, url], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "store_error\n"), done.stderr
