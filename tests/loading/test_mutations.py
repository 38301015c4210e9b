"""Ten thousand damaged files: each loads, or is refused with located problems; no other exception is raised."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.loading.specs import SPECS
from tests.support.nightly import sample

from agentv.engine.plugins.loading import load_specs
from agentv.importers.conversion import read_records
from agentv.loading.suites.suites import load_suite
from agentv.loading.targets.targets import read_targets
from agentv.registry import Specs
from agentv.types.cases import BrokenCase
from agentv.types.errors import ConfigError, EvalFileError
from agentv.types.problems import Problem
from bench.mutations import damaged

_HERE = Path(__file__).parent
_EXAMPLES = _HERE.parents[1] / "examples"
_FILES = 10_000
_BATCHES = 20


def originals() -> list[tuple[Path, Specs]]:
    """Return the example files and the valid test files, with the plug-ins that they name."""
    real = load_specs()
    examples = [(path, real) for path in _EXAMPLES.rglob("*") if path.suffix in (".yaml", ".jsonl")]
    files = (_HERE.parent / "fixtures" / "agentv").rglob("*")
    examples += [(path, real) for path in files if path.name.startswith("everything") or path.suffix == ".jsonl"]
    return sorted(examples) + [
        (path, SPECS) for path in sorted((_HERE / "good").rglob("*")) if path.suffix in (".yaml", ".jsonl")
    ]


def problems_of(path: Path, specs: Specs, *, is_targets: bool) -> Iterator[Problem]:
    if is_targets:
        yield from read_targets(path, specs).problems
        return
    try:
        for case in load_suite(path, specs=specs).cases:
            if isinstance(case, BrokenCase):
                yield from case.problems
    except EvalFileError as error:
        yield from error.problems


@pytest.mark.parametrize("batch", sample(range(_BATCHES), 4))
def test_a_damaged_file_loads_or_is_refused_with_located_problems(
    batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chance = random.Random(f"damage {batch}")
    files = [(path, path.read_text(), specs) for path, specs in originals()]
    loaded = 0
    for _ in range(_FILES // _BATCHES):
        original, text, specs = chance.choice(files)
        path = Path("cases.jsonl" if original.suffix == ".jsonl" else "damaged.yaml")
        path.write_bytes(damaged(text, chance))
        found = list(problems_of(path, specs, is_targets=original.stem == "targets"))
        loaded += not any(problem.severity == "error" for problem in found)
        for problem in found:
            check_report(problem, path)
        path.unlink()  # a later file may name it
    assert 0 < loaded < _FILES // _BATCHES


def check_report(problem: Problem, path: Path) -> None:
    """Check that a problem has a position, and mentions the file, not the libraries that read it."""
    said = problem.render()
    assert problem.path == str(path), said
    assert problem.line > 0, said
    assert problem.column > 0, said
    assert problem.json_path.startswith("$"), said
    assert "\n" not in problem.message, said
    assert not any(word in said for word in ("pydantic_core", "pydantic.", "Input should", "Error", "Traceback")), said


@pytest.mark.parametrize("batch", sample(range(4), 1))
def test_converting_a_damaged_file_works_or_says_why_not(batch: int, tmp_path: Path) -> None:
    chance = random.Random(f"conversion {batch}")
    files = [(path, path.read_text()) for path, _ in originals()]
    for _ in range(250):
        original, text = chance.choice(files)
        path = tmp_path / f"damaged{original.suffix}"
        path.write_bytes(damaged(text, chance))
        try:
            for item in read_records(path).items:
                assert isinstance(item, dict)
        except ConfigError as error:
            assert str(error)  # noqa: PT017 - either outcome is valid
