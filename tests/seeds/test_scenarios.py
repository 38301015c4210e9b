"""The list of what was ordered is complete, and what it says about our tests is true."""

import ast
import hashlib
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent
SCENARIOS: Mapping[str, Mapping[str, Mapping[str, str]]] = tomllib.loads(
    HERE.joinpath("scenarios.toml").read_text("utf-8")
)
# SHA-256 over the titles of each document as it was ordered, one a line: none can leave the list, and none slip in.
DIGESTS = {
    "evaluation.md": "3085e00c7773a9910a7a8cffda7b4caa8682c959a4419badaf2f6af247868c64",
    "evaluator-api.md": "17d37b5ecdfcdf2bef102b26a6445d1450ad07bfa64fbb23d94e01de25c47979",
    "prompt-evaluator.md": "2e6072e00dce383f433bf0f4d0c775291f8dc10a8377985be5a2f985faede58e",
    "evaluation-framework-prd.md": "b3ca8b307d2d239ff61d0ae94d766fe224364424fa7e662d8a998e30879d8196",
}
LATER_PARTS = {
    "runs that survive",
    "numbers one can act on",
    "telemetry",
    "viewer",
    "benchmark suite",
}


class Pinned(NamedTuple):
    document: str
    title: str
    file: Path
    function: str


def pinned() -> Iterator[Pinned]:
    for document, titles in SCENARIOS.items():
        for title, entry in titles.items():
            if reference := entry.get("test"):
                file, _, function = reference.partition("::")
                yield Pinned(document, title, (HERE / file).resolve(), function)


@cache
def functions_in(path: Path) -> frozenset[str]:
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text("utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def name_for(title: str) -> str:
    return "test_" + re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")


def digest(titles: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(titles).encode()).hexdigest()


COVERAGE = HERE / "COVERAGE.md"


def coverage() -> str:
    """Return the list for people: every scenario and requirement, and what holds it."""
    lines = ["# What was ordered, and what holds it", ""]
    lines += ["Made from `scenarios.toml` by `./run python tests/seeds/test_scenarios.py`.", ""]
    for document, titles in SCENARIOS.items():
        lines += [f"## {document}", "", "| title | held by |", "| --- | --- |"]
        lines += [f"| {title} | {_held_by(entry)} |" for title, entry in titles.items()]
        lines.append("")
    return "\n".join(lines)


def _held_by(entry: Mapping[str, str]) -> str:
    if "test" in entry:
        return f"`{entry['test']}`"
    return f"later: {entry['later']}" if "later" in entry else f"does not apply: {entry['not_applicable']}"


def test_the_list_for_people_is_the_list() -> None:
    assert COVERAGE.read_text("utf-8") == coverage(), "run: ./run python tests/seeds/test_scenarios.py"


def test_every_document_has_all_its_titles_in_their_order() -> None:
    assert {document: digest(titles) for document, titles in SCENARIOS.items()} == DIGESTS


def test_every_title_says_one_thing() -> None:
    for titles in SCENARIOS.values():
        for title, entry in titles.items():
            assert len(entry) == 1, title
            assert set(entry) <= {"test", "later", "not_applicable"}, title
            assert entry.get("later", "viewer") in LATER_PARTS, title


def test_every_test_that_is_named_exists() -> None:
    missing = [row for row in pinned() if row.function not in functions_in(row.file)]
    assert missing == []


def test_a_scenario_and_its_test_bear_the_same_name() -> None:
    scenarios = [row for row in pinned() if row.document != "evaluation-framework-prd.md"]
    assert [row for row in scenarios if row.function != name_for(row.title)] == []


def titles_of(document: Path) -> list[str]:
    """Titles as they stand in a seed: scenarios, or the requirements and phase items of the PRD."""
    text = document.read_text("utf-8")
    if document.name != "evaluation-framework-prd.md":
        return re.findall(r"^#### Scenario: (.*?) *$", text, re.MULTILINE)
    requirements = re.findall(r"^ *\* +\*\*(N?FR[\d.]+[^*]*?):?\*\*", text, re.MULTILINE)
    phases = text[text.index("\n## 7.") :]
    return requirements + re.findall(r"^(?:\*|\d+\.) +\S+ \*\*(.+?):\*\*", phases, re.MULTILINE)


@pytest.mark.skipif("AGENTV_SEEDS" not in os.environ, reason="AGENTV_SEEDS names the folder of the seed documents")
@pytest.mark.parametrize("document", DIGESTS)
def test_the_list_and_the_document_hold_the_same_titles(document: str) -> None:
    assert titles_of(Path(os.environ["AGENTV_SEEDS"]) / document) == list(SCENARIOS[document])


if __name__ == "__main__":
    COVERAGE.write_text(coverage(), "utf-8")
