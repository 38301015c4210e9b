"""The examples on the model APIs' pages are targets files that can be used, and their links lead somewhere."""

import re
from pathlib import Path

import pytest

from agentv.engine.plugins.loading import load_specs
from agentv.loading.targets.targets import load_targets, resolve_target

FOLDER = Path(__file__).parents[2] / "docs" / "reference" / "providers"
PAGES = [FOLDER / f"{name}.md" for name in ("model-apis", "openai", "azure", "anthropic", "gemini")]
BLOCK = re.compile(r"^```yaml targets\.yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pages
def test_its_targets_can_be_used(page: Path, tmp_path: Path) -> None:
    specs = load_specs()
    assert BLOCK.search(page.read_text("utf-8"))
    for text in BLOCK.findall(page.read_text("utf-8")):
        (tmp_path / "targets.yaml").write_text(text, "utf-8")
        targets = load_targets(tmp_path / "targets.yaml", specs=specs)
        env = dict.fromkeys(re.findall(r"\$\{\{ (\w+) \}\}", text), "https://shop.example")
        assert [resolve_target(target, env=env, specs=specs).name for target in targets]


@pages
def test_its_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
