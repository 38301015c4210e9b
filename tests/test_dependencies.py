"""The page on dependencies names every dependency, and no other."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "explanation" / "dependencies.md").read_text("utf-8")


def test_the_page_gives_the_reason_for_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {re.split(r"[<>=~! ]", requirement)[0] for requirement in project["dependencies"]}
    rows = re.findall(r"^\| ([\w-]+) \| .+ \|", PAGE, re.MULTILINE)
    assert set(rows) - {"package", "---"} == needed


def test_the_page_and_the_code_know_every_extra_and_no_other() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    names = set(extras) - {"all"}
    code = "".join(path.read_text("utf-8") for path in (ROOT / "src" / "agentv").rglob("*.py"))
    assert {name for name in names if f'"{name}"' in code} == names
    assert set(re.findall(r"agentv\[(\w+)\]", PAGE)) == names
