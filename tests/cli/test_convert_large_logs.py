"""Logs of inspect that unpack to much more than their size: refused or converted, in at most 300 MB."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import pytest
from tests.support.nightly import sample
from tests.support.peak import measured

HEADER = {"status": "success", "eval": {"task": "t", "model": "m", "created": "2026-01-01T00:00:00+00:00"}}
START = (
    b'{"id": 1, "epoch": 1, "input": "q", "target": "a", "scores": {"x": {"value": 1}}, "output": {"completion": "a"}'
)
PART = 1 << 20


def repeated(part: bytes, count: int) -> Iterator[bytes]:
    """Yield a part many times, about a megabyte at a time."""
    each = max(PART // len(part), 1)
    yield from (part * min(each, count - at) for at in range(0, count, each))


class Part(NamedTuple):
    """A key of a sample whose value is very long: a start, a repeated part, and an end."""

    key: bytes
    start: bytes
    repeated: bytes
    times: int
    end: bytes


SHORT = Part(b"x", b"", b"1", 1, b"")


def packed(path: Path, part: Part, method: int = ZIP_DEFLATED) -> Path:
    info = ZipInfo("samples/1_epoch_1.json")
    info.compress_type = method
    with ZipFile(path, "w", method) as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        with archive.open(info, "w") as file:
            file.write(START + b', "' + part.key + b'": ' + part.start)
            for data in repeated(part.repeated, part.times):
                file.write(data)
            file.write(part.end + b"}")
    return path


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Part(b"metadata", b'{"x": [', b"{},", 52_000_000, b"{}]}"), "bytes; at most 67,108,864 are read"),
        (Part(b"metadata", b'{"x": [', b"{},", 20_000_000, b"{}]}"), "it has more than 1,000,000 values"),
        (Part(b"events", b"[", b"[[]],", 12_000_000, b"[]]"), "it has more than 3,000,000 nested objects and lists"),
        (Part(b"input", b'"', b"x", 60_000_000, b'"'), "more than 20 MiB of it are needed"),
        (Part(b"x", b"", b" ", 60_000_000, b"1"), "more than 20 MiB of it are needed"),
    ],
)
def test_a_log_that_unpacks_to_too_much_is_an_error(part: Part, message: str, tmp_path: Path) -> None:
    packed(tmp_path / "log.eval", part)
    found = measured("convert", "log.eval", "-o", "runs", cwd=tmp_path)
    assert found.code == 4, found.output
    assert found.megabytes < 300
    assert "log.eval  $  samples/1_epoch_1.json" in found.output
    assert "if you trust the log, add --allow-large" in found.output
    assert message in found.output
    assert not list((tmp_path / "runs").glob("*"))


@pytest.mark.parametrize(
    "part",
    sample(
        [
            Part(b"metadata", b'{"x": [', b"{},", 330_000, b"{}]}"),
            Part(b"events", b"[", b'"%s",' % (b"x" * 100), 600_000, b"0]"),
            Part(b"events", b"[", b'{"a":[1]},', 2_400_000, b"0]"),
            Part(b"input", b'"\xf0\x9f\x99\x82', b"x,", 9_500_000, b'"'),
        ],
        2,
    ),
)
def test_a_large_log_within_the_limits_takes_at_most_300_mb(part: Part, tmp_path: Path) -> None:
    packed(tmp_path / "log.eval", part)
    found = measured("convert", "log.eval", "-o", "runs", cwd=tmp_path)
    assert (found.code, "1 result, finished" in found.output) == (0, True), found.output
    assert found.megabytes < 300


def test_a_trusted_log_is_converted_however_large_it_is(tmp_path: Path) -> None:
    packed(tmp_path / "log.eval", Part(b"metadata", b'{"x": [', b"0,", 1_000_001, b"0]}"))
    assert measured("convert", "log.eval", "-o", "runs", cwd=tmp_path).code == 4
    found = measured("convert", "log.eval", "-o", "runs", "--allow-large", cwd=tmp_path)
    assert found.code == 0, found.output


def test_a_json_log_has_the_same_limits(tmp_path: Path) -> None:
    start = json.dumps({"version": 2, **HEADER})[:-1].encode() + b', "samples": [' + START + b', "metadata": {"x": ['
    (tmp_path / "log.json").write_bytes(start + b"{}," * 2_000_000 + b"{}]}}]}")
    found = measured("convert", "log.json", "-o", "runs", cwd=tmp_path)
    assert (found.code, "it has more than 1,000,000 values" in found.output) == (4, True), found.output
    assert found.megabytes < 300


def test_a_json_log_of_60_mib_takes_at_most_300_mb(tmp_path: Path) -> None:
    start = json.dumps({"version": 2, **HEADER})[:-1].encode() + b', "samples": ['
    samples = (START.replace(b"1", b"%d" % number, 1) + b', "metadata": {"x": "%s"}}' for number in range(600))
    text = b",".join(sample % (b"x" * 100_000) for sample in samples)
    (tmp_path / "log.json").write_bytes(start + text + b"]}")
    found = measured("convert", "log.json", "-o", "runs", cwd=tmp_path)
    assert (found.code, "600 results, finished" in found.output) == (0, True), found.output
    assert found.megabytes < 300


def test_members_that_overlap_or_have_another_packing_are_errors(tmp_path: Path) -> None:
    packed(tmp_path / "log.eval", SHORT, ZIP_BZIP2)
    found = measured("convert", "log.eval", "-o", "runs", cwd=tmp_path)
    assert (found.code, "must be stored, or packed with Deflate or Zstandard" in found.output) == (4, True)
    log = packed(tmp_path / "log.eval", SHORT, ZIP_STORED)
    data = bytearray(log.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 20 : at + 24] = (1 << 20).to_bytes(4, "little")
    log.write_bytes(data)
    found = measured("convert", "log.eval", "-o", "runs", cwd=tmp_path)
    assert (found.code, "it is damaged: its members overlap" in found.output) == (4, True), found.output
