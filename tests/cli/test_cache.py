"""`agentv cache`: what is kept between runs."""

import json
import os
from array import array
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest

from agentv.cli.main import agentv
from agentv.cli.options import Span
from agentv.storage.cache.answers import ANSWERS_FOLDER, AnswerCache, CachedAnswer
from agentv.storage.cache.embeddings import EMBEDDINGS_FOLDER, EmbeddingCache
from agentv.types.provider import CachedFrom, Embedding, ProviderResponse

NOW = datetime.now(UTC)
HOME = Path(".agentv")


def keep(number: int, target: str, *, days_ago: float = 0) -> None:
    source = CachedFrom(f"{number:064x}", NOW - timedelta(days=days_ago), "run-1", 1.0)
    AnswerCache(HOME / ANSWERS_FOLDER).save(CachedAnswer(target, "openai", source, ProviderResponse("hi")))


@pytest.fixture(autouse=True)
def _kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    HOME.mkdir()
    keep(1, "fast")
    keep(2, "fast", days_ago=10)
    keep(3, "slow")
    EmbeddingCache(HOME / EMBEDDINGS_FOLDER).save("space", "text", Embedding(array("f", [1.0])))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert agentv.main(["cache", *arguments], standalone_mode=False) == 0
    return capsys.readouterr().out


def left(capsys: pytest.CaptureFixture[str]) -> dict[str | None, int]:
    groups = json.loads(run(capsys, "ls", "--json"))["groups"]
    return {group["target"] or group["kind"]: group["files"] for group in groups}


def test_everything_is_listed_by_kind_and_target(capsys: pytest.CaptureFixture[str]) -> None:
    answers, slow, embeddings = run(capsys, "ls").splitlines()
    assert answers.startswith("answers     fast                       2 files")
    assert f"oldest {NOW - timedelta(days=10):%Y-%m-%d}" in answers
    assert slow.split()[:3] == ["answers", "slow", "1"]
    assert embeddings.split()[:3] == ["embeddings", "-", "1"]
    assert left(capsys) == {"fast": 2, "slow": 1, "embeddings": 1}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--target", "fast"), {"slow": 1, "embeddings": 1}),
        (("--older-than", "7d"), {"fast": 1, "slow": 1, "embeddings": 1}),
        (("--kind", "embeddings"), {"fast": 2, "slow": 1}),
        (("--target", "fast", "--older-than", "1h"), {"fast": 1, "slow": 1, "embeddings": 1}),
        ((), {}),
    ],
)
def test_what_is_chosen_is_deleted(
    arguments: tuple[str, ...], expected: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "clear", *arguments)
    assert left(capsys) == expected


def test_foreign_files_are_listed_and_go_with_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    place = HOME / ANSWERS_FOLDER / "aa"
    place.mkdir(parents=True)
    (place / "torn.json").write_bytes(b"{")
    (place / f".x.json.{os.getpid()}.0a").write_bytes(b"half")
    (place / "notes.txt").write_text("not of the cache")
    assert left(capsys)["answers"] == 2
    assert json.loads(run(capsys, "clear", "--json"))["deleted"] == 6
    assert (place / "notes.txt").exists()


def test_nothing_kept_says_how_to_keep(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "clear")
    assert run(capsys, "ls") == "the cache is empty; `agentv run --cache on` fills it\n"
    assert run(capsys, "clear") == "deleted 0 files (0 B)\n"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("45m", 2700), ("12h", 43200), ("7d", 604800), ("2w", 1209600)]
)
def test_spans_are_read(text: str, seconds: float) -> None:
    assert Span().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "7", "0d", "-1d", "d", "7 days", "1e3s"])
def test_what_is_no_span_is_refused_with_examples(text: str) -> None:
    with pytest.raises(click.BadParameter, match="45m, 12h, 7d"):
        Span().convert(text, None, None)
