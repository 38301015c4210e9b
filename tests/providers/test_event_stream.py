"""Server-sent events are read the same however their bytes are cut into chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.providers.apis.streamed_response import EventReader, ServerEvent
from agentv.types.provider import ProviderError

STREAM = (
    b"\xef\xbb\xbf: a comment\r\n\r\n"
    b'event: token\r\ndata: {"text": "Caf\xc3\xa9 \xf0\x9f\x98\x80"}\r\n\r\n'
    b"id: 7\nretry: 10\ndata:no space\ndata\ndata:  two spaces\n\n"
    b"event: without data\n\n"
    b"data: after\rdata: returns\r\r"
    b"data: [DONE]\n\n"
)
EVENTS = [
    ServerEvent("token", '{"text": "Café 😀"}'),
    ServerEvent("", "no space\n\n two spaces"),
    ServerEvent("", "after\nreturns"),
    ServerEvent("", "[DONE]"),
]


def read(chunks: list[bytes], **options: int) -> list[ServerEvent]:
    reader = EventReader(**options)
    return [event for chunk in chunks for event in reader.feed(chunk)]


def test_events_have_a_name_and_data_in_one_or_more_lines() -> None:
    assert read([STREAM]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=12).map(sorted))
def test_chunks_may_end_within_a_character_or_a_line_end(cuts: list[int]) -> None:
    chunks = [STREAM[start:end] for start, end in zip([0, *cuts], [*cuts, len(STREAM)], strict=True)]
    assert read(chunks) == EVENTS


def test_one_byte_at_a_time_is_the_same() -> None:
    assert read([bytes([byte]) for byte in STREAM]) == EVENTS


@pytest.mark.parametrize("end", [b"data: last", b"data: last\n", b"data: last\r"])
def test_the_end_of_the_response_closes_the_last_event(end: bytes) -> None:
    reader = EventReader()
    assert list(reader.feed(end)) == []
    assert reader.end() == ServerEvent("", "last")
    assert reader.end() is None


def test_lines_that_belong_to_no_event_are_kept() -> None:
    reader = EventReader()
    assert list(reader.feed(b'{\n  "error": {"code": 503}\n}\n: comment\nid: 1\n\n')) == []
    assert reader.strays == b'{\n  "error": {"code": 503}\n}\n'


@pytest.mark.parametrize(
    "chunks",
    [[b"data: " + b"x" * 100], [b"data: ", b"x" * 60, b"x" * 60], [b"data: " + b"x" * 60 + b"\n"] * 2, [b"x" * 101]],
)
def test_an_event_or_a_line_above_the_limit_is_refused(chunks: list[bytes]) -> None:
    with pytest.raises(ProviderError, match="larger than") as raised:
        read(chunks, max_bytes=100)
    assert raised.value.failure.kind == "too_large"


def test_invalid_utf8_is_reported_with_its_place() -> None:
    with pytest.raises(ProviderError, match="first invalid byte at offset 3") as raised:
        read([b"data: abc\xff\n\n"])
    assert raised.value.failure.kind == "malformed_reply"
