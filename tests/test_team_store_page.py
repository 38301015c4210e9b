"""Every block of docs/how-to/team-store.md works, on a server of its own."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import yaml
from tests.support.postgres_server import new_database
from tests.test_readme import ROOT, TEAM_STORE, blocks_of, commands_of, environment, normalised

SHOWN = "postgresql://ann@db.example/evals"


def test_every_block_of_the_page_holds(tmp_path: Path) -> None:
    url = new_database()
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__", ".agentv"))
    (tmp_path / ".agentv").mkdir()
    env = {**environment(), "AGENTV_STORE": url, "PG_URL": url}
    seen: dict[str, int] = {}
    for block in blocks_of(TEAM_STORE):
        seen[block.language] = seen.get(block.language, 0) + 1
        match block.language:
            case "console":
                check_console(block.text, tmp_path, env, url)
            case "python":
                done = run([sys.executable, "-c", block.text], tmp_path, env)
                assert done.returncode == 0, done.stderr
                assert done.stdout.splitlines() == re.findall(r"^print\(.*\)  # (.*)$", block.text, re.MULTILINE)
            case "sql" if "GRANT" in block.text:
                pass  # tests/storage/postgres/test_rights.py grants these rights
            case "sql":
                with psycopg.connect(url) as connection:
                    assert connection.execute(block.text.encode()).fetchall()
            case "yaml":
                assert list(yaml.safe_load(block.text)) == ["store"]
    assert seen == {"console": 1, "yaml": 1, "sql": 4, "python": 2}


def check_console(text: str, folder: Path, env: dict[str, str], url: str) -> None:
    for command, code, expected in commands_of(text):
        done = run(["bash", "-c", command.removeprefix("./run ")], folder, env)
        assert done.returncode == code, f"{command}\n{done.stdout}{done.stderr}"
        if expected:
            said = normalised(done.stdout.replace(url, SHOWN), folder)
            assert said == normalised(expected, folder), command


def run(command: list[str], cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=100, check=False)
