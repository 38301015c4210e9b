"""Traces read up to the answers: CPU per span and peak memory, from a file and from a pipe, in JSON and protobuf."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from bench.harness import ROOT
from bench.measuring import Effort
from bench.rows import AtLeast, AtMost, Row, megabytes
from bench.trace_input import (
    ANSWERS_PER_CONVERSATION,
    SPANS_PER_CONVERSATION,
    MadeSpan,
    as_json,
    as_protobuf,
    exports,
    with_length,
)

CONVERSATIONS, MANY_CONVERSATIONS = 1_000, 10_000
_ROUNDS = 3
_PER_SECOND = AtLeast(15_000)
Written: TypeAlias = Callable[[Sequence[MadeSpan], int], bytes]
FORMS: dict[str, tuple[str, Written]] = {
    "JSON": ("spans.jsonl", as_json),
    "protobuf": ("spans.pb", lambda export, first: with_length(as_protobuf(export, first))),
}


def measure(effort: Effort) -> Iterator[Row]:
    """Yield spans per second of CPU, the best of three, and memory: of 30,000 spans, or 300,000 with `everything`."""
    conversations = MANY_CONVERSATIONS if effort.everything else effort.calls(CONVERSATIONS)
    spans = conversations * SPANS_PER_CONVERSATION
    for form, (name, written) in FORMS.items():
        with TemporaryDirectory() as folder:
            path = Path(folder, name)
            _write(path, conversations, written)
            for source in ("file", "pipe"):
                used = [_read(path, source, conversations) for _ in range(min(_ROUNDS, effort.rounds))]
                fastest = spans / min(each["cpu_s"] for each in used)
                what = f"{spans:,} spans of 2 kB, {form}, {source}"
                yield Row(
                    work=f"{what}: spans per second of CPU",
                    ours=fastest,
                    target=_PER_SECOND,
                    shown=lambda count: f"{count:,.0f}",
                )
                peak = max(each["peak_mb"] for each in used)
                yield Row(work=f"{what}: peak memory", ours=peak, target=AtMost(150), shown=megabytes)


def _write(path: Path, conversations: int, written: Written) -> None:
    first = 0
    with path.open("wb") as file:
        for export in exports(range(conversations)):
            file.write(written(export, first))
            first += len(export)


def _read(path: Path, source: str, conversations: int) -> dict[str, float]:
    """Read a file in a process of its own; return what it used. Raises ValueError unless every answer was found."""
    command = (sys.executable, "-m", "bench.harnesses.read_traces", "-" if source == "pipe" else str(path))
    with subprocess.Popen(  # noqa: S603 - ours
        command, cwd=ROOT, stdin=subprocess.PIPE if source == "pipe" else subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        if process.stdin is not None:
            with path.open("rb") as file, process.stdin as pipe:
                shutil.copyfileobj(file, pipe)
        output = b"" if process.stdout is None else process.stdout.read()
    used: dict[str, float] = json.loads(output)
    if used["answers"] != conversations * ANSWERS_PER_CONVERSATION:
        raise ValueError(f"{used['answers']} answers in {path.name} of {conversations} conversations")
    return used
