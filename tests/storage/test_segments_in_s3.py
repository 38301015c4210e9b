"""Segments in S3, spoken by a real client to a server of its own that speaks S3."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contracts.test_backends import write_cases
from tests.storage.test_segments import add, cut_at, rows, write
from tests.support.cluster import ProcessMachines, run_on, stored_rows
from tests.support.ports import free_port, running
from tests.support.stored import at_noon, make_run

from agentv.storage.files.run_file import open_file, whole_lines
from agentv.storage.run.checksums import changed_files, load_checksums
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.housekeeping import remove_run
from agentv.types.errors import StorageError

s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed: uv sync --group s3")
pytest.importorskip("moto", reason="moto is not installed: uv sync --group s3")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    port = free_port()
    with running((sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)), port):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def bucket(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty bucket, whose server and keys are in the environment as users of S3 set them."""
    for name, value in {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem()
    files.mkdir("runs-of-tests")
    yield "s3://runs-of-tests"
    files.rm("runs-of-tests", recursive=True)


def test_a_run_in_s3_is_read_and_continued(tmp_path: Path, bucket: str) -> None:
    texts = [f"row {number}" for number in range(30)]
    plain = write(tmp_path / "plain", texts)
    moved = write(tmp_path / "moved", texts, segments=f"{bucket}/team", rules=cut_at(4000))
    assert len(s3fs.S3FileSystem().ls("runs-of-tests/team/r")) > 10
    for name in ("cases.jsonl", "answers.jsonl", "results.jsonl"):
        assert list(whole_lines(moved.folder / name)) == list(whole_lines(plain.folder / name))
    with open_file(moved.folder / "results.jsonl", buffering=100) as file:
        whole = (plain.folder / "results.jsonl").read_bytes()
        for offset in range(len(whole) - 100, 0, -1777):
            file.seek(offset)
            assert file.read(100) == whole[offset : offset + 100]
    store = RunFolder(tmp_path / "moved", "r", clock=at_noon)
    store.begin(make_run(run_id="r"))
    add(store, ["last"])
    store.close("finished")
    assert rows(moved) == [*texts, "last"]
    assert changed_files(moved, load_checksums(moved)) == {}
    remove_run(moved.folder)
    assert s3fs.S3FileSystem().find("runs-of-tests/team") == []


def test_segments_of_nodes_in_s3_are_read_and_deleted(tmp_path: Path, bucket: str) -> None:
    (tmp_path / ".agentv").mkdir()
    (tmp_path / ".agentv" / "targets.yaml").write_text(
        "targets:\n  - {name: upper, provider: mock, response: A, workers: 2}\n"
    )
    names = [f"case-{number}" for number in range(10)]
    write_cases(tmp_path, names)
    report = asyncio.run(run_on(tmp_path, ProcessMachines(2), segments=bucket))
    assert sorted(row.eval_id for row in stored_rows(report)) == names
    run = Path(str(report.folder))
    files = s3fs.S3FileSystem()
    assert len(files.glob(f"runs-of-tests/{run.name}/results-*-*.jsonl")) == 2
    files.pipe_file(f"runs-of-tests/{run.name}/results-0a1b2c3d-000009.jsonl", b"never listed")
    remove_run(run)
    files.invalidate_cache()
    assert files.find(f"runs-of-tests/{run.name}") == []


def test_an_object_that_is_gone_is_an_error_with_its_line(tmp_path: Path, bucket: str) -> None:
    moved = write(tmp_path, [f"row {number}" for number in range(9)], segments=bucket, rules=cut_at(4000))
    files = s3fs.S3FileSystem()
    files.rm_file("runs-of-tests/r/results-000001.jsonl")
    with pytest.raises(StorageError, match=r"segments\.jsonl:\d+: cannot read s3://runs-of-tests/r/results-000001"):
        rows(moved)


@pytest.mark.usefixtures("bucket")
def test_a_bucket_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    store = RunFolder(tmp_path, "r", clock=at_noon, segments="s3://runs-of-nobody")
    with pytest.raises(
        StorageError, match=r"cannot write s3://runs-of-nobody/r/run\.json: there is no such folder or bucket"
    ):
        store.begin(make_run(run_id="r"))
    store.close("failed")
    assert not s3fs.S3FileSystem().exists("runs-of-nobody")
