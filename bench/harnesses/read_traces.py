"""Reads traces from a file or from standard input up to the answers, as `agentv score` does before it judges."""

import asyncio
import json
import sys
import time
from dataclasses import asdict

from agentv.engine.logs.stream import LogStream
from agentv.execution.processes.line_stream import Line
from agentv.loading.suites.recorded import MAX_LINE_BYTES
from bench.harnesses.job import Used, peak_mb


async def read(file: str) -> int:
    """Return the number of answers."""
    answers = 0
    stream = LogStream([file], max_bytes=MAX_LINE_BYTES)
    async for batch in stream.batches():
        answers += sum(isinstance(line, Line) and bool(line.span_id) and not line.is_open for line in batch)
    return answers


def main() -> None:
    """Read the file `sys.argv[1]`, and print the number of answers and the measurements."""
    cpu, wall = time.process_time(), time.perf_counter()
    answers = asyncio.run(read(sys.argv[1]))
    used = Used(time.process_time() - cpu, time.perf_counter() - wall, peak_mb())
    print(json.dumps({"answers": answers, **asdict(used)}), flush=True)


if __name__ == "__main__":
    main()
