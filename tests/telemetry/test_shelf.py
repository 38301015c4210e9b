"""The spans of open traces, in memory and in a temporary file."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from agentv.telemetry.joining.shelf import SpanShelf
from agentv.telemetry.otlp.spans import Span


def span(trace: int, number: int) -> Span:
    return Span(trace_id=f"{trace:032x}", span_id=f"{number:016x}", name="n" * 100)


@pytest.fixture(params=[2**20, 2000], ids=["in memory", "in a file"])
def shelf(request: pytest.FixtureRequest) -> Iterator[SpanShelf]:
    with closing(SpanShelf(memory_bytes=request.param, unused_bytes=10_000)) as made:
        yield made


def test_the_file_of_an_endless_stream_does_not_grow(shelf: SpanShelf) -> None:
    kept = [span(0, number) for number in range(20)]
    for each in kept:
        shelf.add(each)
    for trace in range(1, 1000):
        shelf.add(span(trace, 1))
        assert list(shelf.spans(f"{trace:032x}")) == [span(trace, 1)]
        shelf.drop(f"{trace:032x}")
        assert shelf.file_size < 3 * shelf.size + 10_000
    assert list(shelf.spans(f"{0:032x}")) == kept
