"""Invalid files with their messages: YAML, then the expected messages in lines that start with `#>`."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from agentv.types.problems import Problem

_MARK = "#> "


class WrongFile(NamedTuple):
    """An invalid file: its bytes, and the expected problems in order."""

    name: str
    content: str
    messages: tuple[str, ...]


def wrong_files(folder: str) -> list[WrongFile]:
    """Return the invalid files of a folder beside this module."""
    return [_read(path) for path in sorted((Path(__file__).parent / folder).glob("*.yaml"))]


def _read(path: Path) -> WrongFile:
    text = path.read_bytes().decode()
    content, _, expected = text.partition(_MARK)
    messages = f"{_MARK}{expected}".splitlines() if expected else []
    return WrongFile(path.stem, content, tuple(line.removeprefix(_MARK) for line in messages))


def said(problems: Iterable[Problem], path: str) -> tuple[str, ...]:
    """Return the messages of problems, without the name of their file."""
    return tuple(problem.render().removeprefix(path).removeprefix(":").strip() for problem in problems)
