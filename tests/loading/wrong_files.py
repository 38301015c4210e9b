"""Wrong files that lie beside their messages: YAML, then what must be said about it in lines that start with `#>`."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from agentv.types.problems import Problem

_MARK = "#> "


class WrongFile(NamedTuple):
    """A file's bytes, and every problem that must be found in it, in order."""

    name: str
    content: str
    messages: tuple[str, ...]


def wrong_files(folder: str) -> list[WrongFile]:
    """Return the wrong files of a folder beside this one."""
    return [_read(path) for path in sorted((Path(__file__).parent / folder).glob("*.yaml"))]


def _read(path: Path) -> WrongFile:
    text = path.read_bytes().decode()
    content, _, expected = text.partition(_MARK)
    messages = f"{_MARK}{expected}".splitlines() if expected else []
    return WrongFile(path.stem, content, tuple(line.removeprefix(_MARK) for line in messages))


def said(problems: Iterable[Problem], path: str) -> tuple[str, ...]:
    """Return what problems say, without the name of the file that they are all in."""
    return tuple(problem.render().removeprefix(path).removeprefix(":").strip() for problem in problems)
