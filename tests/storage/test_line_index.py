"""LineIndex finds lines by their keys like a dictionary, in eight bytes per line."""

import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentv.scoring.keys.identity import digest_64
from agentv.storage.run.stored_rows import IndexedLine, LineIndex

# Two keys whose digests agree in the stored 34 bits: only the line distinguishes them.
TWINS = ("k159438", "k167592")

steps = st.lists(st.tuples(st.sampled_from(["put", "get", "pop"]), st.sampled_from(["a", "b", "ü", *TWINS])))


def key_of(line: bytes) -> str:
    return line.split(b" ")[0].decode()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[], tuple[LineIndex, Path]]]:
    made: list[LineIndex] = []

    def new() -> tuple[LineIndex, Path]:
        path = tmp_path / f"{len(made)}.txt"
        made.append(LineIndex(path, key_of))
        return made[-1], path

    yield new
    for index in made:
        index.close()


def write(path: Path, line: str) -> int:
    """Append a line and return its offset."""
    at = path.stat().st_size
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    return at


def line_of(found: IndexedLine | None) -> bytes | None:
    return None if found is None else found.line


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps)
def test_it_answers_as_a_dictionary_does(
    opened: Callable[[], tuple[LineIndex, Path]], steps: list[tuple[str, str]]
) -> None:
    (index, path), known, numbers = opened(), dict[str, bytes](), count()
    for step, key in steps:
        if step == "put":
            line = f"{key} {next(numbers)}"
            index.put(key, write(path, line))
            known[key] = f"{line}\n".encode()
        elif step == "pop":
            assert line_of(index.pop(key)) == known.pop(key, None)
        else:
            assert line_of(index.get(key)) == known.get(key)
    assert list(index.lines()) == sorted(known.values(), key=lambda line: int(line.split()[1]))


def test_the_twins_share_what_is_kept_of_their_digests() -> None:
    assert len({(digest_64(key) % 1024, digest_64(key) >> 40) for key in TWINS}) == 1


@pytest.mark.nightly
def test_a_line_costs_ten_bytes_at_most(opened: Callable[[], tuple[LineIndex, Path]]) -> None:
    lines, (index, _) = 100_000, opened()
    tracemalloc.start()
    try:
        for number in range(lines):
            index.put(f"evals/a.yaml\0case-{number}\0t\0{0}", number * 1000)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown / lines < 10
