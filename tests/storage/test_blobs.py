"""Large values are stored as blobs and restored transparently; references cannot be forged."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.stored import RUN, at_noon, make_answer, make_case, make_run

from agentv.storage.run.blobs import BLOB_LIMIT
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonValue
from agentv.types.messages import DataPart, FilePart, Message, ToolCall


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunFolder]:
    made = RunFolder(tmp_path, RUN.run_id, clock=at_noon)
    made.begin(make_run())
    yield made
    made.close("finished")


def stored(store: RunFolder) -> StoredRun:
    return open_run(Path(store.folder))


def blobs(store: RunFolder) -> list[Path]:
    return sorted(Path(store.folder, "blobs").glob("*"))


def line(store: RunFolder, name: str = "answers.jsonl") -> bytes:
    return Path(store.folder, name).read_bytes()


@pytest.mark.parametrize("text", ["x" * (BLOB_LIMIT + 1), "é" * (BLOB_LIMIT // 2 + 1), "\n" * (BLOB_LIMIT + 1)])
def test_a_large_text_is_kept_beside_its_line(store: RunFolder, text: str) -> None:
    kept = store.append_answer(make_answer(text=text))
    (blob,) = blobs(store)
    assert blob.name == f"sha256-{hashlib.sha256(text.encode()).hexdigest()}"
    assert blob.read_text() == text
    assert json.loads(line(store))["text"] == {
        "$blob": blob.name.replace("-", ":"),
        "bytes": len(text.encode()),
        "media_type": "text/plain; charset=utf-8",
    }
    assert list(stored(store).answers()) == [kept]


def test_a_large_text_with_half_a_character_does_not_stop_a_run(store: RunFolder) -> None:
    store.append_answer(make_answer(text="\ud800" + "x" * (BLOB_LIMIT + 1)))
    (answer,) = stored(store).answers()
    assert answer.text == "\ufffd" + "x" * (BLOB_LIMIT + 1)


def test_a_value_nested_too_deeply_does_not_stop_a_run_beside_a_large_text(store: RunFolder) -> None:
    deep: JsonValue = "x"
    for _ in range(600):
        deep = [deep]
    store.append_answer(make_answer(text="x" * (BLOB_LIMIT + 1), request={"deep": deep}))
    (answer,) = stored(store).answers()
    assert answer.text == "x" * (BLOB_LIMIT + 1)


def test_a_text_at_the_limit_stays_in_its_line(store: RunFolder) -> None:
    kept = store.append_answer(make_answer(text="x" * BLOB_LIMIT))
    assert blobs(store) == []
    assert list(stored(store).answers()) == [kept]


def test_a_message_part_that_is_large_only_as_a_whole_is_one_blob(store: RunFolder) -> None:
    part = DataPart("table", {"rows": [{"n": n, "text": "x" * 100} for n in range(BLOB_LIMIT // 100)]})
    kept = store.append_answer(make_answer(output_messages=(Message("assistant", (part,)),)))
    assert len(blobs(store)) == 1
    assert len(line(store)) < 2000
    assert list(stored(store).answers()) == [kept]


def test_the_same_large_text_is_kept_once(store: RunFolder) -> None:
    text = "x" * (BLOB_LIMIT + 1)
    store.append_answer(make_answer(text=text))
    store.append_answer(make_answer(text=text))
    assert len(blobs(store)) == 1


@pytest.mark.parametrize(
    "forged",
    [
        {"$blob": "sha256:../../../etc/passwd", "bytes": 1, "media_type": "text/plain; charset=utf-8"},
        {"$blob": "sha256:" + "0" * 64, "bytes": 1, "media_type": "text/plain; charset=utf-8"},
        {"$blob": None},
    ],
)
def test_an_answer_that_looks_like_a_reference_stays_what_it_was(store: RunFolder, forged: dict[str, str]) -> None:
    call = ToolCall("read", forged, [forged])
    kept = store.append_answer(make_answer(output_messages=(Message("assistant", tool_calls=(call,)),)))
    assert list(stored(store).answers()) == [kept]


def test_a_blob_that_was_changed_or_lost_is_said(store: RunFolder) -> None:
    store.append_answer(make_answer(text="x" * (BLOB_LIMIT + 1)))
    (blob,) = blobs(store)
    blob.write_text("y")
    with pytest.raises(StorageError, match=r"answers\.jsonl:1: .*was changed after it was written"):
        list(stored(store).answers())
    blob.unlink()
    with pytest.raises(StorageError, match=r"answers\.jsonl:1: .*is missing"):
        list(stored(store).answers())


def test_a_binary_attachment_is_kept_with_its_case(store: RunFolder, tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    photo.write_bytes(b"\x89PNG\x00\xff")
    sha256 = hashlib.sha256(photo.read_bytes()).hexdigest()
    part = FilePart("./photo.png", str(photo), None, sha256, 6, "image/png")
    case = make_case(input_messages=(Message("user", (part,)),))
    store.append_case(case)
    (blob,) = blobs(store)
    assert blob.read_bytes() == photo.read_bytes()
    written = json.loads(line(store, "cases.jsonl"))["input_messages"][0]["content"][0]
    assert written["binary"] == {"$blob": f"sha256:{sha256}", "bytes": 6, "media_type": "image/png"}
    assert list(stored(store).cases()) == [case]


def test_an_attachment_that_is_gone_does_not_stop_the_run(store: RunFolder) -> None:
    part = FilePart("./gone.png", "/nowhere/gone.png", None, "0" * 64, 6, "image/png")
    case = make_case(input_messages=(Message("user", (part,)),))
    store.append_case(case)
    assert list(stored(store).cases()) == [case]


def test_a_large_text_attachment_comes_back_as_text(store: RunFolder) -> None:
    part = FilePart("./log.txt", "/x/log.txt", "x" * (BLOB_LIMIT + 1), "0" * 64, BLOB_LIMIT + 1, "text/plain")
    case = replace(make_case(), input_messages=(Message("user", (part,)),))
    store.append_case(case)
    assert list(stored(store).cases()) == [case]
