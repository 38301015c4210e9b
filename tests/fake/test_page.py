"""The page about the fake server is up to date. `./run python tests/fake/test_page.py` writes its table of faults."""

import re
import subprocess
import sys
from pathlib import Path

from agentv.cli.tools.serve_fake import targets_yaml, welcome
from agentv.fake import FAULTS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "providers" / "fake-server.md"
URL = "http://127.0.0.1:8808"


def page_with_faults() -> str:
    rows = "\n".join(f"| `{name}` | {fault.summary} |" for name, fault in FAULTS.items())
    table = f"<!-- faults -->\n\n| name | effect |\n| --- | --- |\n{rows}\n\n<!-- end -->"
    return re.sub("<!-- faults -->.*?<!-- end -->", lambda _: table, PAGE.read_text("utf-8"), flags=re.DOTALL)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_it_lists_every_fault() -> None:
    assert PAGE.read_text("utf-8") == page_with_faults(), "run: ./run python tests/fake/test_page.py"


def test_it_shows_what_the_command_prints() -> None:
    head = welcome(URL).partition("\n\nAs targets.yaml")[0]
    indented = "\n".join(f"    {line}".rstrip() for line in head.splitlines())
    assert f"    $ agentv serve-fake\n{indented}\n\n" in PAGE.read_text("utf-8")
    assert blocks("yaml") == [targets_yaml(URL)]


def test_its_python_runs_and_prints_what_it_says() -> None:
    (code,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n")[:-1] == re.findall(r"print\(.*\)  # (.*)$", code, re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(page_with_faults(), "utf-8")
