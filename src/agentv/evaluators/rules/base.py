"""The base of all rules: a check of one text that reports what it expected and what it found."""

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.results.sources import expected_answer, source_text, source_value
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import MISSING_WORKSPACE, EvaluationContext, EvaluationScore
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import compact_json

SHOWN_CHARS = 120
"""The maximum length of a text quoted in a hit or a miss."""

# `json.dumps` makes an encoder on each call.
_encode = json.JSONEncoder(ensure_ascii=False).encode

_REASONING_LINES = 5
_REASONING_CHARS = 1000

MAX_FILE_BYTES = 10 * 2**20
"""The maximum size of a workspace file that is read as the judged text."""


class Finding(Struct, frozen=True, gc=False):
    """The result of a rule. `passed` does not depend on the number of hits and misses."""

    passed: bool
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()


Check: TypeAlias = Callable[[str], Finding]


def reasoning_of(finding: Finding) -> str | None:
    """Return the hits of a rule that passed, else its misses, on one line; None if there are none."""
    lines = finding.hits if finding.passed else finding.misses
    if not lines:
        return None
    more = len(lines) - _REASONING_LINES
    text = "; ".join(lines[:_REASONING_LINES]) + (f"; and {more} more" if more > 0 else "")
    return text if len(text) <= _REASONING_CHARS else f"{text[:_REASONING_CHARS]} …"


_PASSED, _FAILED = EvaluationScore(1.0), EvaluationScore(0.0)


class RuleEvaluator:
    """A deterministic check of one text: 1.0 when it passes, 0.0 when not.

    `inline` is True if the check is quick on any text, so that it needs no thread of its own. The object has no state
    between calls, so it may check many answers, also concurrently.
    """

    reusable = True
    reads_workspace = False  # a source that is a file in it is checked in `judged_text`

    def __init__(self, kind: str, check: Check, *, source: str = "response", inline: bool = True) -> None:
        self.kind = kind
        self.inline = inline
        self._check = check
        self._source = source

    def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Check the text at `source`. Raises EvaluatorError when there is none."""
        finding = self._check(judged_text(context, self._source))
        hits, misses = finding.hits, finding.misses
        aspects = len(hits) + len(misses) or 1
        return replace(_PASSED if finding.passed else _FAILED, hits=hits, misses=misses, expected_aspect_count=aspects)


def judged_text(context: EvaluationContext, source: str) -> str:
    """Return the text at `source` of a context. Raises EvaluatorError when there is none."""
    if source == "response":
        return context.candidate
    workspace = context.workspace_path
    if context.is_workspace_missing and source.startswith("files."):
        raise EvaluatorError(MISSING_WORKSPACE)
    read_file = None if workspace is None else partial(_read_workspace_file, Path(workspace))
    return source_text(context, source, read_file=read_file)


def _read_workspace_file(workspace: Path, path: str) -> str:
    """Read a file in the workspace. A link out of the workspace is refused: an agent may have made it."""
    from agentv.execution.folder_trees import open_beneath  # noqa: PLC0415 - few cases have a workspace

    try:
        root = workspace.resolve()
        inside = (root / path).resolve().relative_to(root)
        descriptor = None if workspace.is_symlink() else open_beneath(root, inside.as_posix())
    except (OSError, RuntimeError, ValueError):  # no such folder, a circle of links, a path out of the workspace
        descriptor = None
    if descriptor is None:
        raise EvaluatorError(f"there is no file {path!r} in the workspace")
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise EvaluatorError(f"the file {path!r} is larger than 10 MiB")
    return content.decode(errors="replace")


def quoted(text: str) -> str:
    """Return a text in quotes on one line, shortened in the middle when it is long."""
    return _encode(_shortened(text))


def _shortened(text: str) -> str:
    if len(text) <= SHOWN_CHARS:
        return text
    half = SHOWN_CHARS // 2
    return f"{text[:half]} … {text[-half:]}"


def references_at(context: EvaluationContext, paths: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each reference as (path, text); each item of a list of texts or numbers has its own path.

    Raises EvaluatorError when a path has no value, or an empty list.
    """
    for path in paths:
        value = _reference_at(context, path)
        if isinstance(value, str):
            yield path, value
        elif not isinstance(value, list | tuple):
            yield path, judged_text(context, path)
        elif not value:
            raise EvaluatorError(f"the reference {path!r} is an empty list: there is nothing to compare with")
        elif all(isinstance(item, str | int | float) for item in value):
            for number, item in enumerate(value):
                yield f"{path}.{number}", item if isinstance(item, str) else compact_json(item)
        else:
            yield path, judged_text(context, path)


def _reference_at(context: EvaluationContext, path: str) -> JsonValue:
    if path == "ground_truth":  # the default path, which needs no lookup
        return expected_answer(context)
    return None if path.startswith("files.") else source_value(context, path)
