"""`evaluate(..., store=URL)`: a run from Python is shared like one from the command line."""

from pathlib import Path

import psycopg
import pytest
from tests.support.postgres_server import upgraded_database

from agentv import ConfigError, EvalCase, EvaluatorConfig, Message, StorageError, evaluate

SUM = EvalCase("sum", (Message("user", "2 + 2?"),))
FOUR = EvaluatorConfig("four", "contains", {"value": "4"})


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".agentv").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AGENTV_STORE", raising=False)
    return tmp_path


def count(url: str) -> int:
    with psycopg.connect(url) as connection:
        return len(connection.execute("SELECT FROM agentv.results").fetchall())


def test_cases_given_as_objects_are_shared_and_kept_in_a_folder(project: Path) -> None:
    url = upgraded_database()
    report = evaluate([SUM], task=lambda _request: "4", evaluators=[FOUR], store=url)
    assert (report.exit_code, count(url)) == (0, 1)
    assert len(list((project / ".agentv" / "runs").iterdir())) == 1


def test_no_variable_makes_a_call_of_the_library_share(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = upgraded_database()
    monkeypatch.setenv("AGENTV_STORE", url)
    evaluate([SUM], task=lambda _request: "4", evaluators=[FOUR], folder=project / ".agentv")
    evaluate([SUM], task=lambda _request: "4", evaluators=[FOUR], store="none")
    assert count(url) == 0


@pytest.mark.parametrize(
    ("store", "error", "message"),
    [
        ("mysql://ann:s3cret-pw@db/evals", ConfigError, "unknown store 'mysql'; known: json_file, postgres"),
        ("postgresql://ann:s3cret-pw@127.0.0.1:1/evals", StorageError, "cannot be reached"),
    ],
)
def test_an_unusable_store_is_rejected_before_any_call(
    project: Path, store: str, error: type[Exception], message: str
) -> None:
    calls: list[object] = []
    with pytest.raises(error, match=message) as refused:
        evaluate([SUM], task=calls.append, evaluators=[FOUR], store=store)
    assert (calls, "s3cret" in str(refused.value)) == ([], False)
    assert not (project / ".agentv" / "runs").exists()
