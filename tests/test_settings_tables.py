"""The tables of settings in docs/ match the code. `./run python tests/test_settings_tables.py` writes them."""

import re
from collections.abc import Mapping
from pathlib import Path

import agentv
from agentv.cli.tools.plugins import describe
from agentv.engine.plugins.loading import load_specs
from agentv.evaluators.judges.settings import READY_MADE
from agentv.registry import Registry, Spec

DOCS = Path(__file__).parent.parent / "docs"
REFERENCE = DOCS / "reference"
SAME_SETTINGS = {
    "vscode-insiders": "vscode",
    **dict.fromkeys(READY_MADE, "faithfulness"),
}


def table_of(spec: Spec) -> str:
    about = describe(spec)
    names = " or ".join(f"`{name}`" for name in (about["name"], *about["aliases"]))
    texts = ([row["type"], row["default"], row["help"]] for row in about["settings"])
    cells = (" | ".join(cell.replace("|", r"\|") for cell in row) for row in texts)
    rows = [f"| `{row['name']}` | {rest} |" for row, rest in zip(about["settings"], cells, strict=True)]
    head = ["", "| key | value | default | meaning |", "| --- | --- | --- | --- |"] if rows else []
    return "\n".join([f"**{names}**: {about['summary']}", *head, *rows])


def page_of(spec: Spec) -> str:
    """Return the link, from docs/reference/, to the one page that has the settings of a plug-in."""
    mark = f"<!-- settings: {SAME_SETTINGS.get(spec.name, spec.name)} -->"
    (page,) = [path for path in DOCS.rglob("*.md") for _ in range(path.read_text("utf-8").count(mark))]
    return str(page.relative_to(REFERENCE))


def overview_of(registry: Registry) -> str:
    """Return one line a plug-in: its name, with a link to its page, and its summary."""
    rows = [f"| [`{spec.name}`]({page_of(spec)}) | {spec.summary} |" for spec in registry]
    return "\n".join(["| name | what it is |", "| --- | --- |", *rows])


def page_with(text: str, tables: Mapping[str, str]) -> str:
    """Replace each table between its marks, `<!-- settings: NAME -->` and `<!-- end -->`."""
    for name, table in tables.items():
        start, end = f"<!-- settings: {name} -->", "<!-- end -->"
        text = re.sub(f"{start}.*?{end}", lambda _: f"{start}\n\n{table}\n\n{end}", text, flags=re.DOTALL)  # noqa: B023 - called at once
    return text


def pages() -> dict[Path, str]:
    specs = load_specs()
    tables = {spec.name: table_of(spec) for registry in (specs.providers, specs.evaluators) for spec in registry}
    tables["providers"] = overview_of(specs.providers)
    return {path: page_with(path.read_text("utf-8"), tables) for path in DOCS.rglob("*.md")}


def test_the_pages_hold_the_settings_of_every_plugin() -> None:
    for path, expected in pages().items():
        assert path.read_text("utf-8") == expected, "run: ./run python tests/test_settings_tables.py"


def test_every_plugin_has_its_settings_on_one_page_to_which_the_overview_links() -> None:
    specs = load_specs()
    for registry, overview in ((specs.providers, "targets.md"), (specs.evaluators, "evaluators.md")):
        text = (REFERENCE / overview).read_text("utf-8")
        assert [spec.name for spec in registry if f"`{spec.name}`" not in text or page_of(spec) not in text] == []


def test_every_summary_is_a_phrase_and_no_sentence() -> None:
    specs = load_specs()
    summaries = [spec.summary for registry in (specs.evaluators, specs.providers) for spec in registry]
    assert [summary for summary in summaries if summary[0].isupper() or summary.endswith(".")] == []


def test_every_setting_says_what_it_is() -> None:
    specs = load_specs()
    silent = [
        f"{spec.name}.{row['name']}"
        for registry in (specs.evaluators, specs.providers)
        for spec in registry
        for row in describe(spec)["settings"]
        if not row["help"]
    ]
    assert silent == []


def test_the_python_page_names_everything_public() -> None:
    page = (REFERENCE / "python-api.md").read_text("utf-8")
    assert [name for name in agentv.__all__ if f"`{name}`" not in page and name != "__version__"] == []


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, "utf-8")
