"""Every targets file on a page can be loaded unchanged."""

import re
from pathlib import Path

import pytest

from agentv import load_targets

DOCS = Path(__file__).parent.parent / "docs"
INSTALLS_ITS_OWN = DOCS / "how-to" / "extending.md"
BLOCKS = [
    pytest.param(block, id=f"{path.relative_to(DOCS)}:{number}")
    for path in sorted(DOCS.rglob("*.md"))
    if path != INSTALLS_ITS_OWN
    for number, block in enumerate(re.findall(r"```yaml[^\n]*\n(targets:.*?)```", path.read_text("utf-8"), re.DOTALL))
    if "cases:" not in block  # an eval file, which may begin with its targets
]


def test_the_pages_show_targets() -> None:
    assert len(BLOCKS) > 10


@pytest.mark.parametrize("block", BLOCKS)
def test_a_targets_file_on_a_page_loads(block: str, tmp_path: Path) -> None:
    path = tmp_path / "targets.yaml"
    path.write_text(block, "utf-8")
    assert load_targets(path)
