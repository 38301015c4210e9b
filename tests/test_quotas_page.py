"""Every block of docs/how-to/quotas.md works, on a server of its own."""

from pathlib import Path

import psycopg
from tests.support.postgres_server import new_database
from tests.test_readme import QUOTAS, blocks_of, environment
from tests.test_team_store_page import check_console


def test_every_block_of_the_page_holds(tmp_path: Path) -> None:
    url = new_database()
    (tmp_path / ".git").mkdir()
    env = {**environment(), "AGENTV_STORE": url}
    blocks = blocks_of(QUOTAS)
    for block in blocks:
        if block.file:
            path = tmp_path / block.file
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text)
    for block in blocks:
        if block.language == "console":
            check_console(block.text, tmp_path, env, url)
        elif block.language == "sql":
            with psycopg.connect(url) as connection:
                assert connection.execute(block.text.encode()).fetchall()
    assert [block.language for block in blocks] == ["console", "python", "yaml", "yaml", "console", "sql"]
