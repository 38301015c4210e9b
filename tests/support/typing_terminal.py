"""A terminal where somebody answers what a command asks."""

from dataclasses import dataclass


@dataclass
class Terminal:
    """A standard input where somebody types."""

    typed: str

    def isatty(self) -> bool:
        return True

    def readline(self, _size: int = -1) -> str:
        return self.typed
