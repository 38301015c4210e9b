"""The answers of running agents, whose traces are received, as lines for workers to pull."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from itertools import islice
from typing import Final, TypeAlias

from agentv.engine.logs.trace_lines import AnswerLines
from agentv.execution.processes.line_stream import ReadLine
from agentv.telemetry.joining.answers import TracedAnswer
from agentv.telemetry.joining.hints import content_hint
from agentv.telemetry.joining.joining import JoinOptions
from agentv.telemetry.joining.live import LiveJoiner
from agentv.telemetry.otlp.spans import Span
from agentv.types.input_notes import InputNote

OTLP: Final = "otlp"
"""The file name in the origin of received answers; each request is a line."""

Deliver: TypeAlias = Callable[[str, Sequence[Span]], bool]
Receiver: TypeAlias = AbstractAsyncContextManager[object]
MakeReceiver: TypeAlias = Callable[[Deliver, Callable[[], bool]], Receiver]
"""Makes a receiver from a function that takes spans and one that returns True while no more can be taken."""

_LINES_PER_BATCH = 16


class LiveTraces:
    """The answers in received traces. The receiver runs while they are read.

    `received` is the number of requests that an earlier process has received for the same run.
    `on_note` gets once for each instrumentation that it records no messages, as soon as that is known.
    """

    def __init__(
        self,
        make_receiver: MakeReceiver,
        options: JoinOptions,
        *,
        received: int = 0,
        on_note: Callable[[str], None] = lambda _note: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._joiner = LiveJoiner(options)
        self._lines = AnswerLines()
        self._on_note = on_note
        self._noted: set[str] = set()
        self._clock = clock
        self._requests = received
        self._changed = asyncio.Event()
        self._is_ended = self._is_stopped = False
        self._receiver = make_receiver(self._deliver, lambda: self._joiner.is_full)

    def _deliver(self, prefix: str, spans: Sequence[Span]) -> bool:
        if prefix:
            return False
        self._requests += 1
        self._joiner.receive(spans, file=OTLP, line=self._requests, now_s=self._clock())
        self._changed.set()
        return True

    def end(self) -> None:
        """Receive no more; the lines of complete traces follow."""
        self._is_ended = True
        self._changed.set()

    def stop(self) -> None:
        """Return no more lines."""
        self._is_stopped = True
        self.end()

    async def batches(self) -> AsyncGenerator[list[ReadLine], None]:
        """Yield the lines of traces that are complete, and at the end those of all others."""
        try:
            async with self._receiver:
                while not self._is_ended:
                    self._changed.clear()
                    for batch in self._batches(self._joiner.due(self._clock())):
                        yield batch
                    await self._wait()
            for batch in self._batches(self._joiner.end(self._clock())):
                yield batch
        finally:
            self._joiner.close()

    def _batches(self, answers: Iterator[TracedAnswer]) -> Iterator[list[ReadLine]]:
        while not self._is_stopped and (batch := list(map(self._lines.line_of, islice(answers, _LINES_PER_BATCH)))):
            yield batch
        self._note_silent()

    def _note_silent(self) -> None:
        for scope in self._joiner.report.without_content.keys() - self._noted:
            self._noted.add(scope)
            name = scope or "an instrumentation without a name"
            self._on_note(f"the traces of {name} have no messages, so they cannot be judged: {content_hint(scope)}")

    async def _wait(self) -> None:
        """Wait until spans arrive, a trace is due, or no more is received."""
        due_s = self._joiner.next_due_s()
        with suppress(TimeoutError):
            async with asyncio.timeout(None if due_s is None else max(0.0, due_s - self._clock())):
                await self._changed.wait()

    def notes(self) -> Iterator[InputNote]:
        """Yield what is not certain of the traces, and what was not understood."""
        if not self._joiner.report.spans:
            yield InputNote("no traces arrived")
        yield from self._joiner.report.notes()

    @property
    def counts(self) -> tuple[int, int]:
        """The number of spans and of traces."""
        return self._joiner.report.spans, self._joiner.report.traces
