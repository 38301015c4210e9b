"""A terminal with an interactive standard input."""

from dataclasses import dataclass


@dataclass
class Terminal:
    """A standard input that is a terminal, with typed text."""

    typed: str

    def isatty(self) -> bool:
        return True

    def readline(self, _size: int = -1) -> str:
        return self.typed
