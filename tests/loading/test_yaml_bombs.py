"""Small files that expand to huge values: each is refused quickly, in little memory, with a located message."""

import itertools
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from tests.loading.specs import SPECS
from tests.support.peak import peak_below

from agentv.loading.files.composer import MAX_DEPTH, compose
from agentv.loading.suites.suites import load_suite
from agentv.types.errors import EvalFileError

_LEVELS = "abcdefghij"


def alias_bomb() -> str:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in itertools.pairwise(_LEVELS)]
    return "\n".join(lines) + "\n"


def merge_bomb() -> str:
    lines = ["a: &a {k: 1}"]
    for old, new in itertools.pairwise(_LEVELS):
        lines.append(f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 9)}]}}")
    return "\n".join(lines) + "\n"


def wide_merge_bomb() -> str:
    keys = ", ".join(f"k{n}: 1" for n in range(2_000))
    return f"a: &a {{{keys}}}\nb:\n" + "".join(f"  - {{<<: *a, n: {n}}}\n" for n in range(1_000))


def chain_of_aliases() -> str:
    return "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 2_000))


def long_text_bomb() -> str:
    return f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 5_000)}]\n"


BOMBS = {
    "aliases of aliases": (alias_bomb(), "aliases and merge keys would add more than 1,000,000 values"),
    "one large object merged often": (wide_merge_bomb(), "aliases and merge keys would add more than 1,000,000 values"),
    "one long text named often": (long_text_bomb(), "aliases and merge keys would add more than 1,000,000 values"),
    "aliases that nest": (chain_of_aliases(), f"nested more than {MAX_DEPTH} levels deep"),
    "brackets": ("[" * 100_000, f"nested more than {MAX_DEPTH} levels deep"),
    "closed brackets": ("[" * 100_000 + "]" * 100_000, f"nested more than {MAX_DEPTH} levels deep"),
    "braces": ("{a: " * 100_000, f"nested more than {MAX_DEPTH} levels deep"),
    "dashes": ("- " * 100_000, f"nested more than {MAX_DEPTH} levels deep"),
    "question marks": ("? " * 100_000, f"nested more than {MAX_DEPTH} levels deep"),
    "indents": ("".join(f"{' ' * n}a:\n" for n in range(2_000)), f"nested more than {MAX_DEPTH} levels deep"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_in_a_located_message_and_little_memory(name: str) -> None:
    text, message = BOMBS[name]
    with peak_below(12):
        document, problems = compose(text, "bomb.yaml")
    assert document is None
    assert message in problems[-1].message
    assert problems[-1].line > 0
    assert problems[-1].column > 0


@pytest.mark.parametrize("name", ["brackets", "closed brackets", "braces", "dashes", "indents"])
def test_nesting_ends_after_as_many_events_as_are_allowed(name: str) -> None:
    _, problems = compose(BOMBS[name][0], "bomb.yaml")
    read = problems[-1].line + problems[-1].column
    assert read <= 5 * MAX_DEPTH


def test_a_bomb_inside_an_eval_file_is_reported_like_any_problem(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(alias_bomb() + "evalcases: *j\n")
    with pytest.raises(EvalFileError, match=r"suite\.yaml:7:\d+  \$\S*  aliases and merge keys would add"):
        load_suite(path, specs=SPECS)


def test_merge_keys_of_merge_keys_are_no_bomb_at_all() -> None:
    document, problems = compose(merge_bomb(), "bomb.yaml")
    assert problems == ()
    assert document is not None
    assert document.at(("j",)) == {"k": 1}


def test_nested_brackets_in_a_json_line_are_reported_with_their_column(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"id": ' + "[" * 100_000 + "\n")
    with pytest.raises(EvalFileError, match=r"cases\.jsonl:1:10\d  .*nested more than 100 levels deep"):
        load_suite(path, specs=SPECS)


def test_honest_use_of_aliases_stays_far_below_the_limit() -> None:
    shared = "shared: &s [" + ", ".join(f"{{name: e{n}, type: contains}}" for n in range(5)) + "]\n"
    document, problems = compose(shared + "cases:\n" + "- {evaluators: *s}\n" * 10_000, "suite.yaml")
    assert problems == ()
    assert document is not None


@pytest.mark.nightly
def test_the_usual_loader_dies_of_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text(merge_bomb())
    code = f"import yaml; yaml.safe_load(open({str(path)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=_limit,
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ},
    )
    assert done.returncode != 0
    assert b"MemoryError" in done.stderr or done.returncode < 0


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (200 * 2**20, 200 * 2**20))
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))


def test_of_many_unknown_keys_some_are_named_and_the_others_counted(tmp_path: Path) -> None:
    keys = "".join(f"  key{number}: 1\n" for number in range(1_000))
    path = tmp_path / "suite.yaml"
    path.write_text(f"evalcases:\n- id: a\n  expected_outcome: x\n{keys}")
    with pytest.raises(EvalFileError) as caught:
        load_suite(path, specs=SPECS)
    messages = [problem.message for problem in caught.value.problems]
    assert messages[-20:] == [f"unknown key 'key{number}'" for number in range(20)]
    assert "980 more unknown keys" in messages
