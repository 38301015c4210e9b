"""docs/architecture.md names every package, the layers of pyproject.toml, and only files and functions that exist."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "agentv"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
FENCE = re.compile(r"^```plaintext\n(.*?)^```", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`]+)`")
PATH = re.compile(r"[\w.-]+(/[\w.-]+)*(/|\.(py|md|toml))")
NAME = re.compile(r"[A-Za-z_]\w*(\.[a-z_]\w*)*")
LAYERS, TREE = FENCE.findall(PAGE)


def packages() -> set[str]:
    found = {path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("__init__.py")}
    return {each for each in found if each != "." and not each.startswith("cli/templates")}


def tree_paths() -> Iterator[str]:
    """Yield the paths of the tree's lines, relative to src/agentv."""
    parents: list[str] = []
    for line in TREE.splitlines()[1:]:
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2 - 1
        parents[depth:] = [name.removesuffix("/")]
        yield "/".join(parents)


def blocks() -> list[str]:
    """Return the page's paragraphs, list items and table rows."""
    prose = FENCE.sub("", PAGE)
    return [block for block in re.split(r"\n\s*\n|\n(?=[-|] ?)", prose) if "`" in block]


def resolve(path: str) -> Path | None:
    return next((found for base in (ROOT, SOURCE) if (found := base / path).exists()), None)


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return what a file defines or imports: `name`, and `Class.name` of what stands in a class."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names.update(_defined(node))
        if isinstance(node, ast.ClassDef):
            names.update(f"{node.name}.{name}" for child in node.body for name in _defined(child))
    return frozenset(names)


def _defined(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign():
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        case ast.ImportFrom():
            yield from (alias.asname or alias.name for alias in node.names)


def test_every_package_has_a_line_in_the_tree() -> None:
    listed = list(tree_paths())
    assert packages() - set(listed) == set()
    assert [each for each in listed if not (SOURCE / each).exists()] == []
    assert len(listed) == len(set(listed))


def test_the_layers_are_those_of_pyproject() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [each["layers"] for each in contracts if each["type"] == "layers" and "containers" not in each]
    assert LAYERS.splitlines() == [layer.replace("agentv.", "") for layer in layers]


def missing_in(block: str) -> list[str]:
    """Return the paths of a block that do not exist, else its names that none of its Python files has."""
    quoted = QUOTED.findall(block)
    paths = {each: resolve(each) for each in quoted if PATH.fullmatch(each)}
    files = [found for found in paths.values() if found is not None and found.suffix == ".py"]
    known = frozenset[str]().union(*map(names_in, files))
    names = [each for each in quoted if each not in paths and NAME.fullmatch(each)] if files else []
    return [each for each, found in paths.items() if found is None] or [each for each in names if each not in known]


def test_every_path_and_every_name_beside_a_path_exists() -> None:
    assert [(block, missing) for block in blocks() if (missing := missing_in(block))] == []


def test_a_name_that_no_file_beside_it_has_is_found() -> None:
    assert missing_in("| `make_plans` | `engine/planning/planning.py` |") == ["make_plans"]
    assert missing_in("`make_plan` in `engine/planning/plans.py`") == ["engine/planning/plans.py"]


def test_the_page_names_functions_and_files() -> None:
    quoted = QUOTED.findall(FENCE.sub("", PAGE))
    assert len([each for each in quoted if PATH.fullmatch(each)]) > 100
    assert "make_plan" in quoted
