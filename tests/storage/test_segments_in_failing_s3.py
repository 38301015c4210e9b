"""An object store that fails: nothing is lost, no failure is an exception of the client, and each names its object."""

import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.test_segments import add, cut_at, rows, write
from tests.support.failing_s3 import FailingS3, Fault, failing_s3
from tests.support.stored import at_noon, make_run

from agentv.storage.files.object_store import put
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.stored import open_run
from agentv.types.errors import StorageError

s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed: uv sync --group s3")
TEXTS = [f"row {number}" for number in range(9)]
PLACE = "s3://bucket/team"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingS3]:
    with failing_s3() as server:
        for name, value in {
            "AWS_ENDPOINT_URL": server.address,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            "AWS_MAX_ATTEMPTS": "1",
        }.items():
            monkeypatch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        yield server
        s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.parametrize("fault", [403, 404, "half"])
def test_an_object_that_cannot_be_read_is_an_error_with_its_line(
    tmp_path: Path, store: FailingS3, fault: Fault
) -> None:
    run = write(tmp_path, TEXTS, segments=PLACE, rules=cut_at(4000))
    assert rows(run) == TEXTS
    store.fault = lambda method, path: fault if method == "GET" and "results-000001" in path else None
    with pytest.raises(StorageError, match=rf"segments\.jsonl:\d+: .*{PLACE}/r/results-000001\.jsonl"):
        rows(run)


def test_an_upload_that_is_not_stored_leaves_the_rows_in_the_folder(tmp_path: Path, store: FailingS3) -> None:
    store.fault = lambda method, path: "lost" if method == "PUT" and "results-000001" in path else None
    with pytest.raises(StorageError, match=r"cannot write .*results-000001\.jsonl.*Every result is saved in"):
        write(tmp_path, TEXTS, segments=PLACE, rules=cut_at(4000))
    assert rows(open_run(tmp_path / "r")) == TEXTS


@pytest.mark.parametrize("fault", [403, 404])
def test_rows_that_cannot_be_uploaded_are_moved_later(tmp_path: Path, store: FailingS3, fault: Fault) -> None:
    store.fault = lambda method, path: fault if method == "PUT" and "results-" in path else None
    with pytest.raises(StorageError, match=r"cannot move a part of results\.jsonl .*agentv resume r"):
        write(tmp_path, TEXTS, segments=PLACE, rules=cut_at(4000))
    assert rows(open_run(tmp_path / "r")) == TEXTS
    store.fault = lambda _method, _path: None
    continued = RunFolder(tmp_path, "r", clock=at_noon)
    continued.begin(make_run(run_id="r"))
    add(continued, ["last"])
    continued.close("finished")
    assert rows(open_run(tmp_path / "r")) == [*TEXTS, "last"]
    assert not list((tmp_path / "r").glob("results*"))


def test_an_error_that_echoes_keys_is_shown_without_them(
    tmp_path: Path, store: FailingS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write(tmp_path, TEXTS, segments=PLACE, rules=cut_at(4000))
    monkeypatch.setenv("AWS_SESSION_TOKEN", "FwoGZXIvYXdzEBY-token-of-a-session")
    store.message = (
        "no access with FwoGZXIvYXdzEBY-token-of-a-session to http://host/r?X-Amz-Signature=0a1b2c3d4e5f sent with "
        "Authorization: AWS4-HMAC-SHA256 Credential=AKIA0/s3, Signature=f5e4d3c2b1a0"
    )
    store.fault = lambda method, _path: 403 if method == "GET" else None
    with pytest.raises(StorageError) as raised:
        rows(run)
    assert "no access with *** to http://host/r?X-Amz-Signature=*** sent with Authorization: ***" in str(raised.value)
    shown = "".join(traceback.format_exception(raised.value))
    assert not [key for key in ("FwoGZXIv", "0a1b2c3d4e5f", "f5e4d3c2b1a0") if key in shown]


def test_an_upload_that_takes_too_long_is_ended(tmp_path: Path, store: FailingS3) -> None:
    over = threading.Event()
    store.fault = lambda method, path: over.wait(60) if method == "PUT" and "results-" in path else None
    part = tmp_path / "results.jsonl"
    part.write_text("{}\n")
    try:
        with pytest.raises(
            StorageError, match=r"cannot write s3://bucket/team/results-000000\.jsonl: not stored within 1 s"
        ):
            put(part, f"{PLACE}/results-000000.jsonl", base=tmp_path, limit_s=1.0)
    finally:
        over.set()
