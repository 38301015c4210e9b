"""Lines of files and pipes: complete, numbered, in bounded memory, and read only on demand."""

import asyncio
import gzip
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.execution.processes.line_stream import Line, LineStream, LostLine, ReadLine


async def read_all(stream: LineStream) -> list[ReadLine]:
    return [line async for batch in stream.batches() for line in batch]


def read(*paths: Path, max_bytes: int = 1000) -> list[ReadLine]:
    return asyncio.run(read_all(LineStream([str(path) for path in paths], max_bytes=max_bytes)))


def texts(lines: list[ReadLine]) -> list[bytes]:
    return [line.data if isinstance(line, Line) else b"lost" for line in lines]


@given(lines=st.lists(st.binary().filter(lambda data: b"\n" not in data)), ends=st.booleans(), packed=st.booleans())
def test_every_line_comes_whole_with_its_number(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], ends: bool, packed: bool
) -> None:
    path = tmp_path_factory.mktemp("lines") / "log"
    data = b"\n".join(lines) + (b"\n" if ends and lines else b"")
    path.write_bytes(gzip.compress(data) if packed or data.startswith(b"\x1f\x8b") else data)
    found = read(path)
    wanted = data.split(b"\n")[: -1 if data.endswith(b"\n") or not data else None]
    assert texts(found) == wanted
    assert [line.number for line in found] == list(range(1, len(wanted) + 1))


def test_lines_that_cross_blocks_are_whole(tmp_path: Path) -> None:
    lines = [bytes([number % 256]).replace(b"\n", b"x") * (number * 997 % 150_000) for number in range(1, 60)]
    (tmp_path / "log").write_bytes(b"\n".join(lines) + b"\n")
    assert texts(read(tmp_path / "log", max_bytes=10**6)) == lines
    (tmp_path / "log.gz").write_bytes(gzip.compress(b"\n".join(lines)))
    assert texts(read(tmp_path / "log.gz", max_bytes=10**6)) == lines


def test_a_line_that_is_too_long_is_lost_and_the_next_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"a\n" + b"b" * 200_000 + b"\nc\n" + b"d" * 1001)
    first, long, third, last = read(tmp_path / "log")
    assert (first, third) == (Line(str(tmp_path / "log"), 1, b"a"), Line(str(tmp_path / "log"), 3, b"c"))
    assert isinstance(long, LostLine)
    assert isinstance(last, LostLine)
    assert (long.number, last.number) == (2, 4)
    assert "200,000 bytes" in long.message


def test_a_bomb_is_unpacked_piece_by_piece(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(gzip.compress(b"\n".join([b"x" * 2**22, b"end", b""])))
    lost, end = read(tmp_path / "log")
    assert isinstance(lost, LostLine)
    assert end.number == 2


def test_gzip_that_is_broken_costs_the_rest_of_its_file_only(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(100_000).replace(b"\n", b"")
    packed = bytearray(gzip.compress(b"first\n" + noise))
    packed[50_000:50_010] = b"0123456789"
    (tmp_path / "broken").write_bytes(packed)
    (tmp_path / "good").write_bytes(b"next")
    *_, lost, last = read(tmp_path / "broken", tmp_path / "good", max_bytes=10**6)
    assert isinstance(lost, LostLine)
    assert "broken gzip" in lost.message
    assert texts([last]) == [b"next"]


def test_a_missing_file_is_reported_and_the_next_one_is_read(tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(b"next\n")
    lost, line = read(tmp_path / "missing", tmp_path / "good")
    assert lost == LostLine(str(tmp_path / "missing"), 1, "cannot be read: No such file or directory")
    assert texts([line]) == [b"next"]


def test_a_device_without_anything_is_at_its_end() -> None:
    assert read(Path(os.devnull)) == []


def test_a_pipe_is_read_as_it_is_written_and_stopped_while_it_is_silent(tmp_path: Path) -> None:
    async def work() -> tuple[list[ReadLine], list[ReadLine]]:
        os.mkfifo(tmp_path / "pipe")
        writer = os.open(tmp_path / "pipe", os.O_RDWR)
        stream = LineStream([str(tmp_path / "pipe"), "never-opened"], max_bytes=1000)
        batches = stream.batches()
        os.write(writer, b"one\ntw")
        first = await anext(batches)
        os.write(writer, b"o\nhalf")
        second = await anext(batches)
        waiting = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0)
        stream.stop()
        assert await waiting == []
        assert [batch async for batch in batches] == []
        os.close(writer)
        return first, second

    first, second = asyncio.run(work())
    assert (texts(first), texts(second)) == ([b"one"], [b"two"])


def test_a_named_pipe_is_awaited_until_it_is_written(tmp_path: Path) -> None:
    async def work() -> list[ReadLine]:
        os.mkfifo(tmp_path / "pipe")
        reading = asyncio.ensure_future(read_all(LineStream([str(tmp_path / "pipe")], max_bytes=1000)))
        for _ in range(20):
            await asyncio.sleep(0)
        with (tmp_path / "pipe").open("w") as pipe:
            pipe.write("one\ntwo")
        return await reading

    assert texts(asyncio.run(work())) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ('[{"a": 1},\n {"a": [2]}]\n', [(1, '{"a": 1}'), (2, '{"a": [2]}')]),
        ('[\n  {\n    "a": 1\n  },\n  {\n    "a": 2\n  }\n]', [(2, '{\n    "a": 1\n  }'), (5, '{\n    "a": 2\n  }')]),
        ('{"object": "list", "data": [{"a": 1}, {"a": 2}], "has_more": false}', [(1, '{"a": 1}'), (1, '{"a": 2}')]),
        ('{\n "x": {"data": 1},\n "runs": [\n{"a": 1}\n]}', [(4, '{"a": 1}')]),
        ('{\n "a": 1\n}\n', [(1, '{\n "a": 1\n}')]),
        ('{"a": 1}\n{"a": 2}\n', [(1, '{"a": 1}'), (2, '{"a": 2}')]),
        ('{"a": 1}\nbroken\n', [(1, '{"a": 1}'), (2, "broken")]),
        ('{\n"a": 1\n}\n{\n"a": 2\n}', [(1, '{\n"a": 1\n}'), (4, '{\n"a": 2\n}')]),
        ("[]", []),
        ("", []),
    ],
)
def test_a_json_file_is_split_into_its_records(tmp_path: Path, text: str, records: list[tuple[int, str]]) -> None:
    path = tmp_path / "export.json"
    path.write_text(text)
    found = read(path)
    assert [(line.number, data.decode()) for line, data in zip(found, texts(found), strict=True)] == records


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (b'[{"a": 1},\n {"a": }]', 2, "the file is not valid JSON"),
        (b'[{"a": 1}', 1, "the file is not valid JSON"),
        (b'[{"a": "\xff"}]', 1, "is not valid UTF-8"),
        (b"[" + b" " * 2000 + b"]", 1, "write it as JSON Lines: jq -c '.[]' FILE"),
    ],
)
def test_a_broken_json_file_is_one_lost_line(tmp_path: Path, text: bytes, line: int, reason: str) -> None:
    path = tmp_path / "export.json"
    path.write_bytes(text)
    [lost] = read(path)
    assert isinstance(lost, LostLine)
    assert lost.number == line
    assert reason in lost.message


EXPORTS = [b"\n\x02ab", b"\n\x00", b"\n" + b"x" * 100_000]


def framed(*exports: bytes) -> bytes:
    return b"".join(len(export).to_bytes(4, "big") + export for export in exports)


def test_exports_after_their_lengths_are_lines(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(framed(*EXPORTS))
    found = read(tmp_path / "log", max_bytes=10**6)
    assert (texts(found), [line.number for line in found]) == (EXPORTS, [1, 2, 3])


def test_exports_come_from_a_pipe_byte_by_byte(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    data = framed(*EXPORTS[:2])

    async def write_and_read() -> list[ReadLine]:
        pipe = os.open(tmp_path / "pipe", os.O_RDWR)  # opening it to write alone would wait for the reader
        reading = asyncio.create_task(read_all(LineStream([str(tmp_path / "pipe")], max_bytes=1000)))
        for byte in data:
            os.write(pipe, bytes([byte]))
            await asyncio.sleep(0)
        os.close(pipe)
        return await reading

    assert texts(asyncio.run(write_and_read())) == EXPORTS[:2]


def test_a_truncated_or_too_large_export_is_lost_earlier_ones_are_read(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(framed(*EXPORTS[:2], b"\nabcd")[:-1])
    assert read(tmp_path / "short")[2:] == [LostLine(str(tmp_path / "short"), 3, "the file is truncated")]
    (tmp_path / "large").write_bytes(framed(*EXPORTS, EXPORTS[0]))
    *before, lost = read(tmp_path / "large", max_bytes=2**16)
    assert texts(before) == EXPORTS[:2]
    assert isinstance(lost, LostLine)
    assert "the export has 100,001 bytes; at most 0 MiB are read" in lost.message
