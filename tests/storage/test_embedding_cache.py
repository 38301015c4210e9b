"""Embeddings on disk."""

import os
import threading
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.storage.cache.embeddings import EmbeddingCache
from agentv.types.provider import Embedding
from agentv.types.usage import Usage

VECTOR = array("f", [0.25, -1.5, 3.0])


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@given(
    space=st.text(max_size=5),
    text=st.text(st.characters(exclude_categories=()), max_size=20),
    numbers=st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=8),
    is_cut=st.booleans(),
)
def test_what_was_kept_is_found_again(
    space: str, text: str, numbers: list[float], *, is_cut: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cache = EmbeddingCache(tmp_path_factory.mktemp("cache"))
    cache.save(space, text, Embedding(array("f", numbers), is_cut, Usage(input=3), 0.5))
    assert cache.load(space, text) == Embedding(array("f", numbers), is_cut, cached=True)


def test_another_text_and_another_space_are_not_found(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path)
    cache.save("model a", "text", Embedding(VECTOR))
    assert cache.load("model a", "texts") is None
    assert cache.load("model b", "text") is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: b"",
        lambda content: content[:-1],
        lambda content: content[:-4],
        lambda content: content[:30],
        lambda content: content + b"\0\0\0\0",
        lambda content: content.replace(b"embedding 1", b"embedding 2"),
        lambda content: content[:-2] + b"\xff\xff",
        lambda _: b'{"vector": [1, 2, 3]}',
        lambda content: content[:-12],
    ],
)
def test_a_file_that_is_torn_or_foreign_is_ignored_and_written_again(
    spoil: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    cache = EmbeddingCache(tmp_path)
    cache.save("model", "text", Embedding(VECTOR))
    (path,) = files(tmp_path)
    path.write_bytes(spoil(path.read_bytes()))
    assert cache.load("model", "text") is None
    cache.save("model", "text", Embedding(VECTOR))
    assert cache.load("model", "text") == Embedding(VECTOR, cached=True)


def test_a_folder_that_cannot_be_written_stores_nothing_without_an_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be")
    cache = EmbeddingCache(tmp_path / "cache")
    cache.save("model", "text", Embedding(VECTOR))
    assert cache.load("model", "text") is None


def test_several_writers_leave_one_whole_file_and_nothing_beside_it(tmp_path: Path) -> None:
    together = threading.Barrier(4)

    def write() -> None:
        together.wait()
        for _ in range(50):
            cache.save("model", "text", Embedding(VECTOR))
            found = cache.load("model", "text")
            seen.append(found is not None and found.vector == VECTOR)

    cache = EmbeddingCache(tmp_path)
    seen: list[bool] = []
    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(seen)
    assert len(seen) == 200
    assert len(files(tmp_path)) == 1


def test_the_least_recently_used_files_are_evicted(tmp_path: Path) -> None:
    vector = array("f", [1.0] * 250)
    big = EmbeddingCache(tmp_path)
    for number in range(8):
        big.save("model", str(number), Embedding(vector))
        (path,) = (file for file in files(tmp_path) if file.stat().st_mtime > 10_000)
        os.utime(path, (1000 + number, 1000 + number))
    assert big.load("model", "0")  # just used, so it is not evicted
    small = EmbeddingCache(tmp_path, most_bytes=6000)
    small.save("model", "8", Embedding(vector))
    assert sum(file.stat().st_size for file in files(tmp_path)) <= 6000
    assert [number for number in range(9) if small.load("model", str(number))] == [0, 5, 6, 7, 8]
    small.save("model", "huge", Embedding(array("f", [1.0] * 2500)))
    assert small.load("model", "huge") is None
