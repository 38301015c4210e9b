"""The page on dependencies names each of them, and no other."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_page_gives_the_reason_for_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {re.split(r"[<>=~! ]", requirement)[0] for requirement in project["dependencies"]}
    rows = re.findall(r"^\| ([\w-]+) \| .+ \|", (ROOT / "docs" / "dependencies.md").read_text("utf-8"), re.MULTILINE)
    assert set(rows) - {"package", "---"} == needed
