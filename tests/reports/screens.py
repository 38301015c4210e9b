"""What a screen of a run needs in tests: a stream with an encoding, as real ones have, and a clock that is turned."""

import io
from datetime import datetime, timedelta

from tests.support.stored import NOON


class EncodedStream(io.StringIO):
    """Keeps what is written; the encoding must do for all of it."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a real stream has one
        return self._encoding

    def write(self, text: str) -> int:
        text.encode(self._encoding)
        return super().write(text)


class Hand:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now

    def turn(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
