"""Criteria judgements are stored in the team database."""

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.postgres_server import own_server, upgraded_database

from agentv import (
    AggregatedEvaluationResult,
    EvaluationInput,
    EvaluationRunConfig,
    EvaluationRunner,
    run_evaluation,
    run_evaluation_sync,
)
from agentv.storage.postgres.judgements import PostgresSettings, PostgresStorageProvider
from agentv.storage.records.json_line import decode
from agentv.types.errors import EvalFileError, StorageError


def config_for(url: str) -> EvaluationRunConfig:
    return EvaluationRunConfig(
        evaluators=[{"type": "contains", "value": "please", "criterion": "polite"}],
        criteria=[{"name": "polite"}],
        storage={"type": "postgres", "url": url},
    )


def judgements(url: str) -> list[AggregatedEvaluationResult]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT line FROM agentv.judgements ORDER BY id", binary=True).fetchall()
    return [AggregatedEvaluationResult.from_dict(decode(bytes(row[0]))) for row in rows]


def columns(url: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        query = (
            "SELECT agent_id, overall_score, verdict, scored, expected, run_errors FROM agentv.judgements ORDER BY id"
        )
        return connection.execute(query.encode()).fetchall()


def test_judgements_are_kept_with_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    url = upgraded_database()
    monkeypatch.setenv("PG_URL", url)
    config = config_for("${{ PG_URL }}")
    for text in ("Wait, please.", "Wait!"):
        result = run_evaluation_sync(EvaluationInput(text, agent_id="shop\0"), config)
        assert result.run_errors == ()
    assert [each.overall_score for each in judgements(url)] == [1.0, 0.0]
    assert columns(url) == [("shop�", 1.0, "pass", 1, 1, 0), ("shop�", 0.0, "fail", 1, 1, 0)]


def test_many_at_once_are_kept_once_each() -> None:
    url = upgraded_database()

    async def judge_all() -> None:
        async with EvaluationRunner(config_for(url)) as runner:
            await asyncio.gather(*(runner.run(EvaluationInput(f"{number} please")) for number in range(40)))

    asyncio.run(judge_all())
    assert len(judgements(url)) == 40


def test_a_database_that_is_gone_is_an_error_of_that_judgement_alone() -> None:
    async def judge(url: str) -> list[int]:
        config = config_for(url)
        errors = [len((await run_evaluation(EvaluationInput("please"), config)).run_errors)]
        server.stop()
        gone = await run_evaluation(EvaluationInput("please"), config)
        assert gone.overall_score == 1.0
        assert [error.kind for error in gone.run_errors] == ["store_error"]
        server.start()
        return [*errors, len((await run_evaluation(EvaluationInput("please"), config)).run_errors)]

    with own_server() as server:
        url = upgraded_database(server)
        assert asyncio.run(judge(url)) == [0, 0]
        assert len(judgements(url)) == 2


def test_the_url_is_in_no_snapshot_and_no_representation() -> None:
    url = upgraded_database().replace("postgres@", "postgres:s3cret-pw@")
    result = run_evaluation_sync(EvaluationInput("please"), config_for(url))
    assert result.run_errors == ()
    assert "s3cret-pw" not in repr(result) + repr(PostgresSettings(url=url)) + str(PostgresStorageProvider(url).url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://host", "postgresql://user@host/database, not mysql://"),
        ("${{ NO_SUCH_URL }}", "needs the environment variable NO_SUCH_URL"),
        ("${{ no name }}", "is not a valid reference"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_before_anything_runs(url: str, message: str) -> None:
    with pytest.raises(EvalFileError, match=message.replace("$", r"\$").replace("{", r"\{")):
        run_evaluation_sync(EvaluationInput("please"), config_for(url))


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=20), st.text(max_size=600), st.floats(0, 1))
def test_whatever_a_judgement_says_is_kept(text: str, agent: str, score: float) -> None:
    url = kept_url()
    now = datetime(2026, 1, 31, tzinfo=UTC)
    result = AggregatedEvaluationResult(score, (), 1, 1, now, EvaluationInput(text), agent_id=agent)
    provider = PostgresStorageProvider(url)
    asyncio.run(provider.save_result(result))
    provider.close()
    assert judgements(url)[-1].to_dict() == result.to_dict()


def test_without_tables_a_judgement_says_what_to_do() -> None:
    with own_server() as server:
        provider = PostgresStorageProvider(server.url())
        with pytest.raises(StorageError, match="agentv store upgrade"):
            asyncio.run(provider.save_result(RESULT))
        provider.close()


RESULT = AggregatedEvaluationResult(1.0, (), 1, 1, datetime(2026, 1, 31, tzinfo=UTC), EvaluationInput("x"))


@cache
def kept_url() -> str:
    """Return one database for all examples of a property."""
    return upgraded_database()


FORKS = """
import os, sys
from agentv import EvaluationRunConfig, run_evaluation_sync

config = EvaluationRunConfig(
    evaluators=[{"type": "contains", "value": "please"}], storage={"type": "postgres", "url": sys.argv[1]}
)

def judge(number):
    return len(run_evaluation_sync({"response": f"{number} please"}, config).run_errors)

errors = judge(0)
children = []
for child in range(3):
    children.append(os.fork())
    if not children[-1]:
        sys.exit(sum(judge(number) for number in range(20)))  # as a worker of a service ends
errors += sum(judge(number) for number in range(20))
print(errors, [os.waitpid(child, 0)[1] for child in children], judge(1))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_has_a_connection_of_its_own() -> None:
    url = upgraded_database()
    command = (sys.executable, "-c", FORKS, url)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "0 [0, 0, 0] 0", done.stderr[-2000:]
    assert len(judgements(url)) == 82
