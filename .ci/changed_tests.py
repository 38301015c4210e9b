"""Print the tests that the changes since the merge base with main call for, one path per line.

Part of `.ci/run --fast`: the tests of the changed rooms, the changed tests, and the quick tests of pages and names.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAIN = ("origin/main", "main")
"""The branches to compare with; the first that exists counts."""

FOLDERS = {"engine/criteria": "criteria", "scoring/statistics": "statistics"}
"""Sub-packages whose tests stand in a folder of their own below tests/."""

QUICK = (
    "tests/test_architecture_page.py",
    "tests/test_ci.py",
    "tests/test_gates_page.py",
    "tests/test_public_names.py",
    "tests/test_run_folder_page.py",
    "tests/test_settings_tables.py",
)
"""Tests of pages, settings and public names: a few seconds together, and most changes can break one of them."""


def tests_for(changed: Iterable[str], tests: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders and files to test, sorted; without files that stand in a listed folder.

    `changed` and the keys of `tests` are paths relative to the repository. `tests` maps each file below tests/ to its
    text, which tells who imports a helper.
    """
    changed = tuple(changed)
    wanted = {found for path in changed for found in _called_for(path, tests)}
    if changed:
        wanted.update(path for path in QUICK if path in tests)
    return tuple(sorted(path for path in wanted if not any(parent in wanted for parent in _parents(path))))


def _called_for(path: str, tests: Mapping[str, str]) -> Iterator[str]:
    parts = path.split("/")
    match parts:
        case ["src", "agentv", room, *rest]:
            folder = FOLDERS.get(f"{room}/{rest[0]}") if rest else None
            yield from _folder(folder or room.removesuffix(".py"), tests)
        case ["tests", *_] if re.fullmatch(r"test_\w+\.py", parts[-1]):
            if path in tests:  # not one that was deleted
                yield path
        case ["tests", "support", *_, name]:
            helper = re.compile(rf"\btests\.support(\.| import .*\b){re.escape(name.removesuffix('.py'))}\b")
            yield from (each for each, text in tests.items() if "/test_" in each and helper.search(text))
        case ["tests", room, _, *_]:
            yield from _folder(room, tests)


def _folder(name: str, tests: Mapping[str, str]) -> Iterator[str]:
    if any(each.startswith(f"tests/{name}/test_") for each in tests):
        yield f"tests/{name}"


def _parents(path: str) -> Iterator[str]:
    yield from (parent.as_posix() for parent in Path(path).parents)


def changed_files() -> set[str]:
    """Return the paths that differ from the merge base with main, committed or not, new files included."""
    known = (name for name in MAIN if _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"))
    main = next(known, None)
    if main is None:
        sys.exit(f"changed_tests: there is no branch {' or '.join(MAIN)} to compare with")
    (base,) = _git("merge-base", main, "HEAD") or ("",)
    if not base:
        sys.exit(f"changed_tests: {main} and this branch have no commit in common")
    new = _git("ls-files", "-z", "--others", "--exclude-standard")
    return {*_git("diff", "-z", "--name-only", "--no-renames", base), *new}


def _git(*arguments: str) -> tuple[str, ...]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607 - our own words
    return tuple(line for line in re.split(r"[\0\n]", done.stdout) if line) if done.returncode == 0 else ()


def main() -> None:
    """Print the tests; nothing where nothing changed."""
    files = (path for path in (ROOT / "tests").rglob("*.py") if "fixtures" not in path.parts)
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in files}
    print("\n".join(tests_for(changed_files(), texts)))


if __name__ == "__main__":
    main()
