"""`agentv store` and `agentv run --store`, as a user has them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.command_line import Call, command_line
from tests.support.postgres_server import new_database, own_server, upgraded_database
from tests.support.typing_terminal import Terminal

SUITE = """
evalcases:
{cases}
execution:
  evaluators: [{{name: done, type: contains, value: done}}]
"""
CASE = "  - {{id: case-{number}, expected_outcome: x, input_messages: [{{role: user, content: hi}}]}}"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".agentv").mkdir()
    write_suite(tmp_path, 3)
    write_target(tmp_path, "echo done")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AGENTV_STORE", raising=False)
    return tmp_path


def write_suite(project: Path, cases: int) -> None:
    listed = "\n".join(CASE.format(number=number) for number in range(cases))
    (project / "suite.yaml").write_text(SUITE.format(cases=listed))


def write_target(project: Path, command: str) -> None:
    target = {"name": "agent", "provider": "cli", "command_template": command, "workers": 1}
    (project / "targets.yaml").write_text(json.dumps({"targets": [target]}))


@pytest.fixture
def call(project: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    assert project.exists()
    return command_line(capsys)


def rows(url: str, table: str = "results") -> list[Any]:
    with psycopg.connect(url) as connection:
        return connection.execute(f"SELECT * FROM agentv.{table}".encode()).fetchall()


def test_a_run_is_kept_here_and_there(call: Call, project: Path) -> None:
    url = upgraded_database()
    code, _, _ = call("run", "suite.yaml", "--store", url)
    assert code == 0
    assert len(rows(url)) == len(rows(url, "answers")) == len(rows(url, "cases")) == 3
    code, out, _ = call("store", "list", "--store", url)
    assert out.split()[1] == "finished"
    code, out, _ = call("store", "push", "latest", "--store", url)
    assert "already there" in out
    assert next((project / ".agentv" / "runs").iterdir()).name in out


def test_a_run_goes_to_another_machine_and_is_shown_there(call: Call, project: Path, monkeypatch: Any) -> None:
    url = upgraded_database()
    call("run", "suite.yaml", "--name", "nightly")
    code, out, _ = call("store", "push", "latest", "--store", url)
    assert (code, "lines pushed" in out) == (0, True)
    (project / "colleague" / ".agentv").mkdir(parents=True)
    monkeypatch.chdir(project / "colleague")
    monkeypatch.setenv("AGENTV_STORE", url)
    code, out, _ = call("store", "pull", "nightly")
    assert (code, "lines pulled into" in out) == (0, True)
    code, out, _ = call("show", "latest", "case-1")
    assert (code, "done" in out) == (0, True)
    code, out, _ = call("store", "pull", "latest", "--json")
    output = json.loads(out)
    assert (output["schema"], output["lines"]) == ("agentv-store-1", 0)


def test_a_run_that_goes_on_is_kept_there_too(call: Call, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = upgraded_database()
    call("run", "suite.yaml", "--store", url)
    monkeypatch.setenv("AGENTV_STORE", url)
    write_suite(project, 5)
    assert call("resume", "latest")[0] == 0
    assert len(rows(url)) == 5
    assert len(rows(url, "runs")) == 1


def test_a_run_that_goes_on_knows_the_store_that_it_began_in(call: Call, project: Path) -> None:
    url, other = upgraded_database(), upgraded_database()
    with_password = url.replace("postgres@", "postgres:s3cret-of-ann@")
    assert call("run", "suite.yaml", "--store", with_password)[0] == 0
    (project / ".agentv.yaml").write_text(f"store: {other}\n")
    write_suite(project, 5)
    assert call("resume", "latest")[0] == 0
    assert (len(rows(url)), len(rows(other, "runs"))) == (5, 0)
    assert call("retry", "latest", "--case", "case-1")[0] == 0
    assert call("rescore", "latest")[0] == 0
    assert len(rows(url)) == 6
    assert call("store", "push", "latest", "--store", url)[1].endswith("already there\n")
    write_suite(project, 7)
    assert call("resume", "latest", "--store", "none")[0] == 0
    assert len(rows(url)) == 6
    run = next((project / ".agentv" / "runs").iterdir())
    assert "s3cret" not in "".join(path.read_text() for path in run.iterdir() if path.is_file())


def test_a_run_that_was_kept_here_alone_stays_here(call: Call, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = upgraded_database()
    monkeypatch.setenv("AGENTV_STORE", url)
    assert call("run", "suite.yaml", "--store", "none")[0] == 0
    write_suite(project, 5)
    assert call("resume", "latest")[0] == 0
    assert rows(url, "runs") == []
    assert call("resume", "latest", "--store", url)[0] == 0
    assert len(rows(url)) == 5


def test_the_password_of_a_resumed_run_comes_from_the_configured_url(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = upgraded_database()
    database = url.partition("@/")[2].partition("?")[0]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE ann_of_{database} SUPERUSER LOGIN".encode())
        assert call("run", "suite.yaml", "--store", url.replace("postgres@", f"ann_of_{database}@"))[0] == 0
        # The server of the tests wants no password: who is unknown fares as one without.
        connection.execute(f"DROP ROLE ann_of_{database}".encode())
    write_suite(project, 5)
    code, _, err = call("resume", "latest")
    assert (code, "set PGPASSWORD, or set AGENTV_STORE to the complete URL" in err) == (3, True), err
    assert len(rows(url)) == 3
    monkeypatch.setenv("AGENTV_STORE", url.replace("postgres@", "postgres:s3cret-of-ann@"))
    assert call("resume", "latest")[0] == 0
    assert len(rows(url)) == 5


def test_the_parts_that_were_shared_make_a_whole_that_is_shared(call: Call, project: Path) -> None:
    url = upgraded_database()
    for part in ("1/2", "2/2"):
        assert call("run", "suite.yaml", "--shard", part, "--store", url)[0] == 0
    assert call("merge", "latest", "latest~1")[0] == 0
    assert len(rows(url, "runs")) == 2
    assert call("merge", "latest~1", "latest~2", "--store", url)[0] == 0
    assert len(rows(url, "runs")) == 3
    assert len(rows(url)) == 6
    assert project.exists()


@pytest.mark.parametrize("how", ["option", "environment", "project"])
def test_a_target_that_prints_its_environment_does_not_tell_the_password(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    secret = "s3cret-of-ann"
    url = upgraded_database().replace("postgres@", f"postgres:{secret}@")
    (project / "password").write_text(secret)
    write_target(project, "sh -c 'env; cat password; echo; cat password >&2; echo done'")
    judge = "import json, os; print(json.dumps({'score': 1, 'reasoning': f'{os.environ}' + open('password').read()}))"
    (project / "judge.py").write_text(judge)
    suite = (project / "suite.yaml").read_text()
    judged = f"[{{name: prints, type: code_judge, script: [{sys.executable}, judge.py]}}, "
    (project / "suite.yaml").write_text(suite.replace("[{name: done", f"{judged}{{name: done"))
    more = ["--store", url] if how == "option" else []
    if how == "environment":
        monkeypatch.setenv("AGENTV_STORE", url)
    if how == "project":
        monkeypatch.setenv("PW_OF_ANN", secret)
        (project / ".agentv.yaml").write_text(f"store: {url.replace(secret, '${{ PW_OF_ANN }}')}\n")
    said = [call("run", "suite.yaml", *more, "-v", "--log-file", "log", "-o", "rows.jsonl", "--display", "json")]
    said += [call("show", "latest", "case-1"), call("resume", "latest", "--display", "json")]
    assert [code for code, _, _ in said] == [0, 0, 0]
    assert not [text for _, out, err in said for text in (out, err) if secret in text]
    files = [path for path in project.rglob("*") if path.is_file() and path.name != "password"]
    assert not [path for path in files if secret.encode() in path.read_bytes()]
    kept = b"".join(bytes(row[2]) for table in ("answers", "results") for row in rows(url, table))
    assert (secret.encode() in kept, b"***" in kept) == (False, True)


def test_upgrade_says_what_it_did(call: Call) -> None:
    url = new_database()
    code, _, err = call("run", "suite.yaml", "--store", url)
    assert (code, "agentv store upgrade" in err) == (3, True)
    assert call("store", "upgrade", url)[1].endswith(
        "upgraded with 0001_runs, 0002_judgements, 0003_prompts, 0004_judgement_configs, "
        "0005_unique_results, 0006_quota_leases, 0007_repeated_results, 0008_first_answers, "
        "0009_append_only, 0010_started_at, 0011_reviews (version 11)\n"
    )
    assert json.loads(call("store", "upgrade", url, "--json")[1])["applied"] == []


def test_the_url_comes_from_option_then_environment_then_project(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [upgraded_database() for _ in range(3)]
    (project / ".agentv.yaml").write_text("store: ${{ TEAM_DB }}\n")
    monkeypatch.setenv("TEAM_DB", urls[2])
    call("run", "suite.yaml")
    assert [len(rows(url)) for url in urls] == [0, 0, 3]
    (project / ".env").write_text(f"AGENTV_STORE={urls[1]}\n")
    call("run", "suite.yaml")
    assert [len(rows(url)) for url in urls] == [0, 3, 3]
    call("run", "suite.yaml", "--store", urls[0])
    assert [len(rows(url)) for url in urls] == [3, 3, 3]
    call("run", "suite.yaml", "--store", "none")
    assert [len(rows(url)) for url in urls] == [3, 3, 3]
    assert len(list((project / ".agentv" / "runs").iterdir())) == 4


def test_a_variable_that_is_not_set_is_named(call: Call, project: Path) -> None:
    (project / ".agentv.yaml").write_text("store: postgresql://ann:${{ NO_SUCH_PASSWORD }}@db/evals\n")
    code, _, err = call("run", "suite.yaml")
    assert code == 4
    assert "needs the environment variable NO_SUCH_PASSWORD" in err
    assert call("check", "suite.yaml")[0] == 0


def test_a_missing_store_url_is_reported(call: Call) -> None:
    code, _, err = call("store", "list")
    assert (code, "no store is configured" in err) == (4, True)


def test_a_store_url_without_a_store_for_runs_behind_it_is_reported_without_its_password(call: Call) -> None:
    code, _, err = call("store", "list", "--store", "mysql://ann:secret-pw@host/db")
    assert (code, "unknown store 'mysql'" in err, "postgres" in err) == (4, True, True)
    assert "secret-pw" not in err
    code, _, err = call("run", "suite.yaml", "--store", "json_file://ann:secret-pw@host/db")
    assert (code, "store 'json_file' is for judgements, not for runs; stores for runs: postgres" in err) == (4, True)
    assert "secret-pw" not in err


COPIES = """
import shutil
from pathlib import Path

from agentv import store


class CopiedRun:
    def __init__(self, run, place):
        self.run, self.place = run, place

    def __getattr__(self, name):
        return getattr(self.run, name)

    def close(self, state):
        self.run.close(state)
        shutil.copytree(self.run.folder, self.place / self.run.run_id, dirs_exist_ok=True)


@store("copies")
class Copies:
    def __init__(self, url):
        self.place = Path(url.removeprefix("copies://").replace("ann:secret-pw@", ""))

    def share_run(self, open_folder):
        self.place.mkdir(exist_ok=True)
        return CopiedRun(open_folder(), self.place)
"""


def test_a_run_is_shared_in_the_store_of_a_plugin_and_continues_there(call: Call, project: Path) -> None:
    (project / "copies.py").write_text(COPIES)
    (project / ".agentv.yaml").write_text("plugins: [copies.py]\n")
    code, _, err = call("run", "suite.yaml", "--store", "copies://ann:secret-pw@shared")
    assert (code, "secret-pw" in err) == (0, False)
    (copy,) = (project / "shared").iterdir()
    assert len((copy / "results.jsonl").read_text().splitlines()) == 3
    assert "secret-pw" not in (copy / "run.json").read_text()
    write_suite(project, 5)
    code, _, err = call("resume", "latest")
    assert (code, len((project / "ann@shared" / copy.name / "results.jsonl").read_text().splitlines())) == (0, 5)
    code, _, err = call("store", "list", "--store", "copies://shared")
    assert (code, "this store only receives runs as they are executed" in err) == (4, True)


def test_a_password_is_neither_printed_nor_stored(call: Call, project: Path) -> None:
    secret = "s3cret-of-ann"  # the packaged server asks for none, and takes any
    url = upgraded_database().replace("postgres@", f"postgres:{secret}@")
    said = [call("run", "suite.yaml", "--store", url, "-v", "--log-file", "log.jsonl")]
    said += [call("store", name, *more, "--store", url) for name, *more in (("list", "--json"), ("push", "latest"))]
    said += [call("store", "pull", "latest", "--store", url, "--json"), call("store", "upgrade", url)]
    said.append(call("store", "list", "--store", url.replace("/test_", "/no_such_")))
    assert [code for code, _, _ in said] == [0, 0, 0, 0, 0, 3]
    assert not [text for _, out, err in said for text in (out, err) if secret in text]
    files = [path for path in project.rglob("*") if path.is_file()]
    assert not [path for path in files if secret.encode() in path.read_bytes()]
    assert secret.encode() not in b"".join(bytes(row[1]) for row in rows(url, "runs"))


def test_a_run_outlives_the_server_that_its_target_kills(call: Call, project: Path) -> None:
    with own_server() as server:
        url = upgraded_database(server)
        write_suite(project, 40)
        write_target(project, f"sh -c 'test {{EVAL_ID}} != case-20 || kill -QUIT {server.pid}; echo done'")
        code, out, err = call("run", "suite.yaml", "--store", url, "--display", "plain")
        assert code == 0
        output = out + err
        assert "The run continues; its folder has every result" in output
        assert "push the rest: agentv store push" in output
        server.stop()
        server.start()
        assert len(rows(url)) < 40
        assert call("store", "push", "latest", "--store", url)[0] == 0
        assert len(rows(url)) == 40
        (row,) = rows(url, "runs")
        assert "finished" in row


def test_without_psycopg_the_extra_is_named_before_the_run(project: Path) -> None:
    hidden = project / "hidden" / "psycopg.py"
    hidden.parent.mkdir()
    hidden.write_text("raise ImportError('hidden')")
    env = {**os.environ, "PYTHONPATH": str(hidden.parent)}
    command = [sys.executable, "-m", "agentv", "run", "suite.yaml", "--store", "postgresql://host/db"]
    ran = subprocess.run(command, env=env, cwd=project, capture_output=True, text=True, check=False)
    assert (ran.returncode, "pip install 'agentv[postgres]'" in ran.stderr) == (4, True)
    assert not (project / ".agentv" / "runs").exists()


def test_runs_are_deleted_from_the_database_and_their_folders_stay(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = upgraded_database()
    monkeypatch.setenv("AGENTV_STORE", url)
    for name in ("first", "second", "third"):
        call("run", "suite.yaml", "--name", name)
    code, out, _ = call("store", "rm", "first", "latest", "latest")
    assert (code, "deleted 2 runs from postgresql://" in out) == (0, True)
    assert (len(rows(url, "runs")), len(rows(url))) == (1, 3)
    code, out, _ = call("store", "rm", "second", "--json")
    output = json.loads(out)
    assert (code, output["schema"], len(output["deleted"])) == (0, "agentv-store-1", 1)
    code, _, err = call("store", "rm", "second")
    assert (code, "has no run 'second'; it has no runs yet" in err) == (4, True)
    assert len(list((project / ".agentv" / "runs").iterdir())) == 3


def test_on_a_terminal_a_deletion_needs_confirmation(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = upgraded_database()
    call("run", "suite.yaml", "--store", url)
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert call("store", "rm", "latest", "--store", url)[0] != 0
    assert len(rows(url, "runs")) == 1
    monkeypatch.setattr("sys.stdin", Terminal(""))
    assert call("store", "rm", "latest", "--store", url, "--yes")[0] == 0
    assert (len(rows(url, "runs")), project.exists()) == (0, True)


def test_a_run_id_that_would_act_upon_the_terminal_is_shown_and_does_not(call: Call, project: Path) -> None:
    url = upgraded_database()
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO agentv.runs (run_id, record) VALUES (%s, '')", ["run\x1b[31m-evil"])
    said = [call("store", *command, "--store", url) for command in (("list",), ("rm", "latest"))]
    assert [code for code, _, _ in said] == [0, 0]
    assert "\x1b" not in "".join(out + err for _, out, err in said)
    assert (rows(url, "runs"), project.exists()) == ([], True)
