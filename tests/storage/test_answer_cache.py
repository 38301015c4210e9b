"""Answers on disk."""

import multiprocessing
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.storage.cache.answers import AnswerCache, CachedAnswer
from agentv.types.messages import Message, ToolCall
from agentv.types.provider import CachedFrom, ProviderResponse
from agentv.types.usage import Usage

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def key_of(number: int) -> str:
    return f"{number:064x}"


def kept(response: ProviderResponse, *, number: int = 0, at: datetime = NOW, nonce: str | None = None) -> CachedAnswer:
    return CachedAnswer("fast", "openai", CachedFrom(key_of(number), at, "run-1", 812.5, nonce), response)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@given(
    text=st.text(max_size=20),
    tokens=st.integers(min_value=0, max_value=10**6),
    cost=st.none() | st.floats(min_value=0, max_value=10),
    nonce=st.none() | st.text("0123456789abcdef", min_size=16, max_size=16),
)
def test_what_was_kept_is_found_again(
    text: str, tokens: int, cost: float | None, nonce: str | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    response = ProviderResponse(
        text,
        output_messages=(Message("assistant", text, tool_calls=(ToolCall("look", {"for": text}, "found"),)),),
        usage=Usage(input=tokens, output=1, total=tokens + 1, requests=1),
        cost_usd=cost,
        finish_reason="stop",
        model="m-1",
    )
    cache = AnswerCache(tmp_path_factory.mktemp("cache"))
    cache.save(kept(response, nonce=nonce))
    found = cache.load(key_of(0))
    assert found is not None
    assert found.cached == CachedFrom(key_of(0), NOW, "run-1", 812.5, nonce)
    assert (found.text, found.output_messages, found.usage) == (text, response.output_messages, response.usage)
    assert (found.cost_usd, found.finish_reason, found.model) == (cost, "stop", "m-1")
    assert cache.load(key_of(1)) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: b"",
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: content.partition(b"\n")[0] + b"\n",
        lambda content: content + b"{}\n",
        lambda content: content.replace(b"answer-1", b"answer-2"),
        lambda content: content.replace(b"000", b"001", 1),
        lambda content: content.replace(b'"text":"hi"', b'"text":7'),
        lambda _: b"\x80\x04\x95not json",
        lambda _: b"[1]\n[2]\n",
    ],
)
def test_a_file_that_is_torn_foreign_or_newer_is_ignored_and_written_again(
    spoil: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    cache = AnswerCache(tmp_path)
    cache.save(kept(ProviderResponse("hi")))
    (file,) = files(tmp_path)
    file.write_bytes(spoil(file.read_bytes()))
    assert cache.load(key_of(0)) is None
    cache.save(kept(ProviderResponse("again")))
    found = cache.load(key_of(0))
    assert found is not None
    assert found.text == "again"


def test_an_answer_that_is_too_old_is_not_found(tmp_path: Path) -> None:
    AnswerCache(tmp_path).save(kept(ProviderResponse("hi"), at=NOW - timedelta(days=8)))
    assert AnswerCache(tmp_path, oldest=NOW - timedelta(days=7)).load(key_of(0)) is None
    assert AnswerCache(tmp_path, oldest=NOW - timedelta(days=9)).load(key_of(0)) is not None


def test_the_least_recently_used_files_are_evicted(tmp_path: Path) -> None:
    def save(cache: AnswerCache, number: int) -> None:
        cache.save(kept(ProviderResponse("x" * 1000), number=number))

    big = AnswerCache(tmp_path)
    for number in range(8):
        save(big, number)
    for number, file in enumerate(files(tmp_path)):
        os.utime(file, (1000 + number, 1000 + number))
    big.load(key_of(0))  # just used, so it is not evicted
    small = AnswerCache(tmp_path, most_bytes=6000)
    save(small, 8)
    left = [number for number in range(9) if small.load(key_of(number), touch=False)]
    assert sum(file.stat().st_size for file in files(tmp_path)) <= 6000
    assert left == [0, 6, 7, 8]


def test_reading_alone_changes_nothing(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path)
    cache.save(kept(ProviderResponse("hi")))
    (file,) = files(tmp_path)
    os.utime(file, (1000, 1000))
    cache.load(key_of(0), touch=False)
    assert file.stat().st_mtime == 1000


def test_a_folder_that_takes_nothing_costs_only_the_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = AnswerCache(tmp_path / "file")
    cache.save(kept(ProviderResponse("hi")))
    assert cache.load(key_of(0)) is None


def write_and_read(folder: str, turns: int) -> int:
    """Write one key repeatedly, and count the values that were read but never written."""
    cache, wrong = AnswerCache(Path(folder)), 0
    for turn in range(turns):
        cache.save(kept(ProviderResponse("ab" * (turn % 50 + 1) * 100)))
        found = cache.load(key_of(0))
        wrong += found is None or len(found.text) % 200 != 0
    return wrong


def test_two_processes_may_write_the_same_answer(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.starmap(write_and_read, [(str(tmp_path), 100)] * 2) == [0, 0]
    assert len(files(tmp_path)) == 1
