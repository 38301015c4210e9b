"""Lines are read from a stream only when a worker is free."""

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator
from pathlib import Path

from agentv.engine.logs.stream import SampledLines
from agentv.execution.processes.line_stream import Line, LineStream, ReadLine
from agentv.scoring.counting.sampling import Sample, make_sample


def drawn(path: Path, sample: Sample) -> list[int]:
    async def work() -> list[int]:
        lines = SampledLines(LineStream([str(path)], max_bytes=10**6), sample)
        found = []
        while (line := await lines.next()) is not None:
            found.append(line.number)
        return found

    return asyncio.run(work())


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


class Endless(LineStream):
    """A stream that never ends, and counts the batches of ten lines read."""

    taken = 0

    async def batches(self) -> AsyncGenerator[list[ReadLine], None]:
        for number in itertools.count(step=10):
            self.taken += 1
            yield [Line("log", number + place, b"x") for place in range(1, 11)]


def test_no_more_lines_are_read_than_needed() -> None:
    async def work() -> list[tuple[int, int]]:
        stream = Endless([], max_bytes=1000)
        lines = SampledLines(stream, Sample())
        seen = []
        for wanted in range(1, 32):
            await lines.next()
            seen.append((wanted, stream.taken))
        await lines.close()
        return seen

    assert asyncio.run(work()) == [(wanted, (wanted + 9) // 10) for wanted in range(1, 32)]


def test_a_sample_is_the_same_in_any_order_of_lines(tmp_path: Path) -> None:
    texts = [f'{{"n": {number}}}' for number in range(1000)]
    share, count = make_sample("10%", by=None, seed=3), make_sample("100", by=None, seed=3)
    there = write(tmp_path / "there", texts)
    back = write(tmp_path / "back", texts[::-1])
    for sample in (share, count):
        forward = drawn(there, sample)
        assert forward == sorted(forward)
        assert forward == [1001 - number for number in reversed(drawn(back, sample))]
    assert len(drawn(there, count)) == 100
    assert set(drawn(there, make_sample("10", by=None, seed=3))) < set(drawn(there, count))


def test_more_lines_than_there_are_is_all_of_them(tmp_path: Path) -> None:
    assert drawn(write(tmp_path / "log", ["a", "", "  ", "b"]), make_sample("100", by=None, seed=0)) == [1, 4]


def test_a_line_without_the_key_decides_for_itself(tmp_path: Path) -> None:
    path = write(tmp_path / "log", [*(f"no json {number}" for number in range(500)), *['{"id": 1}'] * 20])
    found = drawn(path, make_sample("50%", by="id", seed=0))
    others = [number for number in found if number <= 500]
    assert 200 <= len(others) <= 300
    assert len(found) - len(others) in (0, 20)


def test_stop_releases_workers_that_wait_for_a_line(tmp_path: Path) -> None:
    async def work() -> list[object]:
        os.mkfifo(tmp_path / "pipe")
        pipe = os.open(tmp_path / "pipe", os.O_RDWR)
        lines = SampledLines(LineStream([str(tmp_path / "pipe")], max_bytes=1000), Sample())
        os.write(pipe, b"one\n")
        first = await lines.next()
        assert isinstance(first, Line)
        waiting = [asyncio.ensure_future(lines.next()) for _ in range(3)]
        await asyncio.sleep(0)
        os.write(pipe, b"two\n")
        lines.stop()
        found: list[object] = list(await asyncio.gather(*waiting))
        await lines.close()
        os.close(pipe)
        return found

    assert asyncio.run(work()) == [None, None, None]
