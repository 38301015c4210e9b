"""Judgements in a JSON Lines file."""

import asyncio
import errno
import fcntl
import logging
import os
from pathlib import Path

import pytest
from tests.support.full_disk import files_limited_to

from agentv import EvaluationInput, EvaluationRunConfig, JsonFileStorageProvider, run_evaluation_sync
from agentv.storage.judgements.json_file import append_record
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonValue


def test_a_locked_file_does_not_block_the_event_loop(tmp_path: Path) -> None:
    path = tmp_path / "judged.jsonl"
    config = EvaluationRunConfig(evaluators=[{"type": "contains", "value": "x"}])
    result = run_evaluation_sync(EvaluationInput("x"), config)

    async def save_while_held() -> None:
        holder = os.open(path, os.O_RDWR | os.O_CREAT)
        fcntl.flock(holder, fcntl.LOCK_EX)
        # A store that blocks the event loop would wait for ever for the line below.
        saving = asyncio.create_task(JsonFileStorageProvider(path).save_result(result))
        await asyncio.sleep(0)
        assert path.read_bytes() == b""
        os.close(holder)
        async with asyncio.timeout(30):
            await saving

    asyncio.run(save_while_held())
    assert len(path.read_bytes().splitlines()) == 1


@pytest.mark.parametrize(("room", "note"), [(0, ""), (5, "; the partial line was removed")])
def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path, room: int, note: str) -> None:
    path = tmp_path / "judged.jsonl"
    append_record(path, {"id": 1})
    before = path.read_bytes()
    with files_limited_to(len(before) + room), pytest.raises(StorageError) as caught:
        append_record(path, {"id": 2})
    assert str(caught.value) == f"cannot write {path}: {os.strerror(errno.EFBIG)}{note}"
    assert path.read_bytes() == before


def loaded(path: Path) -> list[dict[str, JsonValue]]:
    return [each.to_dict() for each in JsonFileStorageProvider(path).load_results()]


def test_a_configuration_is_stored_once_and_named_by_hash(tmp_path: Path) -> None:
    terms = [f"term number {number}" for number in range(5_000)]
    path = tmp_path / "judged.jsonl"
    config = EvaluationRunConfig(
        evaluators=[{"type": "one_of", "values": terms}], storage={"type": "json_file", "path": str(path)}
    )
    made = [run_evaluation_sync(EvaluationInput(f"term number {number}"), config) for number in range(3)]
    assert all(len(line) < 2_000 for line in path.read_bytes().splitlines())
    assert len((tmp_path / "judged.configs.jsonl").read_bytes().splitlines()) == 1
    assert loaded(path) == [each.to_dict() for each in made]
    # Another process writes the configuration no second time.
    asyncio.run(JsonFileStorageProvider(path).save_result(made[0]))
    assert len((tmp_path / "judged.configs.jsonl").read_bytes().splitlines()) == 1


def test_a_file_of_an_older_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "judged.jsonl"
    result = run_evaluation_sync(
        EvaluationInput("x"), EvaluationRunConfig(evaluators=[{"type": "contains", "value": "x"}])
    )
    append_record(path, result.to_dict())
    assert loaded(path) == [result.to_dict()]


def test_a_lost_configuration_is_named(tmp_path: Path) -> None:
    path = tmp_path / "judged.jsonl"
    config = EvaluationRunConfig(
        evaluators=[{"type": "contains", "value": "x"}], storage={"type": "json_file", "path": str(path)}
    )
    run_evaluation_sync(EvaluationInput("x"), config)
    (tmp_path / "judged.configs.jsonl").unlink()
    with pytest.raises(StorageError, match=r"judged\.jsonl:1: the configuration .* is not in .*judged\.configs\.jsonl"):
        list(JsonFileStorageProvider(path).load_results())


TORN = b'{"sha256": "abc", "con'
WARNING = "agentv", logging.WARNING


@pytest.mark.parametrize("damaged", ["judged.jsonl", "judged.configs.jsonl"])
def test_an_unreadable_line_is_passed_over_and_named(
    tmp_path: Path, damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "judged.jsonl"
    store = {"type": "json_file", "path": str(path)}
    made = []
    for value in ("x", "y"):
        config = EvaluationRunConfig(evaluators=[{"type": "contains", "value": value}], storage=store)
        made.append(run_evaluation_sync(EvaluationInput("x"), config))
        with Path(tmp_path / damaged).open("ab") as file:
            file.write(TORN + b"\n")
    caplog.clear()
    assert loaded(path) == [each.to_dict() for each in made]
    named = [(each.name, each.levelno, each.getMessage()) for each in caplog.records]
    assert named == [(*WARNING, f"{tmp_path / damaged}:{line}: skipped: {TRUNCATED}") for line in (2, 4)]


TRUNCATED = "Input data was truncated"


def test_a_partial_last_line_is_removed_before_the_next_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "judged.jsonl"
    path.write_bytes(b'{"id":1}\n' + TORN)
    append_record(path, {"id": 2})
    assert path.read_bytes() == b'{"id":1}\n{"id":2}\n'
    named = [(each.name, each.levelno, each.getMessage()) for each in caplog.records]
    assert named == [(*WARNING, f"{path}: removed a partial last line of {len(TORN)} bytes")]


@pytest.mark.parametrize("last", ['{"id":1}', "notes of a person", '"a text"', "]"])
def test_a_last_line_that_is_no_partial_record_is_kept(tmp_path: Path, last: str) -> None:
    path = tmp_path / "judged.jsonl"
    path.write_text(f'{{"id":0}}\n{last}')
    append_record(path, {"id": 2})
    assert path.read_text() == f'{{"id":0}}\n{last}\n{{"id":2}}\n'


def test_a_file_of_configurations_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path, configs = tmp_path / "judged.jsonl", tmp_path / "judged.configs.jsonl"
    configs.mkdir()
    result = run_evaluation_sync(
        EvaluationInput("x"), EvaluationRunConfig(evaluators=[{"type": "contains", "value": "x"}])
    )
    with pytest.raises(StorageError) as caught:
        asyncio.run(JsonFileStorageProvider(path).save_result(result))
    assert str(caught.value) == f"cannot write {path}: cannot read {configs}: {os.strerror(errno.EISDIR)}"
