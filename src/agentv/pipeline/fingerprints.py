"""What the files say that an evaluator's settings name: scripts, prompts, word lists. Part of its score's key."""

import hashlib
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentv.types.cases import EvaluatorConfig, EvaluatorLike
from agentv.types.json_value import JsonValue

LONGEST_PATH = 1024


class Fingerprints:
    """Digests of files named in settings, each file read once a run."""

    def __init__(self) -> None:
        self._files: dict[Path, str | None] = {}
        self._configs: dict[int, tuple[EvaluatorConfig, dict[str, JsonValue]]] = {}

    def of(self, evaluator: EvaluatorLike) -> dict[str, JsonValue]:
        """Return the digest of every file that an evaluator's settings name, by the name used there."""
        if not isinstance(evaluator, EvaluatorConfig):
            return {}
        kept = self._configs.get(id(evaluator))
        if kept is not None and kept[0] is evaluator:
            return kept[1]
        folder = Path(evaluator.base_dir)
        found: dict[str, JsonValue] = {}
        for text in _texts(evaluator.settings):
            for word in _words(text):
                digest = self._digest(folder / word)
                if digest is not None:
                    found[word] = digest
        self._configs[id(evaluator)] = (evaluator, found)
        return found

    def _digest(self, path: Path) -> str | None:
        if path not in self._files:
            try:
                self._files[path] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
            except (OSError, ValueError):
                self._files[path] = None
        return self._files[path]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, EvaluatorConfig):
        yield from _texts(value.settings)


def _words(text: str) -> Iterator[str]:
    """Yield what in a setting may be a file: the whole text, and the words of a command (`python judge.py:score`)."""
    if "\n" in text or len(text) > LONGEST_PATH or not text:
        return
    try:
        words = shlex.split(text)
    except ValueError:
        words = [text]
    for word in {text, *words}:
        yield word.partition(".py:")[0] + ".py" if ".py:" in word else word
