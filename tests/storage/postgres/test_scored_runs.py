"""Runs of `agentv score` in the team database."""

import json
from pathlib import Path

import pytest
from tests.support.postgres_server import upgraded_database

from agentv.cli.main import main
from agentv.storage.run.find import list_run_folders
from agentv.storage.run.stored import StoredRun


def test_a_scored_run_is_pulled_as_it_was_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = upgraded_database()
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judges.yaml").write_text("evaluators: [{type: contains, name: polite, value: please}]\ngates: []\n")
    lines = [{"id": f"{n}", "sessionId": "s", "prompt": "Where?", "response": "Wait, please."} for n in range(3)]
    (tmp_path / "v1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for arguments in (
        ["score", "v1.jsonl", "--config", "judges.yaml", "--store", url],
        ["runs", "rm", "latest", "--yes"],
    ):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code in (None, 0)
    assert list_run_folders(tmp_path / ".agentv") == ()
    with pytest.raises(SystemExit) as left:
        main(["store", "pull", "latest", "--store", url])
    assert left.value.code in (None, 0)
    (folder,) = list_run_folders(tmp_path / ".agentv")
    run = StoredRun(folder)
    assert [(row.session_id, row.score) for row in run.results()] == [("s", 1.0)] * 3
    assert sorted(answer.origin.line for answer in run.answers() if answer.origin is not None) == [1, 2, 3]
