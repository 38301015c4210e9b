"""`bench.mutants` finds what the tests of a small project notice, and what they do not."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.code_mutations import statements

ROOT = Path(__file__).parents[2]
SOURCE = '''"""A module."""

from typing import Literal

Kind = Literal["a", "b"]
LIMIT = 3


def is_large(number: int, *, limit: int = LIMIT) -> bool:
    """Whether a number is above the limit."""
    return number > limit


def price(amount: int) -> int:
    if amount > 10:
        return amount * 9
    return amount * 10
'''
TESTS = """
from toy import is_large, price

def test_is_large_compares_with_the_limit() -> None:
    assert (is_large(3), is_large(4)) == (False, True)

def test_price_is_ten_each() -> None:
    assert price(2) == 20
"""


def mutants_of(source: str) -> set[tuple[str, str]]:
    """Return the kind of each mutation and the changed line."""
    lines = source.splitlines()
    return {
        (mutation.kind, next(line for line in mutation.of(source).splitlines() if line not in lines).strip())
        for statement in statements(source)
        for mutation in statement.mutations
    }


def test_mutations_are_small_changes_of_one_statement() -> None:
    assert mutants_of(SOURCE) == {
        ("off by one", "LIMIT = 4"),
        ("comparison", "return (number >= limit)"),
        ("return None", "return None"),
        ("comparison", "if (amount >= 10):"),
        ("off by one", "if amount > 11:"),
        ("negated condition", "if (not amount > 10):"),
        ("arithmetic", "return (amount / 9)"),
        ("off by one", "return amount * 10"),
        ("arithmetic", "return (amount / 10)"),
        ("off by one", "return amount * 11"),
    }


@pytest.mark.parametrize(
    ("statement", "mutated"),
    [
        ("x = not a or b", {"x = (not a and b)", "x = a or b"}),
        ("x = (a + b) * -c", {"x = ((a - b)) * -c", "x = ((a + b) / -c)"}),
        ("x = 'é', a is None", {"x = 'éXX', a is None", "x = 'é', (a is not None)"}),
        ("x = f(a, b=True)", {"x = f(a)", "x = f(a, b=False)"}),
        ("x = a if b else c", {"x = (c if b else a)"}),
        ("x = any(a for a in b if a)", {"x = all(a for a in b if a)", "x = any(a for a in b if (not a))"}),
        ("x.y = z", {"pass"}),
        ("x += y", {"x -= y", "pass"}),
        ("raise x", {"pass"}),
        ("while x: break", {"while x: continue"}),
        ("import x", set()),
        ("x: Literal['a']", set()),
        ("Kind = A | B", set()),
        ("Kind: TypeAlias = 'A | B'", set()),
        ("__all__ = ['x']", set()),
        ("class A(B, frozen=True): x: int = 1", {"class A(B, frozen=True): x: int = 2"}),
        (
            "def f(x: 'A' = 1) -> 'B': return x",
            {"def f(x: 'A' = 2) -> 'B': return x", "def f(x: 'A' = 1) -> 'B': return None"},
        ),
        ("try: f()\nexcept A: x(1)", {"try: pass", "except A: pass", "except A: x(2)"}),
    ],
)
def test_each_kind_of_statement_has_its_mutations(statement: str, mutated: set[str]) -> None:
    assert {line for _, line in mutants_of(statement)} == mutated


def test_mutants_that_no_test_notices_survive(tmp_path: Path) -> None:
    pytest.importorskip("coverage", reason="needs --group=mutants")
    (tmp_path / "src").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "src" / "toy.py").write_text(SOURCE)
    (tmp_path / "tests" / "test_toy.py").write_text(TESTS)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    command = [sys.executable, "-m", "bench.mutants", "src", "--processes=0"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "2 tests recorded" in done.stdout, done.stdout + done.stderr
    assert "4 of 5 killed" in done.stdout, done.stdout
